// The way back of grouped rows on a CUDA device: into the order of the rows by their numbers, of rows that lie in one array
// (ungroup), or by their places, of rows that lie apart, shard by shard, and may lie on another device (collect).
#include "libgpuhash/columns/cuda/launch.cuh"
#include "libgpuhash/columns/partition_cuda.hpp"

namespace gpuhash::columns {
namespace {

using u16 = uint16_t;

// ---- by the numbers of the rows -------------------------------------------------------------------------------------

// Rows of several units are written by neighbours, a unit each.
template <class Unit>
__global__ void __launch_bounds__(partition_threads)
    put_back(const int64_t* order, u64 n, const Unit* from, Unit* to, u64 units) {
  const u64 step = u64(gridDim.x) * partition_threads, all = n * units;
  u64 i = u64(blockIdx.x) * partition_threads + threadIdx.x;
  if (units == 1) {
#pragma unroll 4
    for (; i < all; i += step) to[order[i]] = from[i];
    return;
  }
  for (; i < all; i += step) to[u64(order[i / units]) * units + i % units] = from[i];
}

template <class Unit>
void launch_back(const ungroup_on_device& r, const launcher& launch) {
  const u64 units = r.array.bytes / sizeof(Unit), tiles = (r.n * units + partition_tile - 1) / partition_tile;
  launch(put_back<Unit>, launch.blocks(tiles, 4 * partition_blocks), partition_threads, 0, r.order, r.n,
         static_cast<const Unit*>(r.array.from), static_cast<Unit*>(r.array.to), units);
}

// ---- by the places of the rows --------------------------------------------------------------------------------------

// Where the grouped rows of each shard are.
struct sources {
  const u32* places;
  u64 n, begins[GPUHASH_MOST_SPREAD];
  u32 shards;

  GH_FN u32 shard(u32 place) const {
    u32 found = 0;
    for (u32 s = 1; s < shards; ++s) found += place >= begins[s];
    return found;
  }
};
struct collected_array {
  const void* from[GPUHASH_MOST_SPREAD];
  void* to;
  u64 words;  // of a row

  template <class Word>
  GH_FN Word read(u32 shard, u64 index) const {
    const auto* const rows = static_cast<const Word*>(from[shard]);
    return rows ? rows[index] : Word(0);
  }
};

// Rows of one word, and a byte for each if `bytes` are given. A thread has several rows on their way at a time, as they may
// come from another device.
template <class Word, bool with_bytes>
__global__ void __launch_bounds__(partition_threads)
    collect_rows(const __grid_constant__ sources s, const __grid_constant__ collected_array a,
                 const __grid_constant__ collected_array bytes) {
  for (u64 tile = u64(blockIdx.x) * partition_tile; tile < s.n; tile += u64(gridDim.x) * partition_tile) {
    const u64 row = tile + threadIdx.x;
    u32 place[partition_each];
    Word words[partition_each];
    u8 second[partition_each];
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i)
      place[i] = row + i * partition_threads < s.n ? s.places[row + i * partition_threads] : 0;
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i) {
      const u32 shard = s.shard(place[i]);
      words[i] = a.read<Word>(shard, place[i] - s.begins[shard]);
      if constexpr (with_bytes) second[i] = bytes.read<u8>(shard, place[i] - s.begins[shard]);
    }
#pragma unroll
    for (u32 i = 0; i < partition_each; ++i)
      if (row + i * partition_threads < s.n) {
        static_cast<Word*>(a.to)[row + i * partition_threads] = words[i];
        if constexpr (with_bytes) static_cast<u8*>(bytes.to)[row + i * partition_threads] = second[i];
      }
  }
}

// Rows of several words, which neighbours write, a word each.
template <class Word>
__global__ void __launch_bounds__(partition_threads)
    collect_wide_rows(const __grid_constant__ sources s, const __grid_constant__ collected_array a) {
  const u64 all = s.n * a.words;
  for (u64 i = u64(blockIdx.x) * partition_threads + threadIdx.x; i < all; i += u64(gridDim.x) * partition_threads) {
    const u32 place = s.places[i / a.words], shard = s.shard(place);
    static_cast<Word*>(a.to)[i] = a.read<Word>(shard, (place - s.begins[shard]) * a.words + i % a.words);
  }
}

class collect_call {
 public:
  collect_call(const gpuhash_collect_request& request) : r(request), launch(request.stream) {
    s.places = r.places, s.n = r.n, s.shards = r.shards;
    for (u32 shard = 0; shard < r.shards; ++shard) s.begins[shard] = u64(r.offsets[shard]);
  }

  void run() const {
    const bool two = r.arrays == 2 && r.collected[1].bytes == 1;
    bring(r.collected[0], two ? &r.collected[1] : nullptr);
    if (r.arrays == 2 && !two) bring(r.collected[1], nullptr);
  }

 private:
  void bring(const gpuhash_collected& given, const gpuhash_collected* bytes) const {
    switch (word_of(given)) {
      case 8: return bring_words<u64>(given, bytes);
      case 4: return bring_words<u32>(given, bytes);
      case 2: return bring_words<u16>(given, bytes);
      default: return bring_words<u8>(given, bytes);
    }
  }
  template <class Word>
  void bring_words(const gpuhash_collected& given, const gpuhash_collected* bytes) const {
    const collected_array a = array(given, sizeof(Word));
    const unsigned blocks = launch.blocks((s.n * a.words + partition_tile - 1) / partition_tile, 4 * partition_blocks);
    if (a.words > 1) {
      launch(collect_wide_rows<Word>, blocks, partition_threads, 0, s, a);
      if (bytes) bring(*bytes, nullptr);
    } else if (bytes) {
      launch(collect_rows<Word, true>, blocks, partition_threads, 0, s, a, array(*bytes, 1));
    } else {
      launch(collect_rows<Word, false>, blocks, partition_threads, 0, s, a, a);
    }
  }
  u32 word_of(const gpuhash_collected& given) const {
    u64 ends = u64(uintptr_t(given.to)) | given.bytes;
    for (u32 shard = 0; shard < r.shards; ++shard) ends |= u64(uintptr_t(given.from[shard]));
    return largest_word(ends);
  }
  collected_array array(const gpuhash_collected& given, size_t word) const {
    collected_array a{};
    std::copy_n(given.from, r.shards, a.from);
    a.to = given.to, a.words = given.bytes / word;
    return a;
  }

  const gpuhash_collect_request& r;
  const launcher launch;
  sources s{};
};

}  // namespace

gpuhash_status ungroup_on_cuda(const ungroup_on_device& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] {
    if (r.n == 0) return;
    const launcher launch(r.stream);
    switch (largest_word(u64(uintptr_t(r.array.from)) | u64(uintptr_t(r.array.to)) | r.array.bytes)) {
      case 8: return launch_back<u64>(r, launch);
      case 4: return launch_back<u32>(r, launch);
      case 2: return launch_back<u16>(r, launch);
      default: return launch_back<u8>(r, launch);
    }
  });
}

gpuhash_status collect_on_cuda(const gpuhash_collect_request& r, int ordinal, gpuhash_error* err) {
  return on_device(ordinal, err, [&] {
    if (r.n > 0) collect_call(r).run();
  });
}

}  // namespace gpuhash::columns
