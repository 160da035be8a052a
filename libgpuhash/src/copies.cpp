// Copies of host memory by the team: for staging host arrays on their way to a GPU and back.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>

#include "gpuhash/gpuhash.h"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/team.hpp"

namespace gpuhash {
namespace {

// What one claim of a thread copies: long enough to be worth one, short enough that all threads end at the same time.
constexpr size_t block = size_t{128} << 10;

size_t blocks_of(const gpuhash_copy& part) { return (part.bytes + block - 1) / block; }

uint8_t or_of(const uint8_t* bytes, size_t n) {
  uint8_t seen = 0;
  for (size_t i = 0; i < n; ++i) seen |= bytes[i];
  return seen;
}

struct work {
  const gpuhash_copy* parts;
  std::atomic<uint8_t> seen{0};

  void copy(size_t at) {
    const gpuhash_copy* part = parts;
    for (; at >= blocks_of(*part); ++part) at -= blocks_of(*part);
    const size_t begin = at * block, bytes = std::min(block, part->bytes - begin);
    const auto* const from = static_cast<const uint8_t*>(part->from) + begin;
    std::memcpy(static_cast<uint8_t*>(part->to) + begin, from, bytes);
    if (part->look != 0) seen.fetch_or(or_of(from, bytes), std::memory_order_relaxed);  // still in this thread's cache
  }
};

}  // namespace
}  // namespace gpuhash

using namespace gpuhash;

extern "C" uint8_t gpuhash_copy_parts(size_t n, const gpuhash_copy* parts, uint32_t threads) {
  work all{parts};
  size_t blocks = 0;
  for (size_t i = 0; i < n; ++i) blocks += blocks_of(parts[i]);
  parallel(
      threads != 0 ? threads : default_threads(), blocks,
      [](void* context, size_t at) { static_cast<work*>(context)->copy(at); }, &all);
  return all.seen.load(std::memory_order_relaxed);
}
