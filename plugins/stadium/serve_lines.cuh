// stadium on CUDA: finds of small keys by whole lines of tickets.
//
// A visit is two accesses, one after the other: a line of tickets, then the slot that it names. Most finds need one visit,
// or only the tickets. A warp owns 128 elements and takes the first visits of all of them together, four of each lane on
// the way at a time. What they leave undecided lies in a list in shared memory and is served 32 at a time, so that no lane
// waits for another one's long path.
#pragma once
#include "libgpuhash/drive/cuda.cuh"
#include "ops.hpp"

GH_BEGIN

// A line of four groups in two loads: what a read of the device's memory brings anyway.
struct cuda_line {
  static constexpr u32 groups = 4;
  GH_FN static line_bits look(const stadium_table& t, const u64* line, u64 mine) {
    u64 words[groups];
    cuda_mem::acquire_two(line, words);
    cuda_mem::acquire_two(line + 2, words + 2);
    line_bits seen{};
    for (u32 g = 0; g < groups; ++g) seen.add(t, g, words[g], mine);
    return seen;
  }
};

inline constexpr u32 finds_of_lane = 4;
inline constexpr u32 finds_of_warp = 32 * finds_of_lane;

// A find that goes on.
template <class Key>
struct line_job {
  u64 group, left;
  Key k;  // which may have been overwritten where it came from
  u32 unsettled;
  u32 element;  // of the warp's
};
template <class Key>
struct line_jobs {
  line_job<Key> of[block_threads / 32][finds_of_warp];
};

template <class S>
struct line_finder {
  using key = typename S::key;
  using value = std::conditional_t<S::value_size == 8, u64, u32>;
  using look = stadium_line_look<cuda_mem, S, cuda_line>;

  const stadium_table& t;
  const request& q;
  const size_t first;  // of the warp's elements
  line_job<key>* const jobs;
  u32 n_jobs = 0;
  u32 found = 0;  // by this lane

  GH_FN void answer(u32 element, bool is_there, value v) {
    const size_t i = first + element;
    if (q.status) q.status[i] = u8(is_there ? yes : no);
    if (q.kind == count)
      static_cast<u64*>(q.out_values)[i] = is_there;
    else if (S::value_size && q.out_values)
      static_cast<value*>(q.out_values)[i] = is_there ? v : value(0);
    found += is_there;
  }
  // Is it the key? v: its value.
  GH_FN bool compare(const look& seen, const stadium_visit<S>& visit, value* v) const {
    *v = 0;
    if (!seen.live_there) return false;
    if (S::value_size) load_value<cuda_mem>(t, seen.cell(t, visit), v, S::value_size);
    return S::template same_key<cuda_mem>(t, seen.slot, visit.k);
  }
  // After a visit: the answer, or a job.
  GH_FN void settle(bool mine, u32 element, const look& seen, bool there, value its, stadium_visit<S>& v) {
    bool open = mine && !there && !seen.absent;
    bool no_matter;
    if (open) open = seen.rest(t, v, nullptr, &no_matter) == verdict::next;
    if (mine && !open) answer(element, there, its);
    const u32 all = __ballot_sync(full_warp, open);
    const u32 rank = u32(__popc(all & ((1u << threadIdx.x % 32) - 1)));
    if (open) jobs[n_jobs + rank] = {v.group, v.left, v.k, u32(v.unsettled), element};
    n_jobs += u32(__popc(all));
  }
};

template <class S>
__global__ void __launch_bounds__(block_threads, 4)
    find_by_lines(const __grid_constant__ stadium_table t, const __grid_constant__ request q, totals* sum) {
  using key = typename S::key;
  using value = typename line_finder<S>::value;
  GH_BLOCK_MEMORY(line_jobs<key>, list);
  const u32 lane = threadIdx.x % 32;
  const size_t n = q.n_there ? *q.n_there : q.n;
  const size_t first = (blockIdx.x * size_t(block_threads / 32) + threadIdx.x / 32) * finds_of_warp;
  if (first >= n) return;
  line_finder<S> f{t, q, first, list.of[threadIdx.x / 32]};
  {
    stadium_visit<S> v[finds_of_lane];
    typename line_finder<S>::look seen[finds_of_lane];
    value its[finds_of_lane];
    bool there[finds_of_lane];
#pragma unroll
    for (u32 e = 0; e < finds_of_lane; ++e) {
      const size_t i = first + 32 * e + lane;
      v[e].start(t, S::read_key(t, q.keys, i < n ? i : first));
    }
#pragma unroll
    for (u32 e = 0; e < finds_of_lane; ++e) seen[e].look(t, v[e]);
#pragma unroll
    for (u32 e = 0; e < finds_of_lane; ++e) there[e] = f.compare(seen[e], v[e], &its[e]);
#pragma unroll
    for (u32 e = 0; e < finds_of_lane; ++e) {
      const size_t i = first + 32 * e + lane;
      f.settle(i < n && has_work(q, i), 32 * e + lane, seen[e], there[e], its[e], v[e]);
    }
  }
  while (f.n_jobs != 0) {
    __syncwarp();
    const u32 takes = f.n_jobs < 32 ? f.n_jobs : 32;
    f.n_jobs -= takes;
    const bool mine = lane < takes;
    const line_job<key> job = f.jobs[f.n_jobs + (mine ? lane : 0)];
    __syncwarp();  // all have read theirs before others lie there
    stadium_visit<S> v;
    v.start(t, job.k);
    v.group = job.group;
    v.left = job.left;
    v.unsettled = job.unsettled;
    typename line_finder<S>::look seen;
    seen.look(t, v);
    value its;
    const bool there = mine && f.compare(seen, v, &its);
    f.settle(mine, job.element, seen, there, its, v);
  }
  if (q.batch_sum) add_sums(sum, q.batch_sum, 0, 0, int(warp_sum(f.found)), 0, 0);
}

template <class S>
int run_by_lines(const stadium_table& t, const request& q, totals* sum) {
  constexpr u64 of_block = block_threads / 32 * finds_of_warp;
  return launch(find_by_lines<S>, (q.n + of_block - 1) / of_block, block_threads, q.stream, t, q, sum);
}

GH_END
