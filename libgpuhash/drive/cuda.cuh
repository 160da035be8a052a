// The CUDA driver: which tile serves which element of a batch.
//
// A thread reads one element of the batch and hashes it; then the W lanes of a tile serve the tile's W elements, P of them
// in flight at a time. All tiles of a warp step together (tile/cuda.cuh), one row visit each; a tile that finishes an
// element takes its next one in the same loop, and the loop ends when no tile of the warp has work.
#pragma once
#include "libgpuhash/drive/cuda_homes.cuh"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/kit/side.hpp"
#include "libgpuhash/tile/cuda.cuh"

GH_BEGIN

// Add what a warp has summed up. One atomic instruction per warp, not per block: warps that wait for each other at the end
// keep new ones away.
GH_FN void add_sums(totals* sum, totals* batch_sum, int live, int used, int good, int failed, int bad) {
  const u32 lane = threadIdx.x % 32;
  // The counters of totals lie one after the other, 8 bytes each.
  const int mine = lane == 0 ? live : lane == 1 ? used : lane == 2 ? good : lane == 3 ? failed : lane == 4 ? bad : 0;
  if (!mine) return;
  const u32 stripe = blockIdx.x % total_stripes;
  // Failures of a batch with a batch_sum are reported by the call that reads it.
  if (lane < 2 || (lane > 2 && !batch_sum))
    atomicAdd(reinterpret_cast<u64*>(sum + stripe) + lane, u64((long long)mine));
  if (batch_sum) atomicAdd(reinterpret_cast<u64*>(batch_sum + stripe) + lane, u64((long long)mine));
}
// The result of each lane's element. Only mixed batches have op codes, which may be bad.
template <bool Mixed>
GH_FN void add_totals(totals* sum, totals* batch_sum, int live, int used, u32 good, u32 failed, u32 bad) {
  const int live_here = warp_sum(live);
  const int used_here = warp_sum(used);
  const int good_here = batch_sum ? __popc(__ballot_sync(full_warp, good)) : 0;
  const int failed_here = __popc(__ballot_sync(full_warp, failed));
  int bad_here = 0;
  if constexpr (Mixed) bad_here = __popc(__ballot_sync(full_warp, bad));
  add_sums(sum, batch_sum, live_here, used_here, good_here, failed_here, bad_here);
}

// Join an operand with others, which no other thread reads meanwhile.
template <class V>
GH_FN void join_into(V* sum, V v, joiner j) {
  if (adds_integers(j)) {
    if (sizeof(V) == 8 && j.narrow)
      atomicAdd(reinterpret_cast<u32*>(sum), u32(v));
    else
      atomicAdd(sum, v);
    return;
  }
  for (V seen = *static_cast<volatile V*>(sum);;) {
    const V joined = join_operands(j, seen, v);
    if (joined == seen) return;
    const V before = atomicCAS(sum, seen, joined);
    if (before == seen) return;
    seen = before;
  }
}

// The same in memory of the block, which adds 8 bytes by comparing and swapping, but 4 bytes at once.
template <class V>
GH_FN void join_in_block(V* sum, V v, joiner j) {
  if constexpr (sizeof(V) == 8)
    if (adds_integers(j) && !j.narrow) {
      u32* const half = reinterpret_cast<u32*>(sum);
      const u32 before = atomicAdd(half, u32(v));
      const u32 high = u32(v >> 32) + (before + u32(v) < before);
      if (high) atomicAdd(half + 1, high);
      return;
    }
  join_into(sum, v, j);
}

// Equal keys of a block are joined before they reach the table, or thousands of tiles would compete for the slot, or the lock,
// of a frequent key. One thread carries on with the key: its operand then combines those of the others, or is that of the
// last assign. The elements of the others take effect right after its own: a find finds the same, and for all other
// operations the key is there, or, after an erase, is not. In a mixed batch those of one key and one kind are joined, where
// operations wait for locks: elsewhere it costs a sixth where keys differ.
template <class F, u32 Kind>
struct block_join {
  static constexpr u32 none = ~0u, slots = 2 * block_threads;
  typename F::key key[block_threads];
  typename F::value value[block_threads];
  u32 owner[slots];
  u8 status[block_threads], kind[Kind == mixed ? block_threads : 1];

