// Memory of the host: see memory.hpp.
#include "libgpuhash/src/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "libgpuhash/src/cgroups.hpp"
#include "libgpuhash/src/error.hpp"
#include "libgpuhash/src/team.hpp"
#include "libgpuhash/tile/sizes.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace gpuhash {
namespace {

constexpr size_t cache_line = 64, huge_page = size_t{2} << 20, small_page = 4096;
constexpr uint64_t checked_from = tunable("memory_checked", uint64_t{64} << 20);  // M1
constexpr size_t step = tunable("memory_step", size_t{256} << 20);                // M2
constexpr uint64_t small_share = 16;                                              // of what there is
constexpr size_t piece = step / 16;                                               // for a thread

// ---- what there is --------------------------------------------------------------------------------------------------

// The number behind `name` in a text of lines "name number" or "name: number"; `none` if there is no such line.
uint64_t figure(const std::string& text, const std::string& name, uint64_t none) {
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    unsigned long long n = 0;
    const char* const rest = text.c_str() + std::min(at + name.size(), end);
    if (text.compare(at, name.size(), name) == 0 && (*rest == ' ' || *rest == ':') &&
        std::sscanf(rest + 1, "%llu", &n) == 1)
      return n;
  }
  return none;
}

constexpr uint64_t unlimited = ~uint64_t{0};

// The one number of a file; `none` if there is no such file, or "max" in it.
uint64_t number_in(const std::string& path, uint64_t none) {
  unsigned long long n = 0;
  return std::sscanf(read_file(path).c_str(), "%llu", &n) == 1 ? n : none;
}

uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
uint64_t sum(uint64_t a, uint64_t b) { return a > unlimited - b ? unlimited : a + b; }

struct group_room {
  uint64_t limit = unlimited;  // of memory
  uint64_t bytes = unlimited;  // left of it, with caches, and with so much swap space as the group may use
};

// Files of version 2, or of version 1, where a second limit is one of memory and swap space together.
group_room room_of_group(const std::string& directory, uint64_t swap) {
  group_room room;
  const bool second = !read_file(directory + "/memory.max").empty();
  room.limit = number_in(directory + (second ? "/memory.max" : "/memory.limit_in_bytes"), unlimited);
  if (room.limit == unlimited) return room;
  const std::string stat = read_file(directory + "/memory.stat");
  const std::string prefix = second ? "" : "total_";
  const uint64_t cached = figure(stat, prefix + "active_file", 0) + figure(stat, prefix + "inactive_file", 0) +
                          figure(stat, "slab_reclaimable", 0);
  const uint64_t used = number_in(directory + (second ? "/memory.current" : "/memory.usage_in_bytes"), 0);
  room.bytes = less(room.limit, less(used, cached));
  if (second) {
    const uint64_t most = number_in(directory + "/memory.swap.max", unlimited);
    const uint64_t swapped = number_in(directory + "/memory.swap.current", 0);
    room.bytes = sum(room.bytes, std::min(swap, less(most, swapped)));
    return room;
  }
  const uint64_t both = number_in(directory + "/memory.memsw.limit_in_bytes", unlimited);
  const uint64_t used_both = number_in(directory + "/memory.memsw.usage_in_bytes", 0);
  room.bytes = std::min(sum(room.bytes, swap), less(both, less(used_both, cached)));
  return room;
}

}  // namespace

memory_room available_memory(bool pinned, const std::string& root) {
  memory_room room;
  const std::string system = read_file(root + "/proc/meminfo");
  const uint64_t kilobytes = figure(system, "MemAvailable", unlimited);
  const uint64_t swap = pinned ? 0 : figure(system, "SwapFree", 0) << 10;
  if (kilobytes != unlimited) {
    room.bytes = (kilobytes << 10) + swap;
    std::snprintf(room.limit, sizeof room.limit, "the system has %llu available%s", (unsigned long long)room.bytes,
                  swap != 0 ? ", swap space included" : "");
  }
  each_cgroup(read_file(root + "/proc/self/cgroup"), root + "/sys/fs/cgroup", "memory", [&](const std::string& group) {
    const group_room here = room_of_group(group, swap);
    if (here.bytes >= room.bytes) return;
    room.bytes = here.bytes;
    std::snprintf(room.limit, sizeof room.limit, "the control group %.160s, whose limit is %llu, has %llu left",
                  group.c_str() + root.size(), (unsigned long long)here.limit, (unsigned long long)here.bytes);
  });
  return room;
}

