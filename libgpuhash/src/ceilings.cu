// The ceilings of a CUDA device. See ceilings.hpp for what is measured.
//
// A row is read by one instruction across row/16 lanes of 16 bytes: relaxed loads bypass L1, so a thread that reads a
// long row on its own pays once per load. Every thread brings one number; the lanes of a row serve each other's numbers
// in turn, all loads in flight at once, full warps only. That is the best shape of those tried on an H200.
#include "libgpuhash/src/ceilings.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "libgpuhash/src/error.hpp"

namespace gpuhash {
namespace {

constexpr unsigned threads_per_block = 256;
constexpr unsigned full_warp = 0xffffffffu;

__device__ __forceinline__ size_t thread_index() { return size_t(blockIdx.x) * blockDim.x + threadIdx.x; }

__device__ __forceinline__ u64 load8(const u64* p) {
  u64 x;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(p));
  return x;
}

__device__ __forceinline__ u64 load16(const u64* p) {
  u64 x, y;
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(x), "=l"(y) : "l"(p));
  return x ^ y;
}

__global__ void fill_words(u64* words, size_t n, u64 factor) {
  const size_t i = thread_index();
  if (i < n) words[i] = i * factor;
}

__global__ void fill_numbers(u32* numbers, size_t n) {
  const size_t i = thread_index();
  if (i < n) numbers[i] = random_number(i);
}

__global__ void __launch_bounds__(threads_per_block)
    gather_words(const u64* words, spread rows, const u32* numbers, u32* out, size_t n) {
  const size_t i = thread_index();
  if (i >= n) return;
  const u64 x = load8(words + place_of(rows, numbers[i]));
  out[i] = u32(x ^ x >> 32);
}

template <unsigned Lanes>
__global__ void __launch_bounds__(threads_per_block)
    gather_rows(const u64* words, spread rows, const u32* numbers, u32* out, size_t n) {
  const size_t i = thread_index();
  const unsigned lane = threadIdx.x % Lanes;
  const u32 mine = i < n ? numbers[i] : 0;  // every thread takes part in the shuffles
  u64 all = 0;
#pragma unroll
  for (unsigned turn = 0; turn < Lanes; ++turn) {
    const u32 number = Lanes == 1 ? mine : __shfl_sync(full_warp, mine, turn, Lanes);
    all ^= load16(words + place_of(rows, number) + 2 * lane);
  }
  if (i < n) out[i] = u32(all ^ all >> 32);
}

__global__ void __launch_bounds__(threads_per_block)
    swap_words(u64* words, spread rows, const u32* numbers, u32* out, size_t n, u64 round) {
  const size_t i = thread_index();
  if (i >= n) return;
  u64 seen;
  asm volatile("atom.relaxed.gpu.global.cas.b64 %0, [%1], %2, %3;"
               : "=l"(seen)
               : "l"(words + place_of(rows, numbers[i])), "l"(round), "l"(round + 1)
               : "memory");
  if (seen > round + 1) out[i] = u32(seen);  // never true, but it keeps the answer of the atomic in use
}

// ---- host ----------------------------------------------------------------------------------------------------------

constexpr size_t launched_in_a_row = 100;
__global__ void do_nothing(u64* words) {
  if (words != nullptr) *words = 1;
}

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

template <class T>
class device_array {
 public:
  explicit device_array(size_t count) { check(cudaMalloc(&p_, count * sizeof(T)), "cudaMalloc"); }
  ~device_array() { cudaFree(p_); }
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  T* data() const { return p_; }

 private:
  T* p_ = nullptr;
};

