// Groups of a column on a CUDA device: the kernels of a call, one after the other on the caller's stream. Nothing comes
// back to the host; so a call can be captured into a graph, too.
#include "libgpuhash/columns/cuda/group.hpp"

#include <cuda_runtime.h>

#include "libgpuhash/columns/cuda/order.cuh"
#include "libgpuhash/src/error.hpp"

namespace gpuhash::columns {
namespace {

struct cuda_failure {
  cudaError_t code;
  const char* call;
};

void check(cudaError_t code, const char* call) {
  if (code != cudaSuccess) throw cuda_failure{code, call};
}

class chosen_device {
 public:
  explicit chosen_device(int ordinal) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    check(cudaSetDevice(ordinal), "cudaSetDevice");
  }
  ~chosen_device() { cudaSetDevice(before_); }

 private:
  int before_ = 0;
};

// What a block of `divide` takes at most: a tile of keys of 8 bytes, and the frequent keys with counts and first rows.
constexpr size_t most_shared = 120 << 10;

// Launches of one call.
class launcher {
 public:
  explicit launcher(const group_request& r) : stream_(static_cast<cudaStream_t>(r.stream)) {
    check(cudaDeviceGetAttribute(&processors_, cudaDevAttrMultiProcessorCount, r.ordinal), "cudaDeviceGetAttribute");
  }
  template <class Kernel, class... Arguments>
  void operator()(Kernel kernel, unsigned blocks, unsigned threads, size_t shared,
                  const Arguments&... arguments) const {
    constexpr size_t without_asking = 48 << 10;
    if (shared > most_shared) throw cuda_failure{cudaErrorInvalidConfiguration, "the launch of a kernel"};
    if (shared > without_asking)
      check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)),
            "cudaFuncSetAttribute");
    kernel<<<blocks, threads, shared, stream_>>>(arguments...);
    check(cudaGetLastError(), "the launch of a kernel");
  }
  void fill(void* p, int byte, size_t bytes) const {
    if (bytes) check(cudaMemsetAsync(p, byte, bytes, stream_), "cudaMemsetAsync");
  }
  // Blocks for so many pieces of work, at most so many for each multiprocessor.
  unsigned blocks(uint64_t pieces, unsigned per_processor) const {
    const uint64_t most = uint64_t(processors_) * per_processor;
    return unsigned(pieces < most ? pieces : most);
  }

 private:
  cudaStream_t stream_;
  int processors_ = 0;
};

template <class K>
group_work<K> work_of(const group_request& r, const group_plan& p) {
  char* const s = static_cast<char*>(r.scratch);
  const auto words = [&](size_t at) { return reinterpret_cast<u32*>(s + at); };
  const auto hashes = [&](size_t at) { return reinterpret_cast<K*>(s + at); };
  group_work<K> w{};
  w.keys = static_cast<const K*>(r.keys);
  w.n = u32(r.n);
  w.seed = K(r.seed);
  w.wants = r.wants;
  w.plan = p;
  w.facts = reinterpret_cast<group_facts*>(s + p.facts);
  w.sampled_keys = hashes(p.sampled_keys);
  w.sampled_times = words(p.sampled_times);
  w.frequent = hashes(p.frequent);
  w.frequent_code = words(p.frequent_code);
  w.frequent_first = words(p.frequent_first);
  w.frequent_count = words(p.frequent_count);
  w.coarse_count = words(p.coarse_count);
  w.coarse_start = words(p.coarse_start);
  w.coarse_end = words(p.coarse_end);
  w.bin_count = words(p.bin_count);
  w.bin_start = words(p.bin_start);
  w.bin_end = words(p.bin_end);
  w.coarse_key = hashes(p.coarse_key);
  w.coarse_row = words(p.coarse_row);
  w.bin_key = hashes(p.bin_key);
  w.bin_row = words(p.bin_row);
  w.first_bit = words(p.first_bits_at);
  w.prefix = words(p.prefix);
  w.strip_total = words(p.strip_total);
  w.listed_first = words(p.coarse_row);
  w.listed_count = words(p.coarse_key);
  w.out_keys = static_cast<K*>(r.out_keys);
  w.out_counts = reinterpret_cast<long long*>(r.out_counts);
  w.out_codes = reinterpret_cast<long long*>(r.out_codes);
  w.groups = reinterpret_cast<u32*>(r.groups);
  return w;
}

constexpr unsigned frequent_blocks = (frequent_places + sample_threads - 1) / sample_threads;

