// Rows by shard on the CPU: see partition.hpp.
#include "libgpuhash/columns/partition.hpp"

#include <algorithm>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "libgpuhash/columns/row_hash.hpp"
#include "libgpuhash/src/team.hpp"

namespace gpuhash::columns {
namespace {

// Rows that are worth a thread of their own, which has counters of all shards.
constexpr int64_t rows_of_slice = tunable("partition.slice", int64_t{1} << 16);
// Rows of a slice from which on lines are written past the caches, and shards that have a line each: 256 KiB.
constexpr int64_t rows_beyond_caches = tunable("partition.far", int64_t{1} << 16);
constexpr size_t most_lines = 4096;

// ---- the shard of each row -------------------------------------------------------------------------------------------

inline __attribute__((always_inline)) void each_shard(const uint64_t* hashes, int64_t n, uint64_t shards,
                                                      int32_t* ids) {
  for (int64_t i = 0; i < n; ++i) ids[i] = shard_of(hashes[i], shards);
}

void shards_baseline(const uint64_t* hashes, int64_t n, uint64_t shards, int32_t* ids) {
  each_shard(hashes, n, shards, ids);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void shards_avx2(const uint64_t* hashes, int64_t n, uint64_t shards, int32_t* ids) {
  each_shard(hashes, n, shards, ids);
}
#else
constexpr auto* shards_avx2 = shards_baseline;
#endif

// Elements are gathered in a line of the cache for each shard and written a line at a time, past the caches where a processor
// can: a write of one element would fetch the line first, of memory that nothing else in the call reads.
struct alignas(64) line {
  char bytes[64];
};

// ---- slices ----------------------------------------------------------------------------------------------------------

// The rows in slices, one after the other. at[slice][shard]: how many rows of the shard the slice has, and then where the
// next of them goes. Slices before this one come first in each shard, so that rows keep their order.
struct slices {
  const int32_t* ids;
  int64_t n;
  size_t shards, count;
  std::vector<int64_t> at;
  const grouped_array* arrays;
  size_t arrays_count;
  std::unique_ptr<line[]> lines;  // of each slice one for each shard; NULL: elements are written one by one

  int64_t begin(size_t slice) const { return int64_t(size_t(n) / count * slice + std::min(slice, size_t(n) % count)); }
  int64_t* counters(size_t slice) { return &at[slice * shards]; }
};

void count_slice(void* context, size_t slice) {
  slices& s = *static_cast<slices*>(context);
  int64_t* const counts = s.counters(slice);
  for (int64_t i = s.begin(slice), end = s.begin(slice + 1); i < end; ++i) ++counts[s.ids[i]];
}

void add_up(slices& s, int64_t* offsets) {
  int64_t sum = 0;
  for (size_t shard = 0; shard < s.shards; ++shard) {
    if (offsets) offsets[shard] = sum;
    for (size_t slice = 0; slice < s.count; ++slice) {
      const int64_t rows = s.counters(slice)[shard];
      s.counters(slice)[shard] = sum;
      sum += rows;
    }
  }
  if (offsets) offsets[s.shards] = sum;
}

// ---- elements to their places ----------------------------------------------------------------------------------------

// Where the next element of each shard goes, and from where on this slice writes.
struct places {
  int64_t* next;
  const int64_t* first;
  size_t shards;
  line* lines;  // of each shard; NULL: none
};

template <size_t bytes>
struct cell {
  char content[bytes];
};

inline void write_line(char* to, const line& from) {
#if defined(__SSE2__)
  for (size_t i = 0; i < sizeof(line); i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(from.bytes + i)));
#else
  std::memcpy(to, from.bytes, sizeof(line));
#endif
}

// element(i): what row i has. to is aligned to elements.
template <class Cell, class Element>
void move_by_lines(const int32_t* ids, int64_t begin, int64_t end, Cell* to, const places& at, Element element) {
  constexpr int64_t last = sizeof(line) / sizeof(Cell) - 1;
  const auto shift = int64_t(uintptr_t(to) / sizeof(Cell)) & last;  // to[i] is in slot (i + shift) & last of its line
  line* const lines = at.lines;
  for (int64_t i = begin; i < end; ++i) {
    const int32_t shard = ids[i];
    const int64_t place = at.next[shard]++, slot = (place + shift) & last, line_begin = place - slot;
    const Cell content = element(i);
    std::memcpy(lines[shard].bytes + size_t(slot) * sizeof(Cell), &content, sizeof(Cell));
    if (slot != last) continue;
    if (line_begin >= at.first[shard])
      write_line(reinterpret_cast<char*>(to + line_begin), lines[shard]);
    else  // others have written the elements before
      for (int64_t j = at.first[shard]; j <= place; ++j)
        std::memcpy(&to[j], lines[shard].bytes + size_t(j - line_begin) * sizeof(Cell), sizeof(Cell));
  }
  for (size_t shard = 0; shard < at.shards; ++shard) {  // what no full line has
    const int64_t stop = at.next[shard], line_begin = stop - ((stop + shift) & last);
    for (int64_t j = std::max(line_begin, at.first[shard]); j < stop; ++j)
      std::memcpy(&to[j], lines[shard].bytes + size_t(j - line_begin) * sizeof(Cell), sizeof(Cell));
  }
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

template <class Cell, class Element>
void move_each(const int32_t* ids, int64_t begin, int64_t end, Cell* to, const places& at, Element element) {
  if (at.lines && uintptr_t(to) % sizeof(Cell) == 0) return move_by_lines(ids, begin, end, to, at, element);
  for (int64_t i = begin; i < end; ++i) to[at.next[ids[i]]++] = element(i);
}

template <size_t bytes>
void move_cells(const int32_t* ids, int64_t begin, int64_t end, const grouped_array& a, const places& at) {
  const auto* const from = static_cast<const cell<bytes>*>(a.from);
  move_each(ids, begin, end, static_cast<cell<bytes>*>(a.to), at, [from](int64_t i) { return from[i]; });
}

void move_bytes(const int32_t* ids, int64_t begin, int64_t end, const grouped_array& a, const places& at) {
  const auto* const from = static_cast<const char*>(a.from);
  auto* const to = static_cast<char*>(a.to);
  for (int64_t i = begin; i < end; ++i)
    std::memcpy(to + size_t(at.next[ids[i]]++) * a.bytes, from + size_t(i) * a.bytes, a.bytes);
}

void move_elements(const int32_t* ids, int64_t begin, int64_t end, const grouped_array& a, const places& at) {
  if (a.from == nullptr)
    return move_each(ids, begin, end, static_cast<int64_t*>(a.to), at, [](int64_t i) { return i; });
  switch (a.bytes) {
    case 1: return move_cells<1>(ids, begin, end, a, at);
    case 2: return move_cells<2>(ids, begin, end, a, at);
    case 4: return move_cells<4>(ids, begin, end, a, at);
    case 8: return move_cells<8>(ids, begin, end, a, at);
    case 16: return move_cells<16>(ids, begin, end, a, at);
    default: return move_bytes(ids, begin, end, a, at);
  }
}

// One array after the other, so that as few lines are written to as there are shards.
void move_slice(void* context, size_t slice) {
  slices& s = *static_cast<slices*>(context);
  int64_t* const first = s.counters(slice);
  int64_t* const next = first + s.count * s.shards;
  line* const lines = s.lines ? &s.lines[slice * s.shards] : nullptr;
  for (size_t i = 0; i < s.arrays_count; ++i) {
    std::copy_n(first, s.shards, next);
    move_elements(s.ids, s.begin(slice), s.begin(slice + 1), s.arrays[i], {next, first, s.shards, lines});
  }
}

}  // namespace

void shards_of_rows(const row_type& type, const rows& given, uint32_t shards, uint64_t seed, uint32_t threads,
                    int32_t* ids) {
  struct work {
    uint64_t shards;
    int32_t* ids;
  } all{shards, ids};
  hash_blocks(
      type, given, seed_of_shards(seed), threads,
      [](void* context, int64_t begin, int64_t n, const uint64_t* hashes) {
        const work& w = *static_cast<work*>(context);
        (has_avx2() ? shards_avx2 : shards_baseline)(hashes, n, w.shards, w.ids + begin);
      },
      &all);
}

void group_by_shard(const int32_t* ids, int64_t n, uint32_t shards, uint32_t threads, int64_t* offsets,
                    const grouped_array* arrays, size_t count) {
  const int64_t least = std::max(rows_of_slice, int64_t{4} * shards);  // so that counters are fewer than rows
  const auto most = size_t(std::max<int64_t>(n / least, 1));
  const size_t used = std::min(most, size_t(std::max(threads, 1u)));
  const bool far = n / int64_t(used) >= rows_beyond_caches && shards <= most_lines && count > 0;
  slices all{ids,
             n,
             shards,
             used,
             std::vector<int64_t>(2 * used * shards),
             arrays,
             count,
             far ? std::unique_ptr<line[]>(new line[used * shards]) : nullptr};
  parallel(uint32_t(used), used, count_slice, &all);
  add_up(all, offsets);
  if (count) parallel(uint32_t(used), used, move_slice, &all);
}

}  // namespace gpuhash::columns
