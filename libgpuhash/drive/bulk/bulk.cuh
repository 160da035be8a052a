// Large batches: the CUDA driver that serves them by partitions of the table. This file launches its kernels.
//
// One element at a time, a table is bound by random accesses of memory, and by the keys that many elements name: those
// all wait for one slot. A batch that is large beside its table is divided by partitions of the table that fit into the
// memory of a block; then each block reads its partition, carries out what belongs there, and writes the partition
// back. Memory is accessed in long runs only. The table is held exclusively meanwhile. README.md in the folder above
// names all ways by which a batch is served; policy.hpp says which batches come here.
//
//   pick                empties the lists, and reads a few thousand elements
//   sample              which keys are frequent among these? Does it pay to divide the batch? If not, its elements are
//                       served one after the other (request::unless)
//   decline_for_dead    are many slots dead? Then the batch is not divided either
//   ask                 which status will most elements have? Some of their keys are looked for
//   combine_all         an accumulate without statuses, nearly all of whose elements are of few keys: all elements are
//                       combined, and nothing is divided
//   divide              elements go to bins, in one pass or two; elements of frequent keys, and of the keys of the side
//                       slots, are combined instead
//   try_combining       an accumulate: do the elements of a partition repeat keys, all the same?
//   combine_partitions  if so, equal keys of a partition become one element
//   serve_partitions    a block for each partition: what is plain by counting, the rest by ops.hpp
//   serve_own           the same for a structure that has partitions of another shape
//   serve_rest          in the table itself, one at a time: frequent keys, and the second time what is left
//   retry_failed        an accumulate: operations that found no room, and whose key is there after all
//   report_failed       the statuses of elements that found no room
//
// Elements are left if their bin had no room for them, or their path leaves their partition. They go the same way a
// second time: among them keys are frequent that were not among all.
#pragma once
#include "libgpuhash/drive/bulk/contract.cuh"
#include "libgpuhash/drive/bulk/failed.cuh"
#include "libgpuhash/drive/bulk/own_kernel.cuh"
#include "libgpuhash/drive/bulk/plan.cuh"
#include "libgpuhash/drive/bulk/rest.cuh"
#include "libgpuhash/drive/bulk/sample_table.cuh"
#include "libgpuhash/kit/parts.hpp"

GH_BEGIN

template <class Partitions>
auto server_of(u32 kind) {
  if constexpr (Partitions::own_partitions)
    return Partitions::server(kind);
  else
    return kind == insert       ? serve_partitions<Partitions, insert>
           : kind == assign     ? serve_partitions<Partitions, assign>
           : kind == accumulate ? serve_partitions<Partitions, accumulate>
                                : serve_partitions<Partitions, erase>;
}

// The kernels of a slice follow each other without the host; those that find nothing to do end at once.
template <class Partitions>
class bulk_launcher {
  using F = typename Partitions::F;

 public:
  bulk_launcher(const typename Partitions::table& a_table, const request& a_request, const bulk_work<F>& a_work,
                totals* a_sum)
      : t(a_table), q(a_request), w(a_work), sum(a_sum), with_statuses(a_request.status != nullptr) {}

  // Serves all elements of the slice (the first time), or those that were left over (the second time). Returns 0, or a
  // CUDA error code.
  int run() const {
    int e = take_samples();
    if (!e) e = divide_elements();
    if (!e) e = serve_elements();
    return e;
  }

 private:
  int take_samples() const {
    int e = w.again ? launch_next(pick<F>, pick_blocks, block_threads, 0, q.stream, q, w)
                    : launch(pick<F>, pick_blocks, block_threads, q.stream, q, w);
    if (!e) e = launch_next(sample<F>, 1, sample_threads, sample_bytes<F>(), q.stream, q, w);
    if constexpr (Partitions::policy.declines_dead)
      if (!e && w.unless_dead && !w.again)
        e = launch_next(decline_for_dead<Partitions>, 1, partition_threads, 0, q.stream, t, w);
    if (!e && with_statuses && q.kind != erase && !w.again)
      e = launch_next(ask<Partitions>, 1, block_threads, 0, q.stream, t, q, w);
    return e;
  }

