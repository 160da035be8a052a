// A large batch on the CPU, in the order of the table.
//
// In the caller's order the elements of a batch are random accesses of a table that no cache holds. Here they are divided
// first, by partitions of the table, each of which is a run of homes; then the engine serves them like any batch, and finds
// the lines of neighbours in its caches. In which order the elements of a batch take effect was never promised, so neither
// the gate nor the operations change.
//
//   count     Each piece of the batch notes which part an element is of, and how many it has of each.
//   scatter   Elements go to where their part begins, those of earlier pieces first, through a cache line for each part.
//   serve     The engine serves what has come out, from the first part to the last.
//   answer    Statuses go back: a piece finds those of a part in the order in which it has put its elements there.
//
//   V1  Where an element goes follows from the part that was noted, and not from a key that is read again: the caller may
//       write to its arrays meanwhile. A key that has changed is served among those of another part, which costs time only.
//   V2  Of the scattered arrays, a line that two pieces or parts share is written element by element.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/parts.hpp"
#include "libgpuhash/kit/team.hpp"

namespace gpuhash {

inline constexpr uint32_t most_host_parts = tunable("host_parts", 512u);

// Elements of one array on their way to their parts: a line for each, which leaves when it is full, past the caches. T is
// void where there is no such array.
template <class T>
class scattered {
 public:
  scattered(const void* from, void* to) : from_(static_cast<const T*>(from)), to_(static_cast<T*>(to)) {}

  // Element i of the batch becomes number `at` of the divided batch, where the elements of its piece and part begin
  // with number `first`.
  void put(size_t i, uint32_t part, uint32_t at, uint32_t first) {
    lines_[part].of[at % of_line] = from_[i];
    if (at % of_line == of_line - 1) leave(part, first, at + 1);
  }
  // Those of a part end before number `end`.
  void finish(uint32_t part, uint32_t first, uint32_t end) {
    if (end > first && end % of_line) leave(part, first, end);
  }

 private:
  static constexpr uint32_t of_line = 64 / sizeof(T);
  struct alignas(64) line {
    T of[of_line];
  };

  void leave(uint32_t part, uint32_t first, uint32_t end) {
    const T* const from = lines_[part].of;
    const uint32_t begin = (end - 1) / of_line * of_line;
    if (begin >= first && end % of_line == 0) return leave_whole(from, to_ + begin);
    for (uint32_t i = begin < first ? first : begin; i < end; ++i) to_[i] = from[i % of_line];  // V2
  }
  static void leave_whole(const T* from, T* to) {
#if defined(__x86_64__)
    const __m128i* const whole = reinterpret_cast<const __m128i*>(from);
    for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, whole[i]);
#else
    memcpy(to, from, sizeof(line));
#endif
  }

  const T* const from_;
  T* const to_;
  line lines_[most_host_parts];
};
template <>
class scattered<void> {
 public:
  scattered(const void*, void*) {}
  void put(size_t, uint32_t, uint32_t, uint32_t) {}
  void finish(uint32_t, uint32_t, uint32_t) {}
};

class divided_batch {
 public:
  // Batches of at most n elements like q.
  divided_batch(const homes_engine& homes, const void* table, const request& q, size_t n)
      : homes_(homes), table_(table), key_bytes_(q.key_bytes), value_bytes_(q.values ? q.value_bytes : 0) {
    const uint64_t last = homes.count(table) - 1;
    while (last >> shift_ >= most_host_parts) ++shift_;
    parts_ = uint32_t(last >> shift_) + 1;
    most_ = (n + 63) / 64 * 64;  // whole lines
    with_statuses_ = q.status != nullptr;
  }
  uint64_t bytes() const {
    const size_t pieces = (most_ + divided_piece - 1) / divided_piece;
    return most_ * (key_bytes_ + value_bytes_ + sizeof(uint16_t) + with_statuses_) + pieces * parts_ * sizeof(uint32_t);
  }

  // Carry out q, of at most n elements, by run. `memory` has bytes() bytes and begins with a cache line.
  int serve(const request& q, void* memory, totals* sum, int (*run)(const void* table, const request& q, totals* sum)) {
    n_ = q.n;
    keys_ = static_cast<char*>(memory);
    values_ = keys_ + most_ * key_bytes_;
    first_ = reinterpret_cast<uint32_t*>(values_ + most_ * value_bytes_);
    part_of_ = reinterpret_cast<uint16_t*>(first_ + pieces() * parts_);
    status_ = reinterpret_cast<uint8_t*>(part_of_ + most_);
    each_piece(q.threads, [&](size_t piece) { count(q, piece); });
    add_up();
    each_piece(q.threads, [&](size_t piece) { scatter(q, piece); });
    request all = q;
    all.keys = keys_;
    all.values = value_bytes_ ? values_ : nullptr;
    all.status = with_statuses_ ? status_ : nullptr;
    const int e = run(table_, all, sum);
    if (with_statuses_) each_piece(q.threads, [&](size_t piece) { answer(q.status, piece); });
    return e;
  }

