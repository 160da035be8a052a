// Which elements of a column are among others, on a CUDA device.
//
// Few others have a table in the memory of every block, which each block makes itself; more have one in global memory, which
// is fast while the cache of the device holds it. Tables hold hashes, as the bins of groups do. A thread looks up four
// neighbours at a time, so that four reads are on their way, and writes their answers at once. With very many others both
// columns are divided into bins (members.cuh).
#include "libgpuhash/columns/cuda/isin.hpp"

#include "libgpuhash/columns/cuda/chain.cuh"
#include "libgpuhash/columns/cuda/members.cuh"

namespace gpuhash::columns {
namespace {

constexpr u32 at_once = 4;
constexpr u32 look_threads = order_threads;

template <class K>
struct isin_work {
  const K *keys, *among;
  u64 n;
  u32 n_among, slots;
  K seed;
  u32* side;  // 1: the key whose hash marks empty slots is among the others
  K* table;
  u8* out;
  bool aligned;  // both columns, for several elements at once

  GH_FN K hash(K k) const { return mix(K(k ^ seed)); }
};

template <class K>
struct alignas(16) four_keys {
  K of[at_once];
};

template <class K>
GH_FN void put(const isin_work<K>& w, K* table, u32* side, K h) {
  if (h == no_hash<K>) {
    *side = 1;
    return;
  }
  for (u32 at = u32(h) & (w.slots - 1);; at = (at + 1) & (w.slots - 1)) {
    const K there = swap_if(table + at, no_hash<K>, h);
    if (there == no_hash<K> || there == h) return;
  }
}

// Looks up to four neighbours up, from `row` on.
template <class K>
GH_FN void look_up(const isin_work<K>& w, const K* table, u32 side, u64 row) {
  const u32 many = u32(min(u64(at_once), w.n - row));
  const bool whole = w.aligned && many == at_once;
  four_keys<K> k{};
  if (whole)
    k = *reinterpret_cast<const four_keys<K>*>(w.keys + row);
  else
    for (u32 i = 0; i < at_once; ++i) k.of[i] = i < many ? w.keys[row + i] : w.keys[row];
  K h[at_once], there[at_once];
#pragma unroll
  for (u32 i = 0; i < at_once; ++i) {
    h[i] = w.hash(k.of[i]);
    there[i] = table[u32(h[i]) & (w.slots - 1)];
  }
  u32 answers = 0;
#pragma unroll
  for (u32 i = 0; i < at_once; ++i) {
    for (u32 at = u32(h[i]); there[i] != h[i] && there[i] != no_hash<K>;) there[i] = table[++at & (w.slots - 1)];
    const u32 found = h[i] == no_hash<K> ? side : there[i] == h[i];
    answers |= found << 8 * i;
  }
  if (whole)
    *reinterpret_cast<u32*>(w.out + row) = answers;
  else
    for (u32 i = 0; i < many; ++i) w.out[row + i] = u8(answers >> 8 * i);
}

template <class K>
__global__ void __launch_bounds__(count_threads) look_up_in_block(const __grid_constant__ isin_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(K, table);
  GH_BLOCK_MEMORY(u32, side);
  for (u32 i = threadIdx.x; i < w.slots; i += count_threads) table[i] = no_hash<K>;
  if (threadIdx.x == 0) side = 0;
  __syncthreads();
  for (u32 i = threadIdx.x; i < w.n_among; i += count_threads) put(w, table, &side, w.hash(w.among[i]));
  __syncthreads();
  for (u64 row = (u64(blockIdx.x) * count_threads + threadIdx.x) * at_once; row < w.n;
       row += u64(gridDim.x) * count_threads * at_once)
    look_up(w, table, side, row);
}

template <class K>
__global__ void __launch_bounds__(look_threads) put_in_table(const __grid_constant__ isin_work<K> w) {
  wait_for_the_one_before();
  for (u64 i = u64(blockIdx.x) * look_threads + threadIdx.x; i < w.n_among; i += u64(gridDim.x) * look_threads)
    put(w, w.table, w.side, w.hash(w.among[i]));
}
template <class K>
__global__ void __launch_bounds__(look_threads) look_up_in_table(const __grid_constant__ isin_work<K> w) {
  wait_for_the_one_before();
  const u32 side = *w.side;
  for (u64 row = (u64(blockIdx.x) * look_threads + threadIdx.x) * at_once; row < w.n;
       row += u64(gridDim.x) * look_threads * at_once)
    look_up(w, w.table, side, row);
}

// The others are the first column, the keys the second one.
template <class K>
void divide_and_look_up(const launcher& launch, const isin_request& r) {
  group_request both{};
  both.n = r.n + r.n_among, both.key_bytes = r.key_bytes, both.seed = r.seed, both.scratch = r.scratch;
  both.keys = r.among, both.more = r.keys, both.n_more = r.n;
  both.wants.codes = both.wants.members = true;
  group_work<K> w = work_of<K>(both, plan_members(r.n, r.n_among, r.key_bytes));
  w.out_members = r.out;
  prepare(launch, both, w);
  divide_rows<K, nothing, nothing>(launch, w);
  launch.next(look_up_bins<K>, 1u << w.plan.bits, bin_threads, looking_block<K>::bytes, w);
  go_back<K, nothing, false, u8>(launch, w);
}

template <class K>
void run(const isin_request& r) {
  const launcher launch(r.stream);
  if (r.n_among == 0) return launch.fill(r.out, 0, r.n);
  if (is_divided(r.n, r.n_among, r.key_bytes)) return divide_and_look_up<K>(launch, r);
  isin_work<K> w{};
  w.keys = static_cast<const K*>(r.keys);
  w.among = static_cast<const K*>(r.among);
  w.n = r.n;
  w.n_among = u32(r.n_among);
  w.slots = u32(slots_for(r.n_among));
  w.seed = K(r.seed);
  w.side = static_cast<u32*>(r.scratch);
  w.table = reinterpret_cast<K*>(static_cast<char*>(r.scratch) + 256);
  w.out = r.out;
  w.aligned = uintptr_t(r.keys) % 16 == 0 && uintptr_t(r.out) % at_once == 0;
  const auto blocks = [&](u64 elements, u32 threads, u32 per_processor) {
    return launch.blocks((elements + threads - 1) / threads, per_processor);
  };
  if (r.n_among <= most_in_block)
    return launch(look_up_in_block<K>, blocks((r.n + at_once - 1) / at_once, count_threads, 2), count_threads,
                  w.slots * sizeof(K), w);
  launch.fill(r.scratch, 0, 256);
  launch.fill(w.table, 0xff, w.slots * sizeof(K));
  launch(put_in_table<K>, blocks(w.n_among, look_threads, 16), look_threads, 0, w);
  launch.next(look_up_in_table<K>, blocks((r.n + at_once - 1) / at_once, look_threads, 16), look_threads, 0, w);
}

}  // namespace

gpuhash_status isin_on_cuda(const isin_request& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] {
    if (r.n) r.key_bytes == 4 ? run<u32>(r) : run<u64>(r);
  });
}

}  // namespace gpuhash::columns