class stopwatch {
 public:
  stopwatch() {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  ~stopwatch() {
    if (stop_ != nullptr) cudaEventDestroy(stop_);
    if (start_ != nullptr) cudaEventDestroy(start_);
    if (stream != nullptr) cudaStreamDestroy(stream);
  }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

  // Seconds that the work which body puts on the stream takes on the device.
  template <class Body>
  double time(Body body) {
    float milliseconds = 0;
    check(cudaEventRecord(start_, stream), "cudaEventRecord");
    body();
    check(cudaGetLastError(), "the launch of a kernel");
    check(cudaEventRecord(stop_, stream), "cudaEventRecord");
    check(cudaEventSynchronize(stop_), "cudaEventSynchronize");
    check(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
    return double(milliseconds) / 1000;
  }

  cudaStream_t stream = nullptr;

 private:
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
};

unsigned blocks_for(size_t n) { return unsigned((n + threads_per_block - 1) / threads_per_block); }

struct arena {
  u64* words;
  const u32* numbers;
  u32* out;
  spread rows;
  size_t n;
};

template <unsigned Lanes>
void launch_rows(const arena& a, cudaStream_t stream) {
  gather_rows<Lanes><<<blocks_for(a.n), threads_per_block, 0, stream>>>(a.words, a.rows, a.numbers, a.out, a.n);
}

void launch(const ceiling_request& r, const arena& a, u64 round, cudaStream_t stream) {
  const unsigned blocks = blocks_for(a.n);
  if (r.what == access::cas) {
    swap_words<<<blocks, threads_per_block, 0, stream>>>(a.words, a.rows, a.numbers, a.out, a.n, round);
    return;
  }
  switch (r.row_bytes) {
    case 8: gather_words<<<blocks, threads_per_block, 0, stream>>>(a.words, a.rows, a.numbers, a.out, a.n); return;
    case 16: return launch_rows<1>(a, stream);
    case 32: return launch_rows<2>(a, stream);
    case 64: return launch_rows<4>(a, stream);
    default: return launch_rows<8>(a, stream);
  }
}

void measure_accesses(const ceiling_request& r) {
  stopwatch watch;
  const size_t n_words = r.table_bytes / sizeof(u64);
  const device_array<u64> words(n_words);
  const device_array<u32> numbers(r.n), out(r.n);
  const u64 filler = r.what == access::cas ? 0 : 0x9e3779b97f4a7c15u;
  fill_words<<<blocks_for(n_words), threads_per_block, 0, watch.stream>>>(words.data(), n_words, filler);
  fill_numbers<<<blocks_for(r.n), threads_per_block, 0, watch.stream>>>(numbers.data(), r.n);
  check(cudaGetLastError(), "the launch of a kernel");

  const arena a{words.data(), numbers.data(), out.data(), spread_over(r.table_bytes, r.row_bytes), r.n};
  u64 round = 0;
  const auto pass = [&] { return watch.time([&] { launch(r, a, round++, watch.stream); }); };
  pass();
  for (size_t i = 0; i < r.repeats; ++i) r.seconds[i] = pass();
}

void measure_copy(const ceiling_request& r) {
  stopwatch watch;
  const device_array<char> memory(r.table_bytes);
  char *from = memory.data(), *to = from + r.table_bytes / 2;
  check(cudaMemsetAsync(from, 1, r.table_bytes, watch.stream), "cudaMemsetAsync");
  const auto pass = [&] {
    return watch.time(
        [&] { check(cudaMemcpyAsync(to, from, r.n, cudaMemcpyDeviceToDevice, watch.stream), "cudaMemcpyAsync"); });
  };
  pass();
  for (size_t i = 0; i < r.repeats; ++i) r.seconds[i] = pass();
}

// The host's time. No more launches one after the other than a stream has room for without making the host wait.
void measure_launches(const ceiling_request& r) {
  stopwatch watch;
  const auto pass = [&] {
    std::chrono::duration<double> all{};
    for (size_t done = 0; done < r.n; done += launched_in_a_row) {
      check(cudaStreamSynchronize(watch.stream), "cudaStreamSynchronize");
      const auto start = std::chrono::steady_clock::now();
      for (size_t i = done; i < std::min(done + launched_in_a_row, r.n); ++i)
        do_nothing<<<1, 32, 0, watch.stream>>>(nullptr);
      all += std::chrono::steady_clock::now() - start;
      check(cudaGetLastError(), "the launch of a kernel");
    }
    return all.count();
  };
  pass();
  for (size_t i = 0; i < r.repeats; ++i) r.seconds[i] = pass();
  check(cudaStreamSynchronize(watch.stream), "cudaStreamSynchronize");
}

}  // namespace

gpuhash_status measure_cuda_ceiling(int ordinal, const ceiling_request& r, gpuhash_error* err) {
  constexpr size_t most_threads = size_t(0x7fffffff) * threads_per_block;  // a grid's first dimension
  const bool random = r.what == access::gather || r.what == access::cas;
  if (random && (r.n > most_threads || r.table_bytes / sizeof(u64) > most_threads))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "n = %zu is too large for one launch on cuda:%d; use at most %zu", r.n,
                ordinal, most_threads);
  try {
    const chosen_device device(ordinal);
    random ? measure_accesses(r) : r.what == access::copy ? measure_copy(r) : measure_launches(r);
    return GPUHASH_OK;
  } catch (const cuda_failure& failure) {
    const bool memory = failure.code == cudaErrorMemoryAllocation;
    if (memory) cudaGetLastError();  // else the next call of this thread would report it again
    return fail(err, memory ? GPUHASH_NO_MEMORY : GPUHASH_DEVICE_ERROR, "%s failed on cuda:%d: %s (%s)%s", failure.call,
                ordinal, cudaGetErrorString(failure.code), cudaGetErrorName(failure.code),
                memory ? "; take a smaller table_bytes or n" : "");
  }
}

}  // namespace gpuhash