// Temporaries as kernels expect them, the frequent keys, and where each bin begins.
template <class K>
void prepare(const launcher& launch, const group_request& r, const group_work<K>& w) {
  const group_plan& p = w.plan;
  char* const s = static_cast<char*>(r.scratch);
  launch.fill(s, 0, p.ones);
  launch.fill(s + p.ones, 0xff, p.rest - p.ones);
  launch.fill(r.groups, 0, sizeof(*r.groups));
  if (p.sampled) launch(sample_rows<K>, p.sampled / sample_threads, sample_threads, 0, w);
  const bool to_bins = p.counted_at_once;
  const uint32_t bits = to_bins ? p.bits : p.first_bits;
  constexpr uint64_t piece = count_threads * count_each;
  launch(count_rows<K>, launch.blocks((w.n + piece - 1) / piece, 1), count_threads, size_t{4} << bits, w, bits,
         to_bins ? w.bin_count : w.coarse_count);
  launch(find_starts, 1, scan_threads, 0, to_bins ? w.bin_count : w.coarse_count, 1u << bits,
         static_cast<const u32*>(nullptr), to_bins ? w.bin_start : w.coarse_start, to_bins ? w.bin_end : w.coarse_end);
  if (to_bins && p.second_bits)
    launch(join_starts<K>, ((1u << p.first_bits) - 1) / count_threads + 1, count_threads, 0, w);
  if (!r.wants.first) launch(number_frequent<K>, frequent_blocks, sample_threads, 0, w);
}

template <class K, bool Rows>
void divide_rows(const launcher& launch, const group_work<K>& w) {
  const group_plan& p = w.plan;
  constexpr u32 tile = divide_tile<K, Rows>;
  const uint64_t number = (uint64_t{w.n} + tile - 1) / tile;
  launch(divide<K, Rows, false>, launch.blocks(number, 2), divide_threads,
         divide_memory<K, Rows, false>::bytes(p, w.wants), w);
  if (!p.second_bits) return;
  const size_t coarse = size_t{1} << p.first_bits, fine = size_t{1} << p.second_bits;
  const unsigned blocks = launch.blocks(number + coarse, 2);
  if (!p.counted_at_once) {
    launch(count_again<K, Rows>, blocks, divide_threads, 4 * (fine + coarse + 1), w);
    launch(find_starts, unsigned(coarse), scan_threads, 0, w.bin_count, u32(fine),
           static_cast<const u32*>(w.coarse_start), w.bin_start, w.bin_end);
  }
  launch(divide<K, Rows, true>, blocks, divide_threads, divide_memory<K, Rows, true>::bytes(p, w.wants), w);
}

template <class K, bool Counts, bool First, bool Codes>
void group(const launcher& launch, const group_work<K>& w) {
  launch(group_bins<K, Counts, First, Codes>, 1u << w.plan.bits, bin_threads,
         group_memory<K, Counts, First, Codes>::bytes, w);
}
template <class K>
void group_all(const launcher& launch, const group_work<K>& w) {
  const auto [first, counts, codes] = w.wants;
  if (first && counts && codes) return group<K, true, true, true>(launch, w);
  if (first && counts) return group<K, true, true, false>(launch, w);
  if (first && codes) return group<K, false, true, true>(launch, w);
  if (first) return group<K, false, true, false>(launch, w);
  if (counts && codes) return group<K, true, false, true>(launch, w);
  if (counts) return group<K, true, false, false>(launch, w);
  if (codes) return group<K, false, false, true>(launch, w);
  return group<K, false, false, false>(launch, w);
}

// In the order of first appearance.
template <class K>
void put_in_order(const launcher& launch, const group_work<K>& w) {
  const unsigned blocks = launch.blocks((uint64_t{w.n} + order_threads - 1) / order_threads, 8);
  launch(list_frequent<K>, frequent_blocks, sample_threads, 0, w);
  launch(count_firsts<K>, w.plan.strips, order_threads, 0, w);
  launch(find_starts, 1, scan_threads, 0, w.strip_total, w.plan.strips, static_cast<const u32*>(nullptr), w.strip_total,
         static_cast<u32*>(nullptr));
  launch(give_in_order<K>, w.plan.strips, order_threads, 0, w);
  if (w.wants.codes) launch(number_rows<K>, blocks, order_threads, 0, w);
  if (w.wants.counts) launch(give_counts_in_order<K>, blocks, order_threads, 0, w);
}

template <class K>
void run(const group_request& r) {
  const launcher launch(r);
  if (r.n == 0) return launch.fill(r.groups, 0, sizeof(*r.groups));
  const group_work<K> w = work_of<K>(r, plan_groups(r.n, r.key_bytes, r.wants));
  prepare(launch, r, w);
  r.wants.rows() ? divide_rows<K, true>(launch, w) : divide_rows<K, false>(launch, w);
  group_all(launch, w);
  if (r.wants.first) put_in_order(launch, w);
}

}  // namespace

gpuhash_status group_on_cuda(const group_request& r, gpuhash_error* err) {
  try {
    const chosen_device device(r.ordinal);
    int shared = 0;
    check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, r.ordinal),
          "cudaDeviceGetAttribute");
    if (size_t(shared) < most_shared)
      return fail(err, GPUHASH_UNSUPPORTED,
                  "cuda:%d has %d bytes of shared memory for a block, and groups take up to %zu: use a table",
                  r.ordinal, shared, most_shared);
    r.key_bytes == 4 ? run<u32>(r) : run<u64>(r);
    return GPUHASH_OK;
  } catch (const cuda_failure& failure) {
    return fail(err, GPUHASH_DEVICE_ERROR, "%s failed on cuda:%d: %s (%s)", failure.call, r.ordinal,
                cudaGetErrorString(failure.code), cudaGetErrorName(failure.code));
  }
}

}  // namespace gpuhash::columns
