// The ceilings of the CPU, and gpuhash_measure_ceiling. See ceilings.hpp for what is measured.
//
// How far ahead to prefetch decides the result by up to 4x, and the best distance differs between processors, row sizes
// and table sizes. So the warm-up tries each of several distances twice, and the fastest is the one that is timed.
// (Issuing prefetches in groups of 16 or with other hints changed nothing.)
#include "libgpuhash/src/ceilings.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <iterator>
#include <limits>
#include <new>

#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/error.hpp"
#include "libgpuhash/src/memory.hpp"
#include "libgpuhash/src/team.hpp"
#include "libgpuhash/tile/host.hpp"
#include "libgpuhash/tile/prefetch.hpp"

namespace gpuhash {
namespace {

constexpr size_t cache_line = 64;
constexpr size_t distances[] = {0, 16, 32, 64, 96, 128, 192, 256};  // 0: no prefetch; wins in the caches
constexpr size_t most_ahead = *std::max_element(std::begin(distances), std::end(distances));
constexpr uint32_t most_threads = 4096;
constexpr size_t most_repeats = 1'000'000;
constexpr size_t least_slice = 8192;

// Memory of the CPU's default resource: huge pages, so that the TLB is as little of the cost as in a table.
template <class T>
class host_array {
 public:
  explicit host_array(size_t count) : bytes_(count * sizeof(T)) {
    p_ = static_cast<T*>(host_memory.allocate(host_memory.context, bytes_, cache_line, nullptr));
    if (p_ == nullptr) throw std::bad_alloc();
  }
  ~host_array() { host_memory.deallocate(host_memory.context, p_, bytes_, cache_line, nullptr); }
  host_array(const host_array&) = delete;
  host_array& operator=(const host_array&) = delete;
  T* data() const { return p_; }

 private:
  size_t bytes_;
  T* p_;
};

struct arena {
  u64* words;          // the memory under test
  const u32* numbers;  // n of them, and most_ahead more, so that prefetching needs no bounds check
  u32* out;            // n
  spread rows;

  u64* row(size_t i) const { return words + place_of(rows, numbers[i]); }
};

template <size_t Row>
void prefetch_row(const u64* row) {
  for (size_t byte = 0; byte < Row; byte += cache_line) prefetch_line(row + byte / sizeof(u64));
}

template <size_t Row>
u32 fold_row(const u64* row) {
  u64 all = 0;
  for (size_t w = 0; w < Row / sizeof(u64); ++w) all ^= row[w];
  return u32(all ^ all >> 32);
}

template <size_t Row>
void gather(arena a, size_t first, size_t last, size_t ahead, u64) {
  for (size_t i = first; i < last; ++i) {
    if (ahead != 0) prefetch_row<Row>(a.row(i + ahead));
    a.out[i] = fold_row<Row>(a.row(i));
  }
}

void swap_words(arena a, size_t first, size_t last, size_t ahead, u64 round) {
  for (size_t i = first; i < last; ++i) {
    if (ahead != 0) host_mem::prefetch<true>(a.row(i + ahead));
    u64 expected = round;
    std::atomic_ref<u64>(*a.row(i)).compare_exchange_strong(expected, round + 1, std::memory_order_relaxed,
                                                            std::memory_order_relaxed);
  }
}

// A pass over accesses first .. last-1, by one thread, prefetching so many accesses ahead (0: not at all). round counts
// the passes so far. The arena is passed by value: through a reference, each store to out might change it, and it would
// be read again for every access.
using pass_function = void (*)(arena a, size_t first, size_t last, size_t ahead, u64 round);

pass_function pass_of(const ceiling_request& r) {
  if (r.what == access::cas) return swap_words;
  switch (r.row_bytes) {
    case 8: return gather<8>;
    case 16: return gather<16>;
    case 32: return gather<32>;
    case 64: return gather<64>;
    default: return gather<128>;
  }
}

// Run body(first, last) on slices of 0 .. n-1 by a team of threads; the seconds until the last one is done. There are
// several slices to a thread, so that one that starts late does not decide the time.
template <class Body>
double team(uint32_t threads, size_t n, Body body) {
  struct work {
    Body& body;
    size_t n, slices;
  } all{body, n, std::clamp<size_t>(n / least_slice, 1, size_t(threads) * 16)};
  const auto serve = [](void* context, size_t slice) {
    const work& w = *static_cast<const work*>(context);
    const size_t share = w.n / w.slices, extra = w.n % w.slices, first = slice * share + std::min(slice, extra);
    w.body(first, first + share + (slice < extra));
  };
  const auto start = std::chrono::steady_clock::now();
  parallel(threads, all.slices, serve, &all);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

gpuhash_status measure_accesses(const ceiling_request& r) {
  const size_t n_words = r.table_bytes / sizeof(u64), n_numbers = r.n + most_ahead;
  const host_array<u64> words(n_words);
  const host_array<u32> numbers(n_numbers), out(r.n);
  const u64 filler = r.what == access::cas ? 0 : 0x9e3779b97f4a7c15u;
  team(r.threads, n_words, [&](size_t i, size_t last) {
    for (; i < last; ++i) words.data()[i] = i * filler;
  });
  team(r.threads, n_numbers, [&](size_t i, size_t last) {
    for (; i < last; ++i) numbers.data()[i] = random_number(i);
  });
  team(r.threads, r.n, [&](size_t i, size_t last) {
    for (; i < last; ++i) out.data()[i] = 0;
  });

  const arena a{words.data(), numbers.data(), out.data(), spread_over(r.table_bytes, r.row_bytes)};
  const pass_function run = pass_of(r);
  u64 round = 0;
  const auto pass = [&](size_t ahead) {
    const double seconds = team(r.threads, r.n, [&](size_t first, size_t last) { run(a, first, last, ahead, round); });
    asm volatile("" : : "r"(a.out), "r"(a.words) : "memory");  // results count as read
    ++round;
    return seconds;
  };
  size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (int trial = 0; trial < 2; ++trial)
    for (const size_t ahead : distances)
      if (const double seconds = pass(ahead); seconds < least) least = seconds, best = ahead;
  std::generate_n(r.seconds, r.repeats, [&] { return pass(best); });
  return GPUHASH_OK;
}

gpuhash_status measure_copy(const ceiling_request& r) {
  const host_array<char> memory(r.table_bytes);
  char *from = memory.data(), *to = from + r.table_bytes / 2;
  team(r.threads, r.n, [&](size_t first, size_t last) { std::memset(from + first, 1, last - first); });
  const auto pass = [&] {
    return team(r.threads, r.n, [&](size_t first, size_t last) {
      std::memcpy(to + first, from + first, last - first);
      asm volatile("" : : "r"(to) : "memory");
    });
  };
  pass();  // first touch of the second half
  std::generate_n(r.seconds, r.repeats, pass);
  return GPUHASH_OK;
}

struct named_access {
  const char* name;
  access what;
  size_t row_bytes;
};
constexpr named_access accesses[] = {
    {"gather8", access::gather, 8},   {"gather16", access::gather, 16},   {"gather32", access::gather, 32},
    {"gather64", access::gather, 64}, {"gather128", access::gather, 128}, {"cas64", access::cas, 8},
    {"copy", access::copy, 1},        {"launch", access::launch, 1},
};

gpuhash_status find_access(const char* what, ceiling_request& r, gpuhash_error* err) {
  if (what == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "what is NULL");
  const auto* found = std::find_if(std::begin(accesses), std::end(accesses),
                                   [&](const named_access& a) { return std::strcmp(a.name, what) == 0; });
  if (found == std::end(accesses))
    return fail(
        err, GPUHASH_INVALID_ARGUMENT,
        "there is no ceiling '%.40s'; use gather8, gather16, gather32, gather64, gather128, cas64, copy or launch",
        what);
  r.what = found->what;
  r.row_bytes = found->row_bytes;
  return GPUHASH_OK;
}

gpuhash_status check_request(const ceiling_request& r, gpuhash_error* err) {
  if (r.seconds == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "seconds is NULL");
  if (r.n == 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "n is 0: there is nothing to time");
  if (r.repeats == 0 || r.repeats > most_repeats)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "repeats is %zu; use 1 to %zu", r.repeats, most_repeats);
  if (r.threads > most_threads)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "threads is %u; use 0 (one for each CPU) to %u", r.threads,
                most_threads);
  if (r.what == access::copy && r.n > r.table_bytes / 2)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "copy: %zu bytes do not fit in half of table_bytes = %llu; table_bytes must be at least 2 n", r.n,
                u64(r.table_bytes));
  if (r.table_bytes < r.row_bytes)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "table_bytes is %llu, less than one row of %zu bytes",
                u64(r.table_bytes), r.row_bytes);
  return GPUHASH_OK;
}

