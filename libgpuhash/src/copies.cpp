// Copies of host memory by the team: for staging host arrays on their way to a GPU and back.
//
// Parts are cut into blocks, which the threads claim. Memory that no page lies behind yet is brought in by blocks of a huge
// page: threads that write to one huge page for the first time at once clear a page each, of which one is kept.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "gpuhash/gpuhash.h"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/fork.hpp"
#include "libgpuhash/src/team.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {
namespace {

// The bytes that a thread copies by one claim: enough to be worth one, and few enough that all threads end at the same
// time.
constexpr size_t block = tunable("copied", size_t{128} << 10);

constexpr size_t huge_page = size_t{2} << 20, page = size_t{4} << 10;

bool touches(const gpuhash_copy& part) { return (part.flags & GPUHASH_COPY_TOUCH) != 0; }

// Where the block of memory that holds `place` ends, where blocks of a huge page begin at multiples of their size.
uintptr_t end_of_huge(uintptr_t place) { return (place / huge_page + 1) * huge_page; }

size_t blocks_of(const gpuhash_copy& part) {
  if (part.bytes == 0) return 0;
  if (!touches(part)) return (part.bytes + block - 1) / block;
  const auto to = reinterpret_cast<uintptr_t>(part.to);
  return (to + part.bytes - 1) / huge_page - to / huge_page + 1;
}

// Writes what is there already to a byte of each page of block `at`.
void touch(const gpuhash_copy& part, size_t at) {
  const auto first = reinterpret_cast<uintptr_t>(part.to);
  const uintptr_t begin = at == 0 ? first : (first / huge_page + at) * huge_page;
  const uintptr_t end = std::min(first + part.bytes, end_of_huge(begin));
  for (uintptr_t place = begin; place < end; place = (place / page + 1) * page)
    __atomic_fetch_or(reinterpret_cast<uint8_t*>(place), uint8_t{0}, __ATOMIC_RELAXED);
}

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

// Block `at` of a part: the bits of its bytes, where they are looked at.
uint8_t copy(const gpuhash_copy& part, size_t at) {
  if (touches(part)) return touch(part, at), uint8_t{0};
  const size_t begin = at * block, bytes = std::min(block, part.bytes - begin);
  const auto* const from = static_cast<const uint8_t*>(part.from) + begin;
  uint8_t* const to = static_cast<uint8_t*>(part.to) + begin;
  if ((part.flags & GPUHASH_COPY_STREAM) != 0)
    stream(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
  return (part.flags & GPUHASH_COPY_LOOK) != 0 ? or_of(from, bytes) : uint8_t{0};  // still in this thread's cache
}

}  // namespace
}  // namespace gpuhash

using namespace gpuhash;

struct gpuhash_copies {
  const std::vector<gpuhash_copy> parts;
  const uint64_t made_in = fork_generation;
  std::atomic<uint8_t> seen{0};
  job* run = nullptr;

  gpuhash_copies(size_t n, const gpuhash_copy* rows) : parts(rows, rows + n) {}

  size_t blocks() const {
    size_t all = 0;
    for (const gpuhash_copy& part : parts) all += blocks_of(part);
    return all;
  }
  // Are these the parent's, in a forked child? The threads that may be amid them, and all that says so, are not there.
  bool of_parent() const { return made_in != fork_generation; }
  static void copy_block(void* context, size_t at) {
    auto* const copies = static_cast<gpuhash_copies*>(context);
    const gpuhash_copy* part = copies->parts.data();
    for (; at >= blocks_of(*part); ++part) at -= blocks_of(*part);
    if (const uint8_t bits = copy(*part, at); bits != 0) copies->seen.fetch_or(bits, std::memory_order_relaxed);
  }
};

extern "C" gpuhash_copies* gpuhash_copies_begin(size_t n, const gpuhash_copy* parts, uint32_t threads,
                                                uint32_t more) try {
  auto* const copies = new gpuhash_copies(n, parts);
  copies->run = start(threads != 0 ? threads : default_threads(), copies->blocks(), gpuhash_copies::copy_block, copies,
                      more != 0);
  if (copies->run != nullptr) return copies;
  delete copies;
  return nullptr;
} catch (const std::bad_alloc&) {
  return nullptr;
}

extern "C" uint32_t gpuhash_copies_help(gpuhash_copies* copies, uint32_t pieces) {
  return copies->of_parent() || help(*copies->run, pieces) ? 1 : 0;
}

extern "C" uint8_t gpuhash_copies_end(gpuhash_copies* copies) {
  if (copies->of_parent()) return 0;
  finish(copies->run);
  const uint8_t seen = copies->seen.load(std::memory_order_relaxed);
  delete copies;
  return seen;
}

extern "C" uint8_t gpuhash_copy_parts_beside(size_t n, const gpuhash_copy* parts, uint32_t threads, uint32_t more,
                                             void (*meanwhile)(void* context), void* context) {
  gpuhash_copies* const copies = gpuhash_copies_begin(n, parts, threads, more);
  if (meanwhile != nullptr) meanwhile(context);
  if (copies != nullptr) return gpuhash_copies_end(copies);
  uint8_t seen = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t at = 0; at < blocks_of(parts[i]); ++at) seen |= copy(parts[i], at);
  return seen;
}

extern "C" uint8_t gpuhash_copy_parts(size_t n, const gpuhash_copy* parts, uint32_t threads) {
  return gpuhash_copy_parts_beside(n, parts, threads, 0, nullptr, nullptr);
}
