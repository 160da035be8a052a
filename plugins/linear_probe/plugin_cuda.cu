// The kernels of linear_probe for CUDA. Lines of 32, 64 and 128 bytes, 1 or 2 keys in flight per tile, where measurement says
// that it matters (docs/performance.md): finding and inserting. The other kinds have one shape.
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "ops.hpp"

GH_BEGIN

// A thread per key that reads 32 bytes through L1: the best shape where the gate says that no writer runs.
template <class F> int find_alone(const void* t, const request& q, totals* sum) {
  return run_on_cuda<linear_op<cuda_tile<F, 32 / sizeof(typename F::word), 1, true>, find>, 1>(t, q, sum);
}
template <class F, u32 Kind, int Bytes, int P> int shape(const void* t, const request& q, totals* sum) {
  return run_on_cuda<linear_op<cuda_tile<F, Bytes / sizeof(typename F::word)>, Kind>, P>(t, q, sum);
}
template <class F, u32 Kind> int tuned(const void* t, const request& q, totals* sum, u32 line, u32 in_flight) {
  if (line == 64) return in_flight == 1 ? shape<F, Kind, 64, 1>(t, q, sum) : shape<F, Kind, 64, 2>(t, q, sum);
  return in_flight == 1 ? shape<F, Kind, 128, 1>(t, q, sum) : shape<F, Kind, 128, 2>(t, q, sum);
}

template <class F> int run(const void* table, const request& q, totals* sum) {
  const auto& t = *static_cast<const linear_table<F>*>(table);
  // Groups of 64 bytes are read as such; wider ones, and all inserts, by whole 128-byte lines.
  const bool small = (sizeof(typename F::word) << t.group_bits) <= 64;
  const u32 read = q.read_line ? q.read_line : small ? 64 : 128;
  const u32 write = q.write_line ? q.write_line : 128;
  switch (q.kind) {
    case find:
      if (read == 32) return q.alone ? find_alone<F>(table, q, sum) : shape<F, find, 32, 1>(table, q, sum);
      return tuned<F, find>(table, q, sum, read, q.in_flight ? q.in_flight : read == 64 ? 1 : 2);
    case insert: return tuned<F, insert>(table, q, sum, write, q.in_flight ? q.in_flight : 2);
    case assign: return shape<F, assign, 128, 2>(table, q, sum);
    case accumulate: return shape<F, accumulate, 128, 2>(table, q, sum);
    case erase: return shape<F, erase, 128, 2>(table, q, sum);
    case mixed: return shape<F, mixed, 128, 1>(table, q, sum);
  }
  return int(cudaErrorInvalidValue);
}

static const engine engines[format_count] = {
    {run<set32>, collect_on_cuda<linear_table<set32>>},
    {run<pair32>, collect_on_cuda<linear_table<pair32>>},
    {run<set64>, collect_on_cuda<linear_table<set64>>},
    {run<pair64>, collect_on_cuda<linear_table<pair64>>},
};

GH_END

extern "C" const gpuhash::engine* gpuhash_linear_probe_engines_cuda() { return gpuhash::engines; }
extern "C" const gpuhash::device_api* gpuhash_linear_probe_device_cuda() { return &gpuhash::cuda_device; }