namespace {

const std::string test_root = [] {
  const char* root = secure_getenv("GPUHASH_TEST_MEMORY");
  return std::string(root != nullptr ? root : "");
}();

// ---- what has been granted ------------------------------------------------------------------------------------------

constinit std::atomic<uint64_t> granted{0};    // and has not come into being (M3)
constinit std::atomic<uint64_t> unchecked{0};  // M1

gpuhash_status refuse(uint64_t bytes, bool pinned, uint64_t others, const memory_room& room, gpuhash_error* err) {
  char taken[80] = "";
  if (others != 0)
    std::snprintf(taken, sizeof taken, ", of which other threads are about to use %llu", (unsigned long long)others);
  return fail(err, GPUHASH_NO_MEMORY,
              "%llu bytes of %smemory cannot be had: %s%s; free some memory, or ask for a smaller capacity",
              (unsigned long long)bytes, pinned ? "pinned host " : "", room.limit, taken);
}

memory_room room_now(bool pinned) {
  try {
    return available_memory(pinned);
  } catch (const std::bad_alloc&) {  // no memory for a path; nothing is known
    return {};
  }
}

// Are so many bytes to be checked? Else they are counted. After a refusal all are, until one passes.
bool is_due(uint64_t bytes) {
  return bytes >= checked_from || unchecked.fetch_add(bytes, std::memory_order_relaxed) + bytes >= checked_from;
}
void has_passed() { unchecked.store(0, std::memory_order_relaxed); }

// With page tables.
uint64_t needed_for(uint64_t bytes) { return sum(bytes, bytes / 256); }

// Adds them to what is granted, unless they are so small a part of what there is that nothing has to be done (M2).
gpuhash_status grant(uint64_t bytes, bool* small, gpuhash_error* err) {
  const memory_room room = room_now(false);
  uint64_t others = granted.load(std::memory_order_relaxed);
  do {
    if (needed_for(bytes) > less(room.bytes, others)) return refuse(bytes, false, others, room, err);
    *small = bytes <= less(room.bytes, others) / small_share;
    if (*small) return GPUHASH_OK;
  } while (!granted.compare_exchange_weak(others, others + bytes, std::memory_order_relaxed));
  return GPUHASH_OK;
}

// ---- how memory comes into being ------------------------------------------------------------------------------------

struct populating {
  char* begin;
  size_t bytes;
  std::atomic<bool> refused{false};
};

// Writes to a page, which makes it come into being; the system populates many pages at once, if it knows how.
void populate(void* context, size_t i) {
  auto& work = *static_cast<populating*>(context);
  char* const begin = work.begin + i * piece;
  const size_t bytes = std::min(piece, work.bytes - i * piece);
  if (madvise(begin, bytes, MADV_POPULATE_WRITE) == 0) return;
  if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) {
    work.refused.store(true, std::memory_order_relaxed);
    return;
  }
  for (size_t at = 0; at < bytes; at += small_page) const_cast<volatile char&>(begin[at]) = 0;
}

// Whole pages of p .. p + bytes, which have been granted. Memory that is refused is not granted any more.
gpuhash_status populate_in_steps(char* p, uint64_t bytes, uint32_t threads, gpuhash_error* err) {
  for (uint64_t left = bytes; left != 0;) {
    if (left != bytes) {
      const memory_room room = room_now(false);
      const uint64_t others = less(granted.load(std::memory_order_relaxed), left);
      if (left > less(room.bytes, others)) {
        granted.fetch_sub(left, std::memory_order_relaxed);
        return refuse(left, false, others, room, err);
      }
    }
    populating work{p + (bytes - left), size_t(std::min<uint64_t>(step, left))};
    parallel(threads, (work.bytes + piece - 1) / piece, populate, &work);
    if (work.refused.load(std::memory_order_relaxed)) {
      granted.fetch_sub(left, std::memory_order_relaxed);
      return fail(err, GPUHASH_NO_MEMORY,
                  "%llu bytes of memory cannot be had: the system has refused them; free some memory, or ask for "
                  "a smaller capacity",
                  (unsigned long long)bytes);
    }
    granted.fetch_sub(work.bytes, std::memory_order_relaxed);
    left -= work.bytes;
  }
  return GPUHASH_OK;
}

// ---- the default resource -------------------------------------------------------------------------------------------

void* allocate(void*, size_t bytes, size_t alignment, void*) {
  if (alignment != 0 && !std::has_single_bit(alignment)) return nullptr;
  const bool huge = bytes >= huge_page;
  alignment = std::max({alignment, huge ? huge_page : cache_line, sizeof(void*)});
  if (bytes > PTRDIFF_MAX - alignment) return nullptr;
  if (check_memory(bytes, 0, nullptr) != GPUHASH_OK) return nullptr;
  // Whole huge pages: the tail would otherwise share its page with whatever is allocated next.
  const size_t unit = huge ? huge_page : cache_line;
  const size_t rounded = (std::max(bytes, size_t{1}) + unit - 1) / unit * unit;
  void* p = nullptr;
  if (posix_memalign(&p, alignment, rounded) != 0) return nullptr;
  if (huge) madvise(p, rounded, MADV_HUGEPAGE);  // advice: a kernel without huge pages refuses it, and that is fine
  return p;
}

void deallocate(void*, void* p, size_t, size_t, void*) { std::free(p); }

}  // namespace

const gpuhash_memory host_memory = {sizeof(gpuhash_memory), nullptr, allocate, deallocate};

memory_room available_memory(bool pinned) { return available_memory(pinned, test_root); }

gpuhash_status check_memory(uint64_t bytes, uint32_t pinned, gpuhash_error* err) {
  if (!is_due(bytes)) return GPUHASH_OK;
  const memory_room room = room_now(pinned != 0);
  const uint64_t others = granted.load(std::memory_order_relaxed);
  if (needed_for(bytes) > less(room.bytes, others)) return refuse(bytes, pinned != 0, others, room, err);
  has_passed();
  return GPUHASH_OK;
}

gpuhash_status commit_memory(void* p, size_t bytes, uint32_t threads, gpuhash_error* err) {
  if (bytes < checked_from) return check_memory(bytes, 0, err);
  bool small = false;
  const auto status = grant(bytes, &small, err);
  if (status != GPUHASH_OK || small) return status;
  // The last page may be shared with other memory; it is there, or is little.
  const auto at = reinterpret_cast<uintptr_t>(p);
  const uintptr_t begin = (at + small_page - 1) / small_page * small_page, end = (at + bytes) / small_page * small_page;
  granted.fetch_sub(bytes - (end - begin), std::memory_order_relaxed);
  return populate_in_steps(reinterpret_cast<char*>(begin), end - begin, threads, err);
}

void forget_grants() { granted.store(0, std::memory_order_relaxed); }

}  // namespace gpuhash
