// Encodes a few rows of several columns at a time, column by column: the bytes that `encoder` writes row by row.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "libgpuhash/columns/cells.hpp"
#include "libgpuhash/columns/keys.hpp"
#include "libgpuhash/columns/texts.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash::columns {

class block_encoder {
 public:
  static constexpr int64_t most = tunable("encoded_rows", int64_t{64});  // of a call
  struct block {
    std::array<char*, size_t(most)> at;  // each of which may be read for 16 bytes at least
    std::array<uint32_t, size_t(most)> length;
    std::array<found_as, size_t(most)> what;
    size_t taken = 0;  // bytes of the heap
  };

  block_encoder(const rows& given, const row_type& own, bool bits, const encoder& cells)
      : given_(given), own_(own), cells_(cells), bits_(bits) {
    if (own.single() || given.columns.size() != own.columns.size()) return;
    plans_.reserve(own.columns.size());
    size_t word = (own.columns.size() + 7) / 8;
    for (size_t i = 0; i < own.columns.size(); ++i) {
      plans_.push_back({word, way_of(i), has_nulls(i)});
      word += 8 * own.columns[i].words();
      variable_ |= own.columns[i].variable();
    }
  }

  /// Are these rows of several columns?
  bool serves() const { return !plans_.empty(); }

  /// Write rows begin .. begin + n - 1. False: one of them may have 4 GiB, and nothing was written.
  bool write(int64_t begin, int64_t n, heap* bytes, block* out) const {
    std::array<char*, size_t(most)> tails;
    if (!place(begin, n, bytes, out, tails.data())) return false;
    const size_t bitmap = (own_.columns.size() + 7) / 8;
    for (int64_t k = 0; k < n; ++k) std::memset(out->at[size_t(k)], 0, bitmap);
    std::fill_n(out->what.begin(), n, found_as::key);
    for (size_t i = 0; i < plans_.size(); ++i) write_column(i, begin, n, out, tails.data());
    for (int64_t k = 0; k < n; ++k) out->length[size_t(k)] = uint32_t(tails[size_t(k)] - out->at[size_t(k)]);
    return true;
  }

 private:
  static constexpr size_t gap = 16;  // after each row with bytes, which are copied so many at a time

  // How the cells of a column are read: as numbers of a type, as text of a layout, or one by one.
  enum class way : uint8_t { one_by_one, nothing, i1, i2, i4, i8, u1, u2, u4, u8, f4, f8, texts32, texts64, views };
  struct plan {
    size_t word;  // where the words are in a row
    way how;
    bool nulls;  // some cells may be null
  };

  bool has_nulls(size_t i) const { return given_.columns[i].validity != nullptr; }

  way way_of(size_t i) const {
    const column_view& c = given_.columns[i];
    const column_type &t = *c.type, &own = own_.columns[i];
    for (int32_t p = own.parent; p >= 0; p = own_.columns[size_t(p)].parent)
      if (has_nulls(size_t(p))) return way::one_by_one;
    if (c.values || t.kind != own.kind) return way::one_by_one;
    if (own.kind == family::structure) return has_nulls(i) ? way::one_by_one : way::nothing;
    if (own.variable()) return own.how == layout::fixed_bytes ? way::one_by_one : way_of_texts(t);
    if (t.how != layout::fixed || t.width != own.width || t.is_signed != own.is_signed ||
        t.nanoseconds != own.nanoseconds || own.kind == family::decimal)
      return way::one_by_one;
    if (own.kind == family::floating && !bits_)
      return t.width == 8 ? way::f8 : t.width == 4 ? way::f4 : way::one_by_one;
    switch (t.width) {
      case 1: return t.is_signed ? way::i1 : way::u1;
      case 2: return t.is_signed ? way::i2 : way::u2;
      case 4: return t.is_signed ? way::i4 : way::u4;
      default: return t.is_signed ? way::i8 : way::u8;
    }
  }
  static way way_of_texts(const column_type& t) {
    switch (t.how) {
      case layout::offsets32: return way::texts32;
      case layout::offsets64: return way::texts64;
      case layout::views: return way::views;
      default: return way::one_by_one;
    }
  }

  // ---- where the rows lie -----------------------------------------------------------------------------------------