  // Operands whose sum might overflow where no serial order does are not (meaning.hpp). Which of several floats comes first
  // in a mixed batch is seen from its status, and a NaN that comes first stays.
  GH_FN static bool may_join(u32 kd, typename F::value v, joiner j) {
    if (Kind == mixed && kd == accumulate) return j.type != 2;
    return kd != accumulate || may_join_first(j, v);
  }
  // The thread that carries on with key k.
  GH_FN u32 join_equal(bool mine, u32 kd, typename F::key k, typename F::value& v, joiner j) {
    const u32 me = threadIdx.x;
    for (u32 i = me; i < slots; i += block_threads) owner[i] = none;
    key[me] = k, value[me] = v;
    if constexpr (Kind == mixed) kind[me] = u8(kd);
    __syncthreads();
    u32 first = me;
    if (mine && may_join(kd, v, j))
      for (u32 at = (u32(mix(k)) + kd) % slots;; at = (at + 1) % slots) {
        const u32 seen = atomicCAS(owner + at, none, me);
        if (seen == none) break;
        if (key[seen] == k && (Kind != mixed || kind[seen] == kd)) {
          first = seen;
          break;
        }
      }
    __syncthreads();
    if (first != me && kd == accumulate) join_in_block(value + first, v, j);
    if (first != me && kd == assign) value[first] = v;
    __syncthreads();
    v = value[me];
    return first;
  }
  GH_FN void share(bool mine, u32 kd, u32 first, result<F>& res) {
    const u32 me = threadIdx.x;
    status[me] = u8(res.status);
    if constexpr (Kind == mixed) value[me] = res.value;
    __syncthreads();
    if (!mine || first == me) return;
    const u32 said = status[first];
    const bool same = in_kinds(kd, answering_kinds & ~erasing_kinds);  // the answer of the first is that of all
    res.status = said > yes || kd == find ? said : u32(no);            // and so is a failure
    if constexpr (Kind == mixed)
      if (same) res.value = value[first];
  }
};

// Left to itself (0), ptxas spills in kernels with a slow part, in order to keep more warps resident than pay. Elsewhere
// its own choice is the best: asking for one block costs 10 % of the finds in registers.
template <class Op>
constexpr int blocks_of_op() {
  if constexpr (requires { Op::cuda_blocks; })
    return Op::cuda_blocks;
  else if (sizeof(typename Op::key) == 8 && (Op::has_slow || Op::fixed_kind == accumulate))
    return 4;
  else
    return Op::has_slow ? 5 : 0;
}
template <class Op>
inline constexpr int least_blocks = blocks_of_op<Op>();

// An op may serve the elements of a warp itself, one in each lane that `carries`:
//   static result<F> serve_warp(tile, table, joiner, carries, key)
template <class Op>
concept serves_warps = requires(typename Op::tile_type& tile, const typename Op::table& t, joiner j,
                                typename Op::key k) { Op::serve_warp(tile, t, j, true, k); };
// Or it finds out where a warp's elements begin, all of them together:
//   static index find_home(tile, table, carries, key)
template <class Op>
concept finds_homes = requires(const typename Op::tile_type& tile, const typename Op::table& t, typename Op::key k) {
  Op::find_home(tile, t, true, k);
};