 private:
  size_t pieces() const { return (n_ + divided_piece - 1) / divided_piece; }
  size_t end_of(size_t piece) const { return (piece + 1) * divided_piece < n_ ? (piece + 1) * divided_piece : n_; }
  // Where the elements of a piece go that belong to part 0, 1, ...; before the sums are made, how many elements these
  // are.
  uint32_t* first_of(size_t piece) const { return first_ + piece * parts_; }

  template <class Body>
  void each_piece(uint32_t threads, Body body) const {
    in_pieces(threads, pieces(), {1, 1, 1}, [&](size_t begin, size_t end) {
      for (size_t piece = begin; piece < end; ++piece) body(piece);
    });
  }

  void count(const request& q, size_t piece) {
    constexpr size_t at_once = tunable("divided_at_once", 1024u);
    uint32_t counts[most_host_parts] = {};
    for (size_t b = piece * divided_piece; b < end_of(piece); b += at_once) {
      const size_t n = end_of(piece) - b < at_once ? end_of(piece) - b : at_once;
      homes_.parts_of(table_, q, b, uint32_t(n), shift_, part_of_ + b);
      for (size_t i = b; i < b + n; ++i) ++counts[part_of_[i]];
    }
    memcpy(first_of(piece), counts, parts_ * sizeof(uint32_t));
  }

  void add_up() {
    uint32_t next[most_host_parts] = {};
    for (size_t piece = 0; piece < pieces(); ++piece)
      for (uint32_t p = 0; p < parts_; ++p) next[p] += first_of(piece)[p];
    uint32_t sum = 0;
    for (uint32_t p = 0; p < parts_; ++p) {
      const uint32_t here = next[p];
      next[p] = sum;
      sum += here;
    }
    for (size_t piece = 0; piece < pieces(); ++piece)
      for (uint32_t p = 0; p < parts_; ++p) {
        const uint32_t here = first_of(piece)[p];
        first_of(piece)[p] = next[p];
        next[p] += here;
      }
  }

  void scatter(const request& q, size_t piece) const {
    if (key_bytes_ == 4)
      scatter_with_keys<uint32_t>(q, piece);
    else
      scatter_with_keys<uint64_t>(q, piece);
  }
  template <class Key>
  void scatter_with_keys(const request& q, size_t piece) const {
    if (value_bytes_ == 0)
      scatter_all<Key, void>(q, piece);
    else if (value_bytes_ == 4)
      scatter_all<Key, uint32_t>(q, piece);
    else
      scatter_all<Key, uint64_t>(q, piece);
  }
  template <class Key, class Value>
  [[gnu::noinline]] void scatter_all(const request& q, size_t piece) const {
    scattered<Key> keys(q.keys, keys_);
    scattered<Value> values(q.values, values_);
    uint32_t next[most_host_parts];
    const uint32_t* const first = first_of(piece);
    memcpy(next, first, parts_ * sizeof(uint32_t));
    const uint16_t* const part_of = part_of_;
    const size_t end = end_of(piece);
    for (size_t i = piece * divided_piece; i < end; ++i) {
      const uint32_t part = part_of[i];  // V1
      const uint32_t at = next[part]++;
      keys.put(i, part, at, first[part]);
      values.put(i, part, at, first[part]);
    }
    for (uint32_t part = 0; part < parts_; ++part) {
      keys.finish(part, first[part], next[part]);
      values.finish(part, first[part], next[part]);
    }
#if defined(__x86_64__)
    _mm_sfence();  // what went past the caches is for other threads, too
#endif
  }

  void answer(uint8_t* status, size_t piece) const {
    uint32_t next[most_host_parts];
    memcpy(next, first_of(piece), parts_ * sizeof(uint32_t));
    for (size_t i = piece * divided_piece; i < end_of(piece); ++i) status[i] = status_[next[part_of_[i]]++];
  }

  const homes_engine& homes_;
  const void* const table_;
  const uint32_t key_bytes_, value_bytes_;  // of the batch's arrays; 0: it has no values
  uint32_t shift_ = 0;                      // a home's part
  uint32_t parts_ = 0;
  size_t most_ = 0;
  bool with_statuses_ = false;  // are statuses asked for?
  // Of the elements that are served now:
  size_t n_ = 0;
  char* keys_ = nullptr;
  char* values_ = nullptr;
  uint32_t* first_ = nullptr;
  uint16_t* part_of_ = nullptr;
  uint8_t* status_ = nullptr;
};

}  // namespace gpuhash