  int divide_elements() const {
    int e = 0;
    if constexpr (F::has_value)
      if (w.again ? w.may_combine_left : w.may_combine_all)
        e = launch_next(combine_all<Partitions>, w.blocks, partition_threads, cache_bytes, q.stream, t, q, w, sum);
    if (!e)
      e = launch_next(divide<Partitions, false>, w.blocks, partition_threads,
                      divide_bytes<F>(false, w.tile[0], with_statuses), q.stream, t, q, w);
    if (!e && w.bin_bits)
      e = launch_next(divide<Partitions, true>, w.blocks, partition_threads,
                      divide_bytes<F>(true, w.tile[1], with_statuses), q.stream, t, q, w);
    if constexpr (F::has_value)
      if (!e && w.may_combine_partitions && (!w.again || w.sub_bits)) {
        e = launch_next(try_combining<F>, lists_tried, combine_threads, 0, q.stream, w);
        if (!e)
          e = launch_next(combine_partitions<F>, w.sub_bits ? w.bins : w.partitions, combine_threads, combine_bytes,
                          q.stream, q, w);
      }
    return e;
  }

  int serve_elements() const {
    int e = 0;
    if (w.partition_room)
      e = launch_next(server_of<Partitions>(q.kind), w.partitions,
                      Partitions::own_partitions ? own_threads : serve_threads,
                      serve_bytes<Partitions>(t, w.partition_bits, with_statuses), q.stream, t, q, w, sum);
    if (!e)
      e = launch_next(serve_rest<Partitions>, w.blocks / 2 * rest_blocks<Partitions>, block_threads, 0, q.stream, t, q,
                      w, sum);
    if constexpr (F::has_value)
      if (!e && w.sums && w.again)
        e = launch_next(retry_failed<Partitions>, w.blocks, block_threads, 0, q.stream, t, q, w);
    if (!e) e = launch_next(report_failed<Partitions>, w.blocks, block_threads, 0, q.stream, t, q, w, sum);
    return e;
  }

  const typename Partitions::table& t;
  const request& q;
  const bulk_work<F>& w;
  totals* const sum;
  const bool with_statuses;
};

// The batch in slices, each of which has the memory to itself. `otherwise` serves the elements of a slice that the
// device does not divide.
template <class Partitions>
int run_bulk(const void* table, const request& given, totals* sum, void* memory,
             int (*otherwise)(const void* table, const request& q, totals* sum)) {
  const auto& t = *static_cast<const typename Partitions::table*>(table);
  bulk_work<typename Partitions::F> w{};
  u64 bytes = 0;
  plan_batch<Partitions>(t, given, memory, &w, &bytes);
  for (u64 done = 0; done < given.n; done += w.slice) {
    request q = part_of(given, done, given.n - done < w.slice ? given.n - done : w.slice);
    w.n = q.n;
    for (const bool again : {false, true}) {
      w.again = again;
      w.fresh = given.added == 0 && done == 0 && !again;
      std::swap(w.source, w.rest);  // elements that the first time leaves over are the source of the second
      if (const int e = bulk_launcher<Partitions>(t, q, w, sum).run()) return e;
    }
    if (w.divides & always && !w.unless_dead) continue;
    q.unless = &w.found->divided_first;
    if (const int e = otherwise(table, q, sum)) return e;
  }
  return 0;
}

template <class Partitions>
constexpr parts_engine make_bulk_engine() {
  if constexpr (has_bulk_members<Partitions>())
    return {bulk_memory<Partitions>, run_bulk<Partitions>};
  else
    return {};
}
template <class Partitions>
inline constexpr parts_engine bulk_engine_of = make_bulk_engine<Partitions>();

GH_END