// A tile serves its lanes' elements, one after the other, P at a time. untaken has a bit for each that no operation has
// taken yet.
template <class Op, int P, class Index>
GH_FN result<typename Op::F> serve_in_turns(typename Op::tile_type& tile, const typename Op::table& t, joiner j,
                                            bool in_table, u32 kd, typename Op::key k, typename Op::F::value v,
                                            Index home) {
  using F = typename Op::F;
  constexpr int W = Op::tile_type::lanes;
  constexpr bool no_operand = !in_kinds(Op::fixed_kind, operand_kinds);
  result<F> res{no, 0, 0, 0};
  u32 untaken = tile.ballot(in_table);
  Op op[P];
  u32 owner[P] = {};  // the lane whose element op[p] serves; W: none
  auto take = [&](int p, bool wanted) {
    const bool some = untaken != 0;
    const u32 from = some ? __ffs(untaken) - 1 : 0;
    typename F::value a_value{};
    if constexpr (F::has_value && !no_operand) a_value = shuffle(v, from, W);
    const u32 a_kind = Op::fixed_kind == mixed ? shuffle(kd, from, W) : Op::fixed_kind;
    Op fresh;
    fresh.start(t, a_kind, shuffle(k, from, W), a_value, shuffle(home, from, W));
    op[p] = wanted && some ? fresh : op[p];  // a tile without work goes on visiting its last row, and writes nothing
    owner[p] = wanted ? (some ? from : u32(W)) : owner[p];
    untaken = wanted ? untaken & (untaken - 1) : untaken;
  };
#pragma unroll
  for (int p = 0; p < P; ++p) {
    op[p].start(t, nop, typename F::key{}, typename F::value{}, decltype(t.home(k)){});
    take(p, true);
  }

  bool busy;
  do {
    typename Op::tile_type::row row[P];
#pragma unroll
    for (int p = 0; p < P; ++p) row[p] = tile.load(op[p].line(t));
    busy = false;
#pragma unroll
    for (int p = 0; p < P; ++p) {
      const bool active = owner[p] < W;
      verdict d = op[p].step(tile, t, j, row[p], active);
      if constexpr (Op::has_slow) {
        const bool slow = active && d == verdict::slow;
        if (__any_sync(full_warp, slow)) {
          const verdict after = op[p].slow(tile, t, j, slow);
          d = slow ? after : d;
        }
      }
      const bool finished = active && d == verdict::done;
      res = finished && tile.lane == owner[p] ? op[p].res : res;
      take(p, finished);
      busy |= owner[p] < W;
    }
  } while (__any_sync(full_warp, busy));
  return res;
}

template <class Op, int P>
__global__ void __launch_bounds__(block_threads, least_blocks<Op>)
    serve_batch(const __grid_constant__ typename Op::table t, const __grid_constant__ request q, totals* sum) {
  using F = typename Op::F;
  using tile_type = typename Op::tile_type;
  [[maybe_unused]] constexpr int W = tile_type::lanes;
  tile_type tile;
  constexpr bool no_operand = !in_kinds(Op::fixed_kind, operand_kinds);
  if (q.unless && *q.unless) return;
  const joiner j = joiner_of(q);
  const size_t n = q.n_there ? *q.n_there : q.n;
  const size_t i = blockIdx.x * size_t(block_threads) + threadIdx.x;

  // Each lane: its own element. The last block reads element 0 where it has none.
  const bool mine = i < n && has_work(q, i);
  const size_t mine_at = i < n ? i : 0;
  auto k = read_key<F>(q, mine_at);
  if constexpr (requires { t.encode(k); }) k = t.encode(k);  // an ordered table's own order
  typename F::value v{};
  if constexpr (!no_operand) v = read_value<F>(q, mine_at);
  u32 kd = Op::fixed_kind;
  bool carries = mine;
  if constexpr (Op::fixed_kind == mixed) {
    kd = op_of(q, mine_at);
    carries = mine && is_op(q, kd);
  }
  auto home = t.home(k);
  result<F> res{no, 0, 0, 0};
  u32 first = threadIdx.x;
  constexpr bool joins = Op::fixed_kind == accumulate || Op::fixed_kind == assign ||
                         (Op::fixed_kind == mixed && requires { Op::waits_for_locks; });
  using join_type = block_join<F, Op::fixed_kind>;
  [[maybe_unused]] join_type* equal = nullptr;
  if constexpr (joins) {
    GH_BLOCK_MEMORY(join_type, shared);
    equal = &shared;
    first = equal->join_equal(carries, kd, k, v, j);
    carries &= first == threadIdx.x;
  }

  const bool in_table = carries && !(Op::table::side_slots && is_side_key(k));
  if constexpr (finds_homes<Op>) home = Op::find_home(tile, t, in_table, k);
  if constexpr (serves_warps<Op>) {
    res = Op::serve_warp(tile, t, j, in_table, k);
  } else if constexpr (starts_with_homes<Op>()) {
    res = serve_homes<Op, P>(tile, t, j, in_table, kd, k, v, home);
  } else {
    res = serve_in_turns<Op, P>(tile, t, j, in_table, kd, k, v, home);
  }

  if constexpr (Op::table::side_slots)
    if (carries && is_side_key(k)) res = serve_side<F, cuda_mem>(t.side, kd, j, k, v);
  if constexpr (joins) equal->share(mine, kd, first, res);
  bool bad = false;
  if constexpr (Op::fixed_kind == mixed) bad = mine && !is_op(q, kd);
  if (bad) res.status = bad_op;
  if (mine) write_result(q, i, res);
  constexpr bool reads = !in_kinds(Op::fixed_kind, writing_batches);
  if (!reads || q.batch_sum)
    add_totals<Op::fixed_kind == mixed>(sum, q.batch_sum, res.live, res.used, mine && res.status == yes,
                                        mine && lacks_room(res.status), bad);
}

