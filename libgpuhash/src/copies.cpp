// Copies of host memory by the team: for staging host arrays on their way to a GPU and back.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "gpuhash/gpuhash.h"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/team.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {
namespace {

// The bytes that a thread copies by one claim: enough to be worth one, and few enough that all threads end at the same
// time.
constexpr size_t block = tunable("copied", size_t{128} << 10);

size_t blocks_of(const gpuhash_copy& part) { return (part.bytes + block - 1) / block; }

uint8_t or_of(const uint8_t* bytes, size_t n) {
  uint8_t seen = 0;
  for (size_t i = 0; i < n; ++i) seen |= bytes[i];
  return seen;
}

// memcpy that writes past the caches: half of the bytes on their way, since memory need not be read before.
void stream(uint8_t* to, const uint8_t* from, size_t n) {
#if defined(__x86_64__)
  const size_t head = std::min<size_t>(-reinterpret_cast<uintptr_t>(to) & 15, n), body = (n - head) / 64 * 64;
  std::memcpy(to, from, head);
  for (size_t i = head; i < head + body; i += 16)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  std::memcpy(to + head + body, from + head + body, n - head - body);
  _mm_sfence();
#else
  std::memcpy(to, from, n);
#endif
}

struct work {
  const gpuhash_copy* parts;
  std::atomic<uint8_t> seen{0};

  void copy(size_t at) {
    const gpuhash_copy* part = parts;
    for (; at >= blocks_of(*part); ++part) at -= blocks_of(*part);
    const size_t begin = at * block, bytes = std::min(block, part->bytes - begin);
    const auto* const from = static_cast<const uint8_t*>(part->from) + begin;
    uint8_t* const to = static_cast<uint8_t*>(part->to) + begin;
    if ((part->flags & GPUHASH_COPY_STREAM) != 0)
      stream(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
    if ((part->flags & GPUHASH_COPY_LOOK) != 0)
      seen.fetch_or(or_of(from, bytes), std::memory_order_relaxed);  // still in this thread's cache
  }
};

}  // namespace
}  // namespace gpuhash

using namespace gpuhash;

extern "C" uint8_t gpuhash_copy_parts(size_t n, const gpuhash_copy* parts, uint32_t threads) {
  return gpuhash_copy_parts_beside(n, parts, threads, 0, nullptr, nullptr);
}

extern "C" uint8_t gpuhash_copy_parts_beside(size_t n, const gpuhash_copy* parts, uint32_t threads, uint32_t more,
                                             void (*meanwhile)(void* context), void* context) {
  work all{parts};
  size_t blocks = 0;
  for (size_t i = 0; i < n; ++i) blocks += blocks_of(parts[i]);
  parallel(threads != 0 ? threads : default_threads(), blocks,
           [](void* copies, size_t at) { static_cast<work*>(copies)->copy(at); }, &all,
           {meanwhile, context, more != 0});
  return all.seen.load(std::memory_order_relaxed);
}