// Linux hands out more address space than there is memory and kills processes later, so the sizes are checked here.
gpuhash_status check_memory(const ceiling_request& r, uint64_t memory, gpuhash_error* err) {
  if (r.what == access::launch) return GPUHASH_OK;
  const size_t per_access = r.what == access::copy ? 0 : 2 * sizeof(u32);
  if (r.table_bytes < memory && (per_access == 0 || r.n < (memory - r.table_bytes) / per_access)) return GPUHASH_OK;
  return fail(err, GPUHASH_NO_MEMORY,
              "table_bytes = %llu and n = %zu do not fit in the %llu bytes of memory of this device; take less of both",
              u64(r.table_bytes), r.n, u64(memory));
}

gpuhash_status measure(gpuhash_device device, ceiling_request& r, gpuhash_error* err) {
  gpuhash_device_info info{};
  info.struct_size = sizeof info;
  if (const auto status = resolve_device(device, err)) return status;
  if (const auto status = gpuhash_device_get_info(device, &info, err)) return status;
  if (const auto status = check_memory(r, info.memory_bytes, err)) return status;
  if (device.kind == GPUHASH_CPU) {
    if (r.what == access::launch)
      return fail(err, GPUHASH_UNSUPPORTED, "nothing is launched on the CPU; measure launch on a CUDA device");
    if (r.threads == 0) r.threads = default_threads();
    return r.what == access::copy ? measure_copy(r) : measure_accesses(r);
  }
  if (measure_cuda_ceiling == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "this libgpuhash was built without CUDA; build it with CUDA to measure %s",
                device_name(device).text);
  return measure_cuda_ceiling(device.ordinal, r, err);
}

}  // namespace
}  // namespace gpuhash

extern "C" gpuhash_status gpuhash_measure_ceiling(gpuhash_device device, const char* what, uint64_t table_bytes,
                                                  size_t n, size_t repeats, uint32_t threads, double* seconds,
                                                  gpuhash_error* err) {
  return gpuhash::guarded(err, [&] {
    gpuhash::ceiling_request r{};
    if (const auto status = gpuhash::find_access(what, r, err)) return status;
    r.table_bytes = table_bytes;
    r.n = n;
    r.repeats = repeats;
    r.threads = threads;
    r.seconds = seconds;
    if (const auto status = gpuhash::check_request(r, err)) return status;
    return gpuhash::measure(device, r, err);
  });
}