template <class Op, int P>
int run_on_cuda(const void* table, const request& q, totals* sum) {
  const u64 blocks = (q.n + block_threads - 1) / block_threads;
  return launch(serve_batch<Op, P>, blocks, block_threads, q.stream, *static_cast<const typename Op::table*>(table), q,
                sum);
}

// What a thread of a rebuild did, added up.
GH_FN void add_moved(totals* sum, u32 used, u32 failed) {
  const u32 all_used = warp_sum(used);
  const u32 all_failed = warp_sum(failed);
  if (threadIdx.x % 32) return;
  totals& mine = sum[blockIdx.x % total_stripes];
  if (all_used) atomicAdd(reinterpret_cast<u64*>(&mine.used), u64(all_used));
  if (all_failed) atomicAdd(reinterpret_cast<u64*>(&mine.failed), u64(all_failed));
}

// Live pairs of cells lo..hi of an order, appended at *n in no order. Runs with no writer about.
template <class Table>
__global__ void __launch_bounds__(block_threads)
    collect_cells(const __grid_constant__ Table t, cell_order order, u64 lo, u64 hi, void* keys, void* values,
                  u32 key_bytes, u32 value_bytes, u64* n) {
  using F = typename Table::format;
  const u64 at_order = lo + blockIdx.x * u64(block_threads) + threadIdx.x;
  const u64 i = cell_at(order, at_order);
  const u32 lane = threadIdx.x % 32;
  u32 mine = 0;
  if (at_order < hi) t.template each_live<cuda_mem>(i, [&](auto, auto) { ++mine; });
  u32 up_to = mine;  // of the lanes up to this one
#pragma unroll
  for (u32 d = 1; d < 32; d *= 2) {
    const u32 below = __shfl_up_sync(full_warp, up_to, d);
    up_to += lane >= d ? below : 0;
  }
  u64 at = 0;
  if (lane == 31 && up_to) at = atomicAdd(n, u64(up_to));
  at = shuffle(at, 31, 32) + up_to - mine;
  if (mine)
    t.template each_live<cuda_mem>(i, [&](typename F::key k, typename F::value v) {
      if (keys) write_element<typename F::key>(keys, key_bytes, at, k);
      if (values) write_element<typename F::value>(values, value_bytes, at, v);
      ++at;
    });
}

template <class Table>
int collect_on_cuda(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
  const u64 blocks = (hi - lo + block_threads - 1) / block_threads;
  if (!blocks) return 0;
  return launch(collect_cells<Table>, blocks, block_threads, to.stream, *static_cast<const Table*>(table), order, lo,
                hi, to.keys, to.values, to.key_bytes, to.value_bytes, reinterpret_cast<u64*>(to.count));
}

GH_END