  bool place(int64_t begin, int64_t n, heap* bytes, block* out, char** tails) const {
    const size_t fixed = cells_.fixed_bytes();
    std::array<uint64_t, size_t(most)> sizes;
    std::fill_n(sizes.begin(), n, fixed);
    uint64_t total = uint64_t(n) * fixed, largest = fixed;
    if (variable_) {
      for (size_t i = 0; i < plans_.size(); ++i)
        if (own_.columns[i].variable()) add_sizes(i, begin, n, sizes.data());
      total = 0;
      for (int64_t k = 0; k < n; ++k) {
        largest = std::max(largest, sizes[size_t(k)]);
        total += sizes[size_t(k)] += gap;
      }
    }
    if (largest >= UINT32_MAX) return false;
    out->taken = total + gap;
    char* next = bytes->take(out->taken);
    for (int64_t k = 0; k < n; ++k) {
      out->at[size_t(k)] = next;
      tails[k] = next + fixed;
      next += sizes[size_t(k)];
    }
    return true;
  }
  void add_sizes(size_t i, int64_t begin, int64_t n, uint64_t* sizes) const {
    switch (plans_[i].how) {
      case way::texts32: return add_sizes_of<layout::offsets32>(i, begin, n, sizes);
      case way::texts64: return add_sizes_of<layout::offsets64>(i, begin, n, sizes);
      case way::views: return add_sizes_of<layout::views>(i, begin, n, sizes);
      default:
        for (int64_t k = 0; k < n; ++k) sizes[k] += cells_.bytes_of(i, begin + k);
    }
  }
  template <layout how>
  void add_sizes_of(size_t i, int64_t begin, int64_t n, uint64_t* sizes) const {
    const column_view& c = given_.columns[i];
    const texts_of<how> text{c};
    for (int64_t k = 0; k < n; ++k) sizes[k] += c.valid(begin + k) ? text.length(begin + k) : 0;
  }

  // ---- columns ----------------------------------------------------------------------------------------------------

  void write_column(size_t i, int64_t begin, int64_t n, block* out, char** tails) const {
    switch (plans_[i].how) {
      case way::nothing: return;
      case way::i1: return write_words<int8_t>(i, begin, n, out);
      case way::i2: return write_words<int16_t>(i, begin, n, out);
      case way::i4: return write_words<int32_t>(i, begin, n, out);
      case way::i8: return write_words<int64_t>(i, begin, n, out);
      case way::u1: return write_words<uint8_t>(i, begin, n, out);
      case way::u2: return write_words<uint16_t>(i, begin, n, out);
      case way::u4: return write_words<uint32_t>(i, begin, n, out);
      case way::u8: return write_words<uint64_t>(i, begin, n, out);
      case way::f4: return write_words<float>(i, begin, n, out);
      case way::f8: return write_words<double>(i, begin, n, out);
      case way::texts32: return write_texts<layout::offsets32>(i, begin, n, out, tails);
      case way::texts64: return write_texts<layout::offsets64>(i, begin, n, out, tails);
      case way::views: return write_texts<layout::views>(i, begin, n, out, tails);
      case way::one_by_one: break;
    }
    for (int64_t k = 0; k < n; ++k)
      cells_.write_cell(i, begin + k, out->at[size_t(k)], out->at[size_t(k)] + plans_[i].word, &tails[k],
                        &out->what[size_t(k)]);
  }

  template <class T>
  static uint64_t word(T cell) {
    if constexpr (std::is_floating_point_v<T>) return word_of(double(cell));
    return uint64_t(cell);
  }
  template <class T>
  void write_words(size_t i, int64_t begin, int64_t n, block* out) const {
    const column_view& c = given_.columns[i];
    const size_t at = plans_[i].word;
    if (!plans_[i].nulls) {
      for (int64_t k = 0; k < n; ++k) {
        const uint64_t w = word(c.cell<T>(begin + k));
        std::memcpy(out->at[size_t(k)] + at, &w, 8);
      }
      return;
    }
    for (int64_t k = 0; k < n; ++k) {
      const bool null = !c.valid(begin + k);
      const uint64_t w = word(c.cell<T>(begin + k)) & (uint64_t(null) - 1);
      std::memcpy(out->at[size_t(k)] + at, &w, 8);
      note(null, i, size_t(k), out);
    }
  }
  // No way but one_by_one finds a row absent, and `null` is less than that.
  void note(bool null, size_t i, size_t k, block* out) const {
    char& bits = out->at[k][i >> 3];
    bits = char(bits | int(null) << (i & 7));
    out->what[k] = std::max(out->what[k], null ? found_as::null : found_as::key);
  }

  template <layout how>
  void write_texts(size_t i, int64_t begin, int64_t n, block* out, char** tails) const {
    const column_view& c = given_.columns[i];
    const texts_of<how> texts{c};
    const size_t at = plans_[i].word;
    for (int64_t k = 0; k < n; ++k) {
      const bool null = plans_[i].nulls && !c.valid(begin + k);
      const text s = null ? text{nullptr, 0, nullptr} : texts[begin + k];
      const uint64_t length = s.length;
      std::memcpy(out->at[size_t(k)] + at, &length, 8);
      copy(tails[k], s);
      tails[k] += length;
      if (plans_[i].nulls) note(null, i, size_t(k), out);
    }
  }
  // More bytes than the text has may be written: up to `gap`, over what the next column or no one has there.
  static void copy(char* to, const text& s) {
    const int64_t readable = s.end - s.begin;
    if (s.length <= 16 && readable >= 16)
      std::memcpy(to, s.begin, 16);
    else if (s.length <= 12 && readable >= 12)
      std::memcpy(to, s.begin, 12);
    else if (s.length)
      std::memcpy(to, s.begin, s.length);
  }

  const rows& given_;
  const row_type& own_;
  const encoder& cells_;
  bool bits_, variable_ = false;
  std::vector<plan> plans_;  // none: not of several columns
};

}  // namespace gpuhash::columns
