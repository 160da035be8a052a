// The kernels of stadium for CUDA.
//
// A thread serves an element: a visit reads one word of tickets and at most a few slots, so there is nothing for the lanes
// of a tile to share. The threads of a warp take their visits together, until none of them has work: an insert that waits
// for a ticket of its own warp sees it published in the next round.
#include "engines.hpp"
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"
#include "serve_lines.cuh"
#include "serve_rows.cuh"
#include "serve_stack.cuh"

GH_BEGIN

// Left to itself, ptxas spills a few bytes to keep more warps resident than pay.
template <class S, u32 Kind>
__global__ void __launch_bounds__(block_threads, Kind == mixed || S::wide ? 4 : 6)
    serve_elements(const __grid_constant__ stadium_table t, const __grid_constant__ request q, totals* sum) {
  using op_type = stadium_op<cuda_mem, S, Kind>;
  const size_t n = q.n_there ? *q.n_there : q.n;
  const size_t i = blockIdx.x * size_t(block_threads) + threadIdx.x;
  const bool mine = i < n && has_work(q, i);
  const size_t at = i < n ? i : 0;  // the last block reads element 0 where it has none
  const u32 bytes = S::value_bytes(t);
  const joiner j{q.combine, q.value_type, false, nullptr};

  u32 kd = q.kind;
  bool bad = false;
  if constexpr (Kind == mixed) {
    if (q.kind == mixed) {
      kd = q.ops[at];
      bad = mine && (kd > erase || (kd == accumulate && bytes != 4 && bytes != 8));
    }
  }
  unsigned char* const out =
      q.out_values && q.kind != count ? static_cast<unsigned char*>(q.out_values) + at * bytes : nullptr;
  const unsigned char* const operand =
      q.values && in_kinds(kd, adding_kinds) ? static_cast<const unsigned char*>(q.values) + at * bytes : nullptr;
  op_type o;
  o.start(t, kd, S::read_key(t, q.keys, at), operand, out);
  bool busy_still = mine && !bad && kd != nop;
  while (__any_sync(full_warp, busy_still))
    if (busy_still) busy_still = o.step(t, j) != verdict::done;

  if (bad) o.res.status = bad_op;
  if (mine) {
    if (q.status) q.status[i] = u8(o.res.status);
    if (q.kind == count)
      static_cast<u64*>(q.out_values)[i] = o.res.status == yes;
    else if (out && !answers_with(kd, o.res.status))
      for (u32 w = 0; w < bytes / 4; ++w) reinterpret_cast<u32*>(out)[w] = 0;
  }
  constexpr bool only_reads = Kind == find;
  if (!only_reads || q.batch_sum)
    add_totals<Kind == mixed>(sum, q.batch_sum, o.res.live, o.res.used, mine && o.res.status == yes,
                              mine && lacks_room(o.res.status), bad);
}

template <class S, u32 Kind>
int launch_batch(const void* table, const request& q, totals* sum) {
  const u64 blocks = (q.n + block_threads - 1) / block_threads;
  return launch(serve_elements<S, Kind>, blocks, block_threads, q.stream, *static_cast<const stadium_table*>(table), q,
                sum);
}
template <class S>
int run_batch(const void* table, const request& q, totals* sum) {
  if (!in_kinds(q.kind, writing_batches)) {
    if constexpr (!S::wide)
      if (static_cast<const stadium_table*>(table)->has_lines_of(cuda_line::groups))
        return run_by_lines<S>(*static_cast<const stadium_table*>(table), q, sum);
    return launch_batch<S, find>(table, q, sum);
  }
  if (q.kind == insert && q.tile == stack_of_warp)
    return run_by_stack<S>(*static_cast<const stadium_table*>(table), q, sum);
  if (q.kind == insert) return launch_batch<S, insert>(table, q, sum);
  return launch_batch<S, mixed>(table, q, sum);
}

// The live slots of cells lo..hi of an order, appended at *n in no order. Runs with no writer about.
__global__ void __launch_bounds__(block_threads) collect_live(const __grid_constant__ stadium_table t, cell_order order,
                                                              u64 lo, u64 hi, u32* keys, u32* values, u64* n) {
  const u64 at_order = lo + blockIdx.x * u64(block_threads) + threadIdx.x;
  const u64 cell = cell_at(order, at_order < hi ? at_order : lo);
  const u64 group = cell >> t.log_tickets;
  const u32 i = u32(cell - (group << t.log_tickets));
  const u64 word = cuda_mem::load<order::acquire>(t.tickets + group);
  const bool mine = at_order < hi && t.state_at(word, i) == live;
  const u32 lane = threadIdx.x % 32;
  const u32 all = __ballot_sync(full_warp, mine);
  u64 at = 0;
  if (lane == 0 && all) at = atomicAdd(n, u64(__popc(all)));
  at = shuffle(at, 0, 32) + __popc(all & ((1u << lane) - 1));
  if (!mine) return;
  if (keys) load_words<cuda_mem>(t.slot(group, i), keys + at * (t.key_bytes / 4), t.key_bytes);
  if (values) load_words<cuda_mem>(value_words(t, t.cell(group, i)), values + at * (t.value_bytes / 4), t.value_bytes);
}
int collect_slots(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
  const u64 blocks = (hi - lo + block_threads - 1) / block_threads;
  if (!blocks) return 0;
  return launch(collect_live, blocks, block_threads, to.stream, *static_cast<const stadium_table*>(table), order, lo,
                hi, static_cast<u32*>(to.keys), static_cast<u32*>(to.values), reinterpret_cast<u64*>(to.count));
}

template <class S>
constexpr engine engine_of() {
  return {run_batch<S>, collect_slots};
}
static const engine engines[stadium_engines] = {
    engine_of<small_pair<u32, 0>>(), engine_of<small_pair<u32, 4>>(),
    engine_of<small_pair<u32, 8>>(), engine_of<small_pair<u64, 0>>(),
    engine_of<small_pair<u64, 4>>(), engine_of<small_pair<u64, 8>>(),
    engine_of<wide_pair>(),          {run_row_batch, collect_rows, nullptr, nullptr, nullptr}};

GH_END

GPUHASH_CUDA_KERNELS(stadium)
