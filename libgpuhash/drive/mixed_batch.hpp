// Mixed batches on the CPU: a chunk of the batch is sorted by the kind of its elements, and each kind is a batch of its own.
//
//   R1  An element of the caller's arrays is read once (host.hpp).
#pragma once
#include <memory>
#include <new>

#include "libgpuhash/drive/host_sizes.hpp"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/parts.hpp"

GH_BEGIN

// A mixed batch: elements are sorted by kind, a chunk at a time, so that each kind is served by its own driver, without a
// branch for each element that no processor can predict. An element takes effect at some point during the call, as always.
inline constexpr size_t sorted_least =
    tunable("sorted_least", 256u);  // elements of a batch; a smaller one is served as it comes

template <class F>
class chunk_by_kind {
  using key = typename F::key;
  using value = typename F::value;

 public:
  static constexpr u32 most = tunable("chunk_by_kind", 16384u);
  static constexpr u32 kinds = erase + 1;

  void read(const request& given, size_t begin, u32 n) {
    const request q = given;  // the compiler knows that no other code writes to it
    for (u32 j = 0; j < n; ++j) kind_of_[j] = u8(read_op(q, begin + j));
    asm volatile("" : : "r"(this) : "memory");  // R1
    // The place of the next element of a kind is known only when the last element of that kind has its place. So
    // several slices of the chunk are placed side by side, none of which waits for another.
    const u32 row = n / rows;
    const auto end_of = [&](u32 r) { return r + 1 == rows ? n : (r + 1) * row; };
    u32 next[rows][kinds];
    u32 i = 0;
    for (u32 kind = 0; kind < kinds; ++kind) {
      first_[kind] = i;
      for (u32 r = 0; r < rows; ++r) {
        u32 here = 0;
        for (u32 j = r * row; j < end_of(r); ++j) here += kind_of_[j] == kind;
        next[r][kind] = i;
        i += here;
      }
    }
    first_[kinds] = n;
    const auto put = [&](u32 j, u32* of) __attribute__((always_inline)) {
      const u32 at = of[kind_of_[j]]++;
      place_[j] = uint16_t(at);
      key_[at] = read_key<F>(q, begin + j);
      if (F::has_value && q.values) write_element<value>(value_, q.value_bytes, at, read_value<F>(q, begin + j));
    };
    for (u32 j = 0; j < row; ++j)
      for (u32 r = 0; r < rows; ++r) put(r * row + j, next[r]);
    for (u32 j = rows * row; j < n; ++j) put(j, next[rows - 1]);
  }
  // The elements of a kind as a batch; n is 0 if there are none.
  request batch(const request& q, u32 kind) {
    const u32 i = first_[kind];
    request r = q;
    r.kind = kind;
    r.n = first_[kind + 1] - i;
    r.n_there = nullptr;
    r.ops = nullptr;
    r.keys = key_ + i;
    r.key_bytes = sizeof(key);
    r.values = q.values && in_kinds(kind, operand_kinds) ? value_ + size_t(i) * q.value_bytes : nullptr;
    r.out_values = q.out_values && kind == find ? found_ + size_t(i) * q.value_bytes : nullptr;
    r.status = status_ + i;
    r.threads = 1;
    return r;
  }
  void answer(const request& given, size_t begin, u32 n) {
    const request q = given;
    if (q.status) {
      __builtin_memset(status_, no, first_[nop + 1]);  // no driver serves those
      for (u32 j = 0; j < n; ++j) q.status[begin + j] = status_[place_[j]];
    }
    if (!q.out_values) return;
    const auto nothing = [&](u32 i, u32 end) {
      __builtin_memset(found_ + size_t(i) * q.value_bytes, 0, size_t(end - i) * q.value_bytes);
    };
    nothing(0, first_[find]);
    nothing(first_[find + 1], n);
    for (u32 j = 0; j < n; ++j)
      write_element<value>(q.out_values, q.value_bytes, begin + j,
                           read_element<value>(found_, q.value_bytes, place_[j]));
  }

 private:
  static constexpr u32 rows = 4;
  u32 first_[kinds + 1];  // element of each kind
  key key_[most];         // in the order of kinds, as what follows
  alignas(8) u8 value_[most * sizeof(value)];
  alignas(8) u8 found_[most * sizeof(value)];
  u8 status_[most];
  uint16_t place_[most];  // of each element, in that order
  u8 kind_of_[most];
};

// Elements begin .. end - 1 of a mixed batch. Without memory for the chunk they are served as they come.
template <class F>
totals serve_by_kind(const void* table, const request& q, size_t begin, size_t end,
                     int (*run)(const void* table, const request& q, totals* sum)) {
  totals sum{};
  // Kept by the thread: new pages for each piece took a fifth of the time.
  static thread_local std::unique_ptr<chunk_by_kind<F>> chunk;
  if (!chunk) chunk.reset(new (std::nothrow) chunk_by_kind<F>);
  if (!chunk) {
    request some = part_of(q, begin, end - begin);
    some.n_there = nullptr;
    some.parts = parts_never;
    some.threads = 1;
    run(table, some, &sum);
    return sum;
  }
  for (size_t b = begin; b < end; b += chunk->most) {
    const u32 many = u32(end - b < chunk->most ? end - b : chunk->most);
    chunk->read(q, b, many);
    for (u32 i = nop + 1; i < chunk->kinds; ++i) {  // erase comes first: it may make the room that others look for
      const request some = chunk->batch(q, i == nop + 1 ? u32(erase) : i - 1);
      if (some.n) run(table, some, &sum);
    }
    chunk->answer(q, b, many);
  }
  return sum;
}

template <class F>
int run_by_kind(const void* table, const request& q, totals* sum,
                int (*run)(const void* table, const request& q, totals* sum)) {
  in_pieces(q.threads, q.n_there ? *q.n_there : q.n, combined_cut, [&](size_t begin, size_t end) {
    add_totals(sum, serve_by_kind<F>(table, q, begin, end, run));  // others add to *sum, too
  });
  return 0;
}

GH_END
