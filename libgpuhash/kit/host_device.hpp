// device_api of the CPU: memory of the host, everything done on return.
#pragma once
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "libgpuhash/kit/host_memory.hpp"
#include "libgpuhash/kit/table.hpp"
#include "libgpuhash/kit/team.hpp"

namespace gpuhash {
namespace host_detail {

inline int probe(int ordinal, char* why, size_t size) {
  return ordinal == 0 ? 0 : (snprintf(why, size, "cpu:%d does not exist: the CPU is one device, cpu:0", ordinal), 1);
}
// The default memory resource wants the size back, so it is kept in front of the block.
inline int allocate(void** p, size_t bytes, void*) {
  constexpr size_t front = 128;
  if (bytes > ~size_t(0) - front) return 1;
  char* base = static_cast<char*>(take_host_memory(bytes + front));
  if (!base) return 1;
  memcpy(base, &bytes, sizeof(bytes));
  *p = base + front;
  return 0;
}
inline int release(void* p, void*) {
  char* base = static_cast<char*>(p) - 128;
  size_t bytes;
  memcpy(&bytes, base, sizeof(bytes));
  give_host_memory(base, bytes + 128);
  return 0;
}
#if defined(__x86_64__)
// Two instructions that not every compiler's __builtin_cpu_supports knows by name; asked as the manuals of Intel (CPUID,
// leaf 1) and AMD (leaf 0x80000001) say. No system has to save registers for them.
inline bool cpuid_ecx(unsigned leaf, unsigned bit) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(leaf, &a, &b, &c, &d) && c >> bit & 1;
}
inline bool has_cmpxchg16b() { return cpuid_ecx(1, 13); }
inline bool has_lzcnt() { return cpuid_ecx(0x80000001u, 5); }
#endif
// The first processors of x86-64 have none; everything since 2006 does.
inline bool has_wide_cas() {
#if defined(__x86_64__)
  return has_cmpxchg16b();
#else
  return true;
#endif
}
// By the team, since one thread alone cannot fill memory at full speed.
inline int fill(void* p, int byte, size_t bytes, void*) {
  constexpr cut pieces = {size_t(8) << 20, size_t(2) << 20, size_t(2) << 20};
  in_pieces(threads_of_call, bytes, pieces,
            [&](size_t begin, size_t end) { memset(static_cast<char*>(p) + begin, byte, end - begin); });
  return 0;
}

}  // namespace host_detail

inline constexpr device_api host_device = {
    .probe = host_detail::probe,
    .enter = [](int, int*) { return 0; },
    .leave = [](int) {},
    .allocate = host_detail::allocate,
    .release = host_detail::release,
    .fill = host_detail::fill,
    .copy = [](void* to, const void* from, size_t bytes, void*) { return memcpy(to, from, bytes), 0; },
    .wait = [](void*) { return 0; },
    .make_event = [](void** e) { return *e = nullptr, 0; },
    .drop_event = [](void*) {},
    .record = [](void*, void*) { return 0; },
    .finished = [](void*) { return true; },
    .follow = [](void*, void*) { return 0; },
    .error_text = [](int) { return "out of memory"; },
    .has_wide_cas = [](int) { return host_detail::has_wide_cas(); },
    .out_of_memory = 1,
    .stream_id = [](void*, uint64_t* id) { return *id = 0, 0; },
    .borrow_stream = [](int, void** s) { return *s = nullptr, 0; },
    .return_stream = [](int, void*) {},
    .captured_by = [](void*, void** graph, const char** forbids) { return *graph = nullptr, *forbids = nullptr, 0; },
    .keep_while = [](void*, void (*)(void*), void*) { return 1; },
    .follow_in_graph = [](void*, void*) { return 1; },
    .allocate_pinned = [](void**, size_t) { return 1; },  // of a CUDA device
    .release_pinned = [](void*) { return 1; },
};

}  // namespace gpuhash
