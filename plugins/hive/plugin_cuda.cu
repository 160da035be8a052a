// The kernels of hive for CUDA.
//
// A tile reads a bucket: 4 lanes of 16 bytes for 8 slots of 8 bytes. Finds that have the table to themselves (the gate says
// so) need no second looks.
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"
#include "parts.cuh"
#include "steps.cuh"

GH_BEGIN

template <class F, u32 Kind, int R, bool Alone = false>
int serve(const void* t, const request& q, totals* sum) {
  constexpr bool may_miss = Kind == mixed || !in_kinds(Kind, adding_kinds);
  constexpr bool acquires = may_miss && !Alone && !GH_MUTANT(relaxed_row);
  constexpr int in_flight = Alone ? 4 : Kind == insert ? 2 : 1;
  using tile = hive_cuda_tile<F, R, acquires ? order::acquire : order::relaxed>;
  return run_on_cuda<hive_op<tile, Kind, Alone>, in_flight>(t, q, sum);
}

template <class F, int R>
int run_buckets(const void* t, const request& q, totals* sum) {
  return for_kind<F, hive_table<F>::kinds>(q.kind, int(cudaErrorInvalidValue), [&]<u32 Kind>() {
    if constexpr (!in_kinds(Kind, writing_batches))
      if (q.alone) return serve<F, Kind, R, true>(t, q, sum);
    return serve<F, Kind, R>(t, q, sum);
  });
}

template <class F>
int run(const void* table, const request& q, totals* sum) {
  switch (static_cast<const hive_table<F>*>(table)->slot_bits) {
    case 3: return run_buckets<F, 8>(table, q, sum);
    case 4: return run_buckets<F, 16>(table, q, sum);
    default: return run_buckets<F, 32>(table, q, sum);
  }
}

template <class F>
constexpr engine engine_of() {
  engine e = {run<F>, collect_on_cuda<hive_table<F>>};
  e.segments = &segment_kernels<F>::all;
  e.parts = &bulk_engine_of<hive_partitions<F>>;
  return e;
}
static const engine engines[format_count] = GPUHASH_OF_FORMATS(engine_of);

GH_END

GPUHASH_CUDA_KERNELS(hive)
