// Flatbuffers, the encoding of Arrow's metadata: as much of it as schemas, record batches and footers need.
// pygpuhash/saved/flatbuffers.py is the same in Python.
#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "libgpuhash/saved/malformed.hpp"

namespace gpuhash::saved {

// ---- writing ----------------------------------------------------------------------------------------------------------

// A field of a table, which is written as a list of its fields in the order of their ids.
struct field {
  enum kind_of { absent, number, text, structs, table, tables } kind = absent;
  uint32_t width = 4;  // bytes in the table
  uint64_t value = 0;  // of a number; of structs how many they are
  std::string bytes;   // of a text or of structs
  std::vector<field> fields;

  static field of_number(uint32_t width, uint64_t value) { return {number, width, value, {}, {}}; }
  static field of_text(std::string_view text) { return {field::text, 4, 0, std::string(text), {}}; }
  static field of_structs(uint64_t count, std::string bytes) { return {structs, 4, count, std::move(bytes), {}}; }
  static field of_table(std::vector<field> fields) { return {table, 4, 0, {}, std::move(fields)}; }
  static field of_tables(std::vector<field> each) { return {tables, 4, 0, {}, std::move(each)}; }
};

class writing {
 public:
  // The bytes of a table and everything below it, a multiple of 8.
  static std::string bytes(const field& root) {
    writing w;
    w.out_.resize(8);
    w.put(0, uint32_t(w.add_table(root.fields)));
    w.align(8);
    return std::move(w.out_);
  }

 private:
  void align(size_t unit, size_t offset = 0) { out_.append((offset + unit * 64 - out_.size() % unit) % unit, '\0'); }
  template <class T>
  void put(size_t at, T value) {
    std::memcpy(out_.data() + at, &value, sizeof value);
  }
  template <class T>
  void append(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }

  size_t add_table(const std::vector<field>& fields) {
    std::vector<uint16_t> places(fields.size());
    size_t end = 4;
    for (uint32_t width = 8; width; width /= 2)  // the widest first
      for (size_t i = 0; i < fields.size(); ++i)
        if (fields[i].kind != field::absent && fields[i].width == width) {
          end += (width - end % width) % width;
          places[i] = uint16_t(end);
          end += width;
        }
    const size_t vtable = 4 + 2 * fields.size();
    align(8, 8 - vtable % 8);  // so that the table, behind its vtable, begins at a multiple of 8
    append(uint16_t(vtable));
    append(uint16_t(end));
    for (const uint16_t place : places) append(place);
    const size_t at = out_.size();
    out_.append(end, '\0');
    put(at, int32_t(vtable));
    for (size_t i = 0; i < fields.size(); ++i) {
      const size_t place = at + places[i];
      if (fields[i].kind == field::number)
        std::memcpy(out_.data() + place, &fields[i].value, fields[i].width);
      else if (fields[i].kind != field::absent)
        put(place, uint32_t(add(fields[i]) - place));
    }
    return at;
  }

  // What a field refers to; returns where it begins.
  size_t add(const field& f) {
    if (f.kind == field::table) return add_table(f.fields);
    align(f.kind == field::structs ? 8 : 4, f.kind == field::structs ? 4 : 0);
    const size_t at = out_.size();
    if (f.kind == field::tables) {
      append(uint32_t(f.fields.size()));
      out_.append(4 * f.fields.size(), '\0');
      for (size_t i = 0; i < f.fields.size(); ++i) {
        const size_t place = at + 4 + 4 * i;
        put(place, uint32_t(add_table(f.fields[i].fields) - place));
      }
      return at;
    }
    append(uint32_t(f.kind == field::text ? f.bytes.size() : f.value));
    out_ += f.bytes;
    if (f.kind == field::text) out_ += '\0';
    return at;
  }

  std::string out_;
};

// ---- reading ----------------------------------------------------------------------------------------------------------

// A table in the bytes of a file, of which each position is checked before it is read.
class reading {
 public:
  static reading root(std::string_view data) { return {data, number_at<uint32_t>(data, 0)}; }

  reading(std::string_view data, uint64_t at) : data_(data), at_(at) {
    const int64_t vtable = int64_t(at) - number_at<int32_t>(data, at);
    if (vtable < 0) refuse("the table at byte %llu of the metadata has no vtable", (unsigned long long)at);
    vtable_ = uint64_t(vtable);
    size_ = number_at<uint16_t>(data, vtable_);
    const uint64_t whole = number_at<uint16_t>(data, vtable_ + 2);
    if (size_ < 4 || size_ % 2 || whole > data.size() || at > data.size() - whole || vtable_ + size_ > data.size())
      refuse("the table at byte %llu of the metadata has no vtable", (unsigned long long)at);
  }

  template <class T>
  T number(uint32_t id, T absent = 0) const {
    const uint64_t at = place(id);
    return at ? number_at<T>(data_, at) : absent;
  }
  bool has(uint32_t id) const { return place(id) != 0; }
  std::string_view text(uint32_t id) const {
    const uint64_t at = target(id);
    if (!at) return {};
    const uint64_t size = number_at<uint32_t>(data_, at);
    check(data_, at + 4, size);
    return data_.substr(at + 4, size);
  }
  reading table(uint32_t id, const char* what) const {
    const uint64_t at = target(id);
    if (!at) refuse("it has no %s", what);
    return {data_, at};
  }
  uint64_t count(uint32_t id) const {
    const uint64_t at = target(id);
    return at ? number_at<uint32_t>(data_, at) : 0;
  }
  reading element(uint32_t id, uint64_t i) const {
    const uint64_t at = target(id) + 4 + 4 * i;
    return {data_, at + number_at<uint32_t>(data_, at)};
  }
  // The bytes of all structs of a vector.
  std::string_view structs(uint32_t id, size_t width) const {
    const uint64_t n = count(id);
    if (!n) return {};
    const uint64_t at = target(id) + 4;
    check(data_, at, n * width);
    return data_.substr(at, n * width);
  }

  template <class T>
  static T number_at(std::string_view data, uint64_t at) {
    check(data, at, sizeof(T));
    T value;
    std::memcpy(&value, data.data() + at, sizeof value);
    return value;
  }

 private:
  static void check(std::string_view data, uint64_t at, uint64_t size) {
    if (at > data.size() || size > data.size() - at)
      refuse("%llu bytes at byte %llu of the metadata are not in its %zu bytes", (unsigned long long)size,
             (unsigned long long)at, data.size());
  }
  uint64_t place(uint32_t id) const {
    if (4 + 2 * uint64_t(id) + 2 > size_) return 0;
    const uint16_t at = number_at<uint16_t>(data_, vtable_ + 4 + 2 * id);
    return at ? at_ + at : 0;
  }
  uint64_t target(uint32_t id) const {
    const uint64_t at = place(id);
    return at ? at + number_at<uint32_t>(data_, at) : 0;
  }

  std::string_view data_;
  uint64_t at_, vtable_ = 0, size_ = 0;
};

}  // namespace gpuhash::saved
