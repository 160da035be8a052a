// Takes the place of libgpuhash/tile/cuda_mem.cuh, by the include path, on emulated warps (emulator.hpp).
#pragma once
#include <cuda_runtime.h>

#include "libgpuhash/tile/tile.hpp"
#include "tests/warp/emulator.hpp"

GH_BEGIN

struct cuda_mem {
  static constexpr bool only_values_change = false;
  static void pause() { emulated::machine::the().pause(); }
  template <order, class T>
  static T load(const T* p) {
    pause();
    return *p;
  }
  template <order, class T>
  static void store(T* p, T v) {
    pause();
    emulated::machine::the().before_store();
    emulated::machine::the().remember(p);
    *p = v;
  }
  template <order, class T>
  static T cas(T* p, T expected, T desired) {
    pause();
    const T seen = *p;
    emulated::machine::the().remember(p);
    if (seen == expected) *p = desired;
    return seen;
  }
  template <order, class T>
  static T fetch_add(T* p, T v) {
    pause();
    return std::exchange(*p, *p + v);
  }
  template <order, class T>
  static T fetch_or(T* p, T v) {
    pause();
    return std::exchange(*p, *p | v);
  }
  template <order, class T>
  static T fetch_and(T* p, T v) {
    pause();
    return std::exchange(*p, *p & v);
  }
  // A row is no snapshot: others may write between two of its words.
  template <bool>
  static void load_two(const u64* p, u64* to) {
    for (int i = 0; i < 2; ++i) to[i] = load<order::relaxed>(p + i);
  }
  template <bool>
  static void load_four(const u32* p, u32* to) {
    for (int i = 0; i < 4; ++i) to[i] = load<order::relaxed>(p + i);
  }
  template <class T>
  static void near_16(const T* p, T* to) {
    for (unsigned i = 0; i < 16 / sizeof(T); ++i) {
      pause();
      to[i] = emulated::machine::the().maybe_old(p + i);
    }
  }
  static void acquire_two(const u64* p, u64* to) { load_two<false>(p, to); }
  static void acquire_four(const u32* p, u32* to) { load_four<false>(p, to); }
  template <class T>
  static void store_row(T* p, const T* v) {
    for (unsigned i = 0; i < 16 / sizeof(T); ++i) store<order::relaxed>(p + i, v[i]);
  }
  template <class F>
  static void add_value(typename F::word* p, typename F::value v, bool narrow) {
    pause();
    emulated::machine::the().remember(p);
    const auto sum = F::value_of(*p) + v;
    *p = F::make(F::key_of(*p), narrow ? typename F::value(u32(sum)) : sum);
  }
  static bool allocation_fails() { return false; }
  static void fence() { pause(); }
  static void relax(u32 = 0) { pause(); }
};

struct block_mem : cuda_mem {
  static constexpr bool only_values_change = true;
};

// Several words by one instruction are no snapshot either.
struct mapped_mem : cuda_mem {
  template <class T>
  static void load_two(const T* p, T* to) {
    for (int i = 0; i < 2; ++i) to[i] = load<order::relaxed>(p + i);
  }
  static void load_four(const u32* p, u32* to) {
    for (int i = 0; i < 4; ++i) to[i] = load<order::relaxed>(p + i);
  }
  template <class T>
  static void store_two(T* p, const T* v) {
    for (int i = 0; i < 2; ++i) store<order::relaxed>(p + i, v[i]);
  }
  static void store_four(u32* p, const u32* v) {
    for (int i = 0; i < 4; ++i) store<order::relaxed>(p + i, v[i]);
  }
};

#define GH_BLOCK_MEMORY(type, name) type& name = block_memory<type>()
template <class T>
T& block_memory() {
  static const char key = 0;  // one per T
  return *static_cast<T*>(emulated::machine::the().block_memory(&key, sizeof(T)));
}

#define GH_DYNAMIC_MEMORY(type, name) type* const name = static_cast<type*>(emulated::machine::the().dynamic_memory())
inline u32 multiprocessors() { return 2; }
inline u32 block_bytes_at_most() { return emulated::machine::the().block_bytes; }
inline constexpr u64 share_kept = 8;
inline u64 bytes_of_device() {
  return share_kept * 120'000;
}  // told elements of 16 bytes are divided in smaller chunks

template <class... P>
int launch(void (*kernel)(P...), u64 blocks, u32 threads, void*, const std::type_identity_t<P>&... arguments) {
  emulated::machine& m = emulated::machine::the();
  if (call_fails()) return int(cudaErrorLaunchFailure);
  make_copies();
  if (m.held) {
    m.held->push_back(
        {unsigned(blocks), threads, [kernel, ... given = std::decay_t<P>(arguments)] { kernel(given...); }});
    return 0;
  }
  m.run(unsigned(blocks), threads, [&] { kernel(arguments...); });
  m.seed += 0x10001;  // the next launch in another order
  return 0;
}
template <class... P>
int launch_with(void (*kernel)(P...), u64 blocks, u32 threads, size_t bytes, void* stream,
                const std::type_identity_t<P>&... arguments) {
  if (bytes > block_bytes_at_most()) return int(cudaErrorInvalidValue);
  emulated::machine::the().dynamic_bytes = bytes;
  return launch(kernel, blocks, threads, stream, arguments...);
}
template <class... P>
int launch_next(void (*kernel)(P...), u64 blocks, u32 threads, size_t bytes, void* stream,
                const std::type_identity_t<P>&... arguments) {
  emulated::machine& m = emulated::machine::the();
  const bool at_once = !m.held;
  const uint64_t before = emulated::waits;
  const int e = launch_with(kernel, blocks, threads, bytes, stream, arguments...);
  const uint64_t those = blocks < m.last_blocks ? blocks : m.last_blocks;
  if (!e && at_once && emulated::waits - before != those * threads) {
    fprintf(stderr, "a kernel of a chain does not wait for the one before\n");
    abort();
  }
  return e;
}
inline void wait_for_the_one_before() { ++emulated::waits; }
inline void after_the_one_before() { wait_for_the_one_before(); }

GH_END
