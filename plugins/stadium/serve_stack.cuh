// stadium on CUDA: inserts by warps whose lanes share a stack of jobs (clStash in the paper, section III-C).
//
// A thread that follows a path of its own leaves the other lanes of its warp idle. Here a warp has 256 elements and a stack
// in shared memory. All lanes visit the first groups of 32 elements; what is not done then goes on the stack. As soon as
// the stack has a job for every lane, all lanes visit the next groups of those. At the end the stack is emptied.
//
// A job on the stack has booked nothing: a visit that books a ticket publishes it, too. So no lane waits for a job that
// no lane is serving.
#pragma once
#include "libgpuhash/drive/cuda.cuh"
#include "ops.hpp"

GH_BEGIN

inline constexpr u32 run_of_warp = 256;  // elements
inline constexpr u32 warps_of_block = block_threads / 32;

struct job {
  u64 at, left;
  u32 element;  // of the warp's run
};
struct job_stacks {
  job of[warps_of_block][64];  // fewer than 32 are left when 32 more may come
};

template <class S>
__global__ void __launch_bounds__(block_threads, S::wide ? 4 : 5)
    insert_by_stack(const __grid_constant__ stadium_table t, const __grid_constant__ request q, totals* sum) {
  using op_type = stadium_op<cuda_mem, S, insert>;
  GH_BLOCK_MEMORY(job_stacks, stacks);
  const u32 lane = threadIdx.x % 32;
  job* const stack = stacks.of[threadIdx.x / 32];
  const size_t n = q.n_there ? *q.n_there : q.n;
  const size_t first = (blockIdx.x * size_t(warps_of_block) + threadIdx.x / 32) * run_of_warp;
  const u32 bytes = S::value_bytes(t);
  u32 many = first >= n ? 0 : n - first < run_of_warp ? u32(n - first) : run_of_warp;
  u32 next = 0;  // the first element that no lane has looked at
  u32 top = 0;   // of the stack
  u32 added = 0;
  u32 failed = 0;
  while (top || next < many) {
    job mine{0, 0, next + lane};
    const bool from_stack = top >= 32 || next >= many;
    const u32 takes = top < 32 ? top : 32;
    bool busy = !from_stack && mine.element < many && has_work(q, first + mine.element);
    if (from_stack) {
      busy = lane < takes;
      if (busy) mine = stack[top - takes + lane];
      top -= takes;
      __syncwarp();  // all have read theirs before others lie there
    } else {
      next += 32;
    }
    const size_t i = busy ? first + mine.element : 0;
    op_type o;
    o.start(t, insert, S::read_key(t, q.keys, i), nullptr, nullptr);
    o.operand = q.values ? static_cast<const unsigned char*>(q.values) + i * bytes : nullptr;
    if (from_stack) {
      o.at = mine.at;
      o.left = mine.left;
    }
    const bool done = busy && o.step(t, joiner{}) == verdict::done;
    if (done) {
      if (q.status) q.status[i] = u8(o.res.status);
      unsigned char* const out = static_cast<unsigned char*>(q.out_values) + i * bytes;
      for (u32 w = 0; q.out_values && w < bytes / 4; ++w) reinterpret_cast<u32*>(out)[w] = 0;
      added += o.res.status == yes;
      failed += lacks_room(o.res.status);
    }
    const u32 rest = __ballot_sync(full_warp, busy && !done);
    if (busy && !done) stack[top + __popc(rest & ((1u << lane) - 1))] = {o.at, o.left, mine.element};
    top += __popc(rest);
    __syncwarp();
  }

  const u32 all_added = warp_sum(added);
  const u32 all_failed = warp_sum(failed);
  if (lane) return;
  const u32 stripe = blockIdx.x % total_stripes;
  const auto add = [](auto* to, u32 value) {
    if (value) atomicAdd(reinterpret_cast<u64*>(to), u64(value));
  };
  for (totals* to : {sum + stripe, q.batch_sum ? q.batch_sum + stripe : nullptr}) {
    if (!to) continue;
    const bool of_batch = to != sum + stripe;
    add(&to->live, all_added);
    add(&to->used, all_added);
    if (of_batch) add(&to->yes, all_added);
    if (of_batch || !q.batch_sum) add(&to->failed, all_failed);  // batch_sum is reported by the call that reads it
  }
}

template <class S>
int run_by_stack(const stadium_table& t, const request& q, totals* sum) {
  constexpr u64 of_block = warps_of_block * run_of_warp;
  return launch(insert_by_stack<S>, (q.n + of_block - 1) / of_block, block_threads, q.stream, t, q, sum);
}

GH_END
