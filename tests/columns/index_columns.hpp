// Columns of every type that tests make, memory that runs out when they say so, and a reader of cells that knows nothing of
// the library's.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "gpuhash/columns.h"
#include "libgpuhash/columns/keys.hpp"

// ---- memory that runs out --------------------------------------------------------------------------------------------

static std::atomic<long> allocations_left{-1};  // below 0: any number

static bool is_refused() {
  if (allocations_left.load() < 0 || allocations_left.fetch_sub(1) != 0) return false;
  allocations_left = 0;  // and so is every later one
  return true;
}
static void* allocate(size_t n) { return is_refused() ? nullptr : malloc(n ? n : 1); }

// The linker's --wrap leads the library's calls here.
extern "C" {
void* __real_calloc(size_t n, size_t size);
void* __real_realloc(void* p, size_t n);
void* __real_mmap(void* p, size_t n, int protection, int flags, int file, off_t offset);
void* __real_mremap(void* p, size_t before, size_t n, int flags);
void* __wrap_calloc(size_t n, size_t size) { return is_refused() ? nullptr : __real_calloc(n, size); }
void* __wrap_realloc(void* p, size_t n) { return is_refused() ? nullptr : __real_realloc(p, n); }
void* __wrap_mmap(void* p, size_t n, int protection, int flags, int file, off_t offset) {
  return is_refused() ? MAP_FAILED : __real_mmap(p, n, protection, flags, file, offset);
}
void* __wrap_mremap(void* p, size_t before, size_t n, int flags) {
  return is_refused() ? MAP_FAILED : __real_mremap(p, before, n, flags);
}
}
[[gnu::noinline]] void* operator new(size_t n) {
  if (void* const p = allocate(n)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](size_t n) { return operator new(n); }
[[gnu::noinline]] void* operator new(size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
[[gnu::noinline]] void* operator new[](size_t n, const std::nothrow_t&) noexcept { return allocate(n); }
[[gnu::noinline]] void operator delete(void* p) noexcept { free(p); }
[[gnu::noinline]] void operator delete[](void* p) noexcept { free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { free(p); }
[[gnu::noinline]] void operator delete[](void* p, size_t) noexcept { free(p); }

namespace {

using std::string;
using std::vector;

int wrong = 0;
string now;  // what is tested
#define EXPECT(condition)                                                                                          \
  do {                                                                                                             \
    if (!(condition)) {                                                                                            \
      static int times = 0;                                                                                        \
      if (++wrong, ++times < 4) std::printf("line %d, %s: %s does not hold\n", __LINE__, now.c_str(), #condition); \
    }                                                                                                              \
  } while (false)

uint64_t state = 1;
uint64_t draw(uint64_t n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % n;
}

// ---- columns ---------------------------------------------------------------------------------------------------------

struct column {
  string format, name;
  ArrowSchema schema{};
  ArrowArray array{};
  vector<std::unique_ptr<char[]>> memory;
  vector<const void*> buffers;
  vector<std::unique_ptr<column>> fields;
  vector<ArrowSchema*> schemas;
  vector<ArrowArray*> arrays;
  std::unique_ptr<column> dictionary;

  char* room(size_t n) {
    memory.emplace_back(new char[n]());
    buffers.push_back(memory.back().get());
    return memory.back().get();
  }
  template <class T>
  T* at(size_t buffer) const {
    return static_cast<T*>(const_cast<void*>(buffers[buffer]));
  }
};

void keep(ArrowSchema*) {}
void keep(ArrowArray*) {}

// Words that differ in one byte, of lengths at which something changes.
string word() {
  static const size_t lengths[] = {0,  1,  3,  4,  5,  8,  11, 12, 13, 15, 16, 17,
                                   19, 20, 21, 24, 31, 32, 33, 48, 49, 64, 65, 70};
  if (!draw(80)) return string(3000 + draw(6000), 'c');  // more than a block of the heap
  string w(lengths[draw(std::size(lengths))], 'a');
  if (!w.empty() && draw(2)) w[draw(w.size())] = draw(2) ? 'b' : '\0';
  return w;
}

using maker = std::function<std::unique_ptr<column>(int64_t rows)>;

std::unique_ptr<column> start(const char* format, int64_t rows, bool nulls) {
  auto c = std::make_unique<column>();
  c->format = format, c->name = "x";
  const int64_t offset = int64_t(draw(12)), all = rows + offset;
  c->schema = {c->format.c_str(), c->name.c_str(), nullptr, ARROW_FLAG_NULLABLE, 0, nullptr, nullptr, keep, nullptr};
  c->array.length = rows, c->array.offset = offset, c->array.release = keep;
  c->array.null_count = nulls ? -1 : 0;
  char* const valid = c->room(size_t(all + 7) / 8);
  for (int64_t i = 0; i < all; ++i)
    if (!nulls || draw(6)) valid[i / 8] = char(valid[i / 8] | 1 << i % 8);
  return c;
}
std::unique_ptr<column> finish(std::unique_ptr<column> c) {
  c->array.n_buffers = int64_t(c->buffers.size());
  c->array.buffers = c->buffers.data();
  c->array.n_children = c->schema.n_children = int64_t(c->fields.size());
  for (auto& f : c->fields) c->schemas.push_back(&f->schema), c->arrays.push_back(&f->array);
  c->schema.children = c->schemas.data();
  c->array.children = c->arrays.data();
  if (c->dictionary) c->schema.dictionary = &c->dictionary->schema, c->array.dictionary = &c->dictionary->array;
  return c;
}

template <class Offset>
std::unique_ptr<column> text(const char* format, int64_t rows, bool nulls) {
  auto c = start(format, rows, nulls);
  const int64_t all = rows + c->array.offset;
  auto* const offsets = reinterpret_cast<Offset*>(c->room(sizeof(Offset) * size_t(all + 1)));
  string bytes = "??";  // which belong to none
  for (int64_t i = 0; i <= all; ++i) {
    offsets[i] = Offset(bytes.size());
    if (i < all) bytes += word();
  }
  memcpy(c->room(bytes.size()), bytes.data(), bytes.size());
  return finish(std::move(c));
}
std::unique_ptr<column> these(const vector<string>& words) {
  auto c = start("u", int64_t(words.size()), false);
  auto* const offsets = reinterpret_cast<int32_t*>(c->room(4 * size_t(c->array.offset + c->array.length + 1)));
  string bytes = "??";
  std::fill_n(offsets, c->array.offset + 1, 2);
  for (size_t i = 0; i < words.size(); ++i) {
    bytes += words[i];
    offsets[size_t(c->array.offset) + i + 1] = int32_t(bytes.size());
  }
  memcpy(c->room(bytes.size()), bytes.data(), bytes.size());
  return finish(std::move(c));
}
struct view {
  int32_t length;
  char head[4];
  int32_t heap, offset;
};
std::unique_ptr<column> views(int64_t rows, bool nulls) {
  auto c = start("vu", rows, nulls);
  const int64_t all = rows + c->array.offset;
  auto* const cells = reinterpret_cast<view*>(c->room(sizeof(view) * size_t(all)));
  string heaps[2];
  for (int64_t i = 0; i < all; ++i) {
    const string w = word();
    memset(&cells[i], '?', sizeof(view));  // behind short words
    cells[i].length = int32_t(w.size());
    memcpy(cells[i].head, w.data(), std::min<size_t>(w.size(), w.size() <= 12 ? 12 : 4));
    if (w.size() <= 12) continue;
    cells[i].heap = int32_t(draw(2));
    cells[i].offset = int32_t(heaps[cells[i].heap].size());
    heaps[cells[i].heap] += w;
  }
  for (const string& h : heaps) memcpy(c->room(h.size()), h.data(), h.size());
  auto* const sizes = reinterpret_cast<int64_t*>(c->room(16));
  sizes[0] = int64_t(heaps[0].size()), sizes[1] = int64_t(heaps[1].size());
  return finish(std::move(c));
}
// Cells of so many bytes, of which the first are drawn from `distinct` numbers.
std::unique_ptr<column> cells(const char* format, size_t width, int64_t rows, bool nulls, uint64_t distinct = 200) {
  auto c = start(format, rows, nulls);
  const int64_t all = rows + c->array.offset;
  char* const p = c->room(width * size_t(all));
  for (int64_t i = 0; i < all; ++i) {
    const uint64_t v[3] = {draw(distinct), 0, 0};
    memcpy(p + size_t(i) * width, v, width);
  }
  return finish(std::move(c));
}
// Integers of so many bytes, about as many of them below 0 as above.
std::unique_ptr<column> integers(const char* format, size_t width, int64_t rows, bool nulls) {
  auto c = cells(format, width, rows, nulls);
  char* const p = c->at<char>(1);
  for (int64_t i = 0; i < rows + c->array.offset; ++i) {
    const int64_t v = int64_t(draw(11)) - 5;
    memcpy(p + size_t(i) * width, &v, width);
  }
  return c;
}
std::unique_ptr<column> bits(int64_t rows, bool nulls) {
  auto c = start("b", rows, nulls);
  const size_t n = size_t(rows + c->array.offset + 7) / 8;
  char* const p = c->room(n);
  for (size_t i = 0; i < n; ++i) p[i] = char(draw(256));
  return finish(std::move(c));
}
std::unique_ptr<column> rows_of(int64_t rows, bool nulls, const vector<maker>& fields) {
  auto c = start("+s", rows, nulls);
  for (const maker& f : fields) {
    c->fields.push_back(f(rows + c->array.offset));
    c->fields.back()->name = string(1, char('a' + c->fields.size() - 1));
    c->fields.back()->schema.name = c->fields.back()->name.c_str();
  }
  return finish(std::move(c));
}
std::unique_ptr<column> numbers_of(const char* format, size_t width, int64_t rows, bool nulls, const maker& values) {
  auto c = cells(format, width, rows, nulls, 40);
  c->dictionary = values(40);
  return finish(std::move(c));
}

// What a cell is, in words.
string cell(const ArrowSchema& s, const ArrowArray& a, int64_t row) {
  const string f = s.format;
  if (f == "n") return "null";
  const int64_t at = a.offset + row;
  const auto* const valid = static_cast<const uint8_t*>(a.buffers[0]);
  if (valid && a.null_count != 0 && !(valid[at / 8] >> at % 8 & 1)) return "null";
  if (f == "+s") {
    string all = "{";
    for (int64_t i = 0; i < s.n_children; ++i) all += cell(*s.children[i], *a.children[i], at) + ",";
    return all + "}";
  }
  const auto* const p = static_cast<const char*>(a.buffers[1]);
  const auto number = [&](size_t width) {
    int64_t v = 0;
    memcpy(&v, p + size_t(at) * width, width);
    return v;
  };
  const size_t width = f == "c" || f == "C"                      ? 1
                       : f == "s" || f == "S" || f == "e"        ? 2
                       : string("iIf").find(f) < 3 || f == "tdD" ? 4
                                                                 : 8;
  if (s.dictionary) return cell(*s.dictionary, *a.dictionary, number(width));
  if (f == "u" || f == "U") {
    const size_t wide = f == "u" ? 4 : 8;
    int64_t ends[2] = {};
    for (int i = 0; i < 2; ++i) memcpy(&ends[i], p + size_t(at + i) * wide, wide);
    return "'" + string(static_cast<const char*>(a.buffers[2]) + ends[0], size_t(ends[1] - ends[0])) + "'";
  }
  if (f == "vu") {
    const view* v = static_cast<const view*>(a.buffers[1]) + at;
    const char* const text = v->length <= 12 ? v->head : static_cast<const char*>(a.buffers[2 + v->heap]) + v->offset;
    return "'" + string(text, size_t(v->length)) + "'";
  }
  if (f[0] == 'w') return "'" + string(p + at * atoi(s.format + 2), size_t(atoi(s.format + 2))) + "'";
  if (f == "b") return p[at / 8] >> at % 8 & 1 ? "true" : "false";
  if (f == "d:9,2") return std::to_string(static_cast<const int64_t*>(a.buffers[1])[2 * at]);
  return std::to_string(number(width));
}
bool has_null(const string& c) {
  return c == "null" || c.find("{null,") == 0 || c.find(",null,") != string::npos || c.find("{null,") != string::npos;
}

}  // namespace
