// Code that only a GPU can run: accesses of table memory in PTX, memory of a block, and launches. It is a file of its
// own, so that tests can run the tile and the drivers on emulated warps (tests/warp has its own version of this file).
#pragma once
#include <atomic>

#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

// Loads and stores of table memory are relaxed at least, device scope, and of the slot's own size. `weak` loads, which may
// come from L1, exist only for kernels that run while the gate knows of no writer.
struct cuda_mem {
  static constexpr bool only_values_change = false;  // of slots that have a key; but joiner::keys_stay may say so
  template <order O>
  GH_FN static u32 load(const u32* p) {
    u32 v;
    if constexpr (O == order::acquire)
      asm volatile("ld.acquire.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
  }
  template <order O>
  GH_FN static u64 load(const u64* p) {
    u64 v;
    if constexpr (O == order::acquire)
      asm volatile("ld.acquire.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
  }
  template <order O>
  GH_FN static u128 load(const u128* p) {
    u128 v;
#if __CUDA_ARCH__ >= 900
    if constexpr (O == order::acquire)
      asm volatile("{.reg .b128 x; ld.acquire.gpu.global.b128 x,[%2]; mov.b128 {%0,%1},x;}"
                   : "=l"(v.lo), "=l"(v.hi)
                   : "l"(p)
                   : "memory");
    else
      asm volatile("{.reg .b128 x; ld.relaxed.gpu.global.b128 x,[%2]; mov.b128 {%0,%1},x;}"
                   : "=l"(v.lo), "=l"(v.hi)
                   : "l"(p)
                   : "memory");
#endif
    return v;
  }
  template <order O>
  GH_FN static void store(u32* p, u32 v) {
    if constexpr (O == order::release)
      asm volatile("st.release.gpu.global.u32 [%0],%1;" ::"l"(p), "r"(v) : "memory");
    else
      asm volatile("st.relaxed.gpu.global.u32 [%0],%1;" ::"l"(p), "r"(v) : "memory");
  }
  template <order O>
  GH_FN static void store(u64* p, u64 v) {
    if constexpr (O == order::release)
      asm volatile("st.release.gpu.global.u64 [%0],%1;" ::"l"(p), "l"(v) : "memory");
    else
      asm volatile("st.relaxed.gpu.global.u64 [%0],%1;" ::"l"(p), "l"(v) : "memory");
  }
  template <order O>
  GH_FN static u32 cas(u32* p, u32 e, u32 d) {
    u32 r;
    if constexpr (O == order::relaxed)
      asm volatile("atom.relaxed.gpu.global.cas.b32 %0,[%1],%2,%3;" : "=r"(r) : "l"(p), "r"(e), "r"(d) : "memory");
    else
      asm volatile("atom.acq_rel.gpu.global.cas.b32 %0,[%1],%2,%3;" : "=r"(r) : "l"(p), "r"(e), "r"(d) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u64 cas(u64* p, u64 e, u64 d) {
    u64 r;
    if constexpr (O == order::relaxed)
      asm volatile("atom.relaxed.gpu.global.cas.b64 %0,[%1],%2,%3;" : "=l"(r) : "l"(p), "l"(e), "l"(d) : "memory");
    else
      asm volatile("atom.acq_rel.gpu.global.cas.b64 %0,[%1],%2,%3;" : "=l"(r) : "l"(p), "l"(e), "l"(d) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u128 cas(u128* p, u128 e, u128 d) {
    u128 r = e;
#if __CUDA_ARCH__ >= 900
    if constexpr (O == order::relaxed)
      asm volatile(
          "{.reg .b128 e,d,r; mov.b128 e,{%3,%4}; mov.b128 d,{%5,%6}; atom.relaxed.gpu.global.cas.b128 r,[%2],e,d; "
          "mov.b128 {%0,%1},r;}"
          : "=l"(r.lo), "=l"(r.hi)
          : "l"(p), "l"(e.lo), "l"(e.hi), "l"(d.lo), "l"(d.hi)
          : "memory");
    else
      asm volatile(
          "{.reg .b128 e,d,r; mov.b128 e,{%3,%4}; mov.b128 d,{%5,%6}; atom.acq_rel.gpu.global.cas.b128 r,[%2],e,d; "
          "mov.b128 {%0,%1},r;}"
          : "=l"(r.lo), "=l"(r.hi)
          : "l"(p), "l"(e.lo), "l"(e.hi), "l"(d.lo), "l"(d.hi)
          : "memory");
#endif
    return r;
  }
  template <order O>
  GH_FN static u32 fetch_add(u32* p, u32 v) {
    static_assert(O == order::relaxed);
    u32 r;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0,[%1],%2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u64 fetch_add(u64* p, u64 v) {
    static_assert(O == order::relaxed);
    u64 r;
    asm volatile("atom.relaxed.gpu.global.add.u64 %0,[%1],%2;" : "=l"(r) : "l"(p), "l"(v) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u32 fetch_or(u32* p, u32 v) {
    u32 r;
    if constexpr (O == order::relaxed)
      asm volatile("atom.relaxed.gpu.global.or.b32 %0,[%1],%2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    else
      asm volatile("atom.acq_rel.gpu.global.or.b32 %0,[%1],%2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u64 fetch_or(u64* p, u64 v) {
    u64 r;
    if constexpr (O == order::relaxed)
      asm volatile("atom.relaxed.gpu.global.or.b64 %0,[%1],%2;" : "=l"(r) : "l"(p), "l"(v) : "memory");
    else
      asm volatile("atom.acq_rel.gpu.global.or.b64 %0,[%1],%2;" : "=l"(r) : "l"(p), "l"(v) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u32 fetch_and(u32* p, u32 v) {
    u32 r;
    if constexpr (O == order::relaxed)
      asm volatile("atom.relaxed.gpu.global.and.b32 %0,[%1],%2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    else if constexpr (O == order::acquire)
      asm volatile("atom.acquire.gpu.global.and.b32 %0,[%1],%2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    else
      asm volatile("atom.acq_rel.gpu.global.and.b32 %0,[%1],%2;" : "=r"(r) : "l"(p), "r"(v) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u64 fetch_and(u64* p, u64 v) {
    u64 r;
    if constexpr (O == order::relaxed)
      asm volatile("atom.relaxed.gpu.global.and.b64 %0,[%1],%2;" : "=l"(r) : "l"(p), "l"(v) : "memory");
    else
      asm volatile("atom.acq_rel.gpu.global.and.b64 %0,[%1],%2;" : "=l"(r) : "l"(p), "l"(v) : "memory");
    return r;
  }
  template <order O>
  GH_FN static void store(u128* p, u128 v) {
    static_assert(O == order::relaxed);
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .b128 x; mov.b128 x,{%1,%2}; st.relaxed.gpu.global.b128 [%0],x;}" ::"l"(p), "l"(v.lo), "l"(v.hi)
                 : "memory");
#endif
  }
  // 16 bytes by one instruction, which L1 may serve: what was there at some time since the kernel began or the thread's last
  // fence, each slot on its own. Unlike weak loads they may be used beside writers, by those who can do with old words.
  GH_FN static void near_16(const u64* p, u64* to) {
    asm volatile("ld.relaxed.cta.global.v2.u64 {%0,%1},[%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(p) : "memory");
  }
  GH_FN static void near_16(const u128* p, u128* to) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .b128 x; ld.relaxed.cta.global.b128 x,[%2]; mov.b128 {%0,%1},x;}"
                 : "=l"(to->lo), "=l"(to->hi)
                 : "l"(p)
                 : "memory");
#endif
  }
  // 16 bytes by one instruction; each slot is read at once. Weak: through L1, for reader-only kernels.
  template <bool Weak>
  GH_FN static void load_two(const u64* p, u64* to) {
    if constexpr (Weak)
      asm volatile("ld.global.v2.u64 {%0,%1},[%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(p) : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.v2.u64 {%0,%1},[%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(p) : "memory");
  }
  template <bool Weak>
  GH_FN static void load_four(const u32* p, u32* to) {
    if constexpr (Weak)
      asm volatile("ld.global.v4.u32 {%0,%1,%2,%3},[%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "l"(p)
                   : "memory");
    else
      asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3},[%4];"
                   : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                   : "l"(p)
                   : "memory");
  }
  // The same, and what follows them is ordered after what the writers of these words did before.
  GH_FN static void acquire_two(const u64* p, u64* to) {
    asm volatile("ld.acquire.gpu.global.v2.u64 {%0,%1},[%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(p) : "memory");
  }
  GH_FN static void acquire_four(const u32* p, u32* to) {
    asm volatile("ld.acquire.gpu.global.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(p)
                 : "memory");
  }
  // 16 bytes of slots from the block's memory, each slot written at once.
  GH_FN static void store_row(u32* p, const u32* v) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(p), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
  }
  GH_FN static void store_row(u64* p, const u64* v) {
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0],{%1,%2};" ::"l"(p), "l"(v[0]), "l"(v[1]) : "memory");
  }
  GH_FN static void store_row(u128* p, const u128* v) { store<order::relaxed>(p, *v); }
  // Add to the upper half of a slot. A sum that leaves its half is cut off, and no other bit changes.
  GH_FN static void add_to(u64* p, u32 v, bool) {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0],%1;" ::"l"(p), "l"(u64(v) << 32) : "memory");
  }
  GH_FN static void add_to(u128* p, u64 v, bool narrow) {
    u64* const half = &p->hi;
    if (narrow)
      asm volatile("red.relaxed.gpu.global.add.u32 [%0],%1;" ::"l"(half), "r"(u32(v)) : "memory");
    else
      asm volatile("red.relaxed.gpu.global.add.u64 [%0],%1;" ::"l"(half), "l"(v) : "memory");
  }
  template <class F>
  GH_FN static void add_value(typename F::word* p, typename F::value v, bool narrow) {
    if constexpr (F::has_value) add_to(p, v, narrow);
  }
  GH_FN static bool allocation_fails() { return false; }
  GH_FN static void fence() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
  // Thousands of tiles that look at a line again and again would keep the one that they wait for from reaching it. A tile
  // waits a microsecond at most: with eight, skewed sums of a skiplist take half as long again.
  GH_FN static void relax(u32 turns = 0) { __nanosleep(32u << (turns < 5 ? turns : 5u)); }
};

// A part of a table in the memory of a block, which only the block's threads know of. Rows of 128 bytes begin in the same
// bank, and paths begin where rows do: so the 16 bytes of a row are permuted, by the number of the row. The part begins at a
// multiple of 1,024 bytes.
struct block_mem {
  static constexpr bool only_values_change = true;  // while a batch accumulates
  template <class T>
  GH_FN static u32 place(const T* p) {
    const u32 at = u32(__cvta_generic_to_shared(p));
    return at ^ (at >> 3 & 0x70);
  }
  GH_FN static void store_at(u32 at, u32 v) {
    asm volatile("st.relaxed.cta.shared.u32 [%0],%1;" ::"r"(at), "r"(v) : "memory");
  }
  GH_FN static void store_at(u32 at, u64 v) {
    asm volatile("st.relaxed.cta.shared.u64 [%0],%1;" ::"r"(at), "l"(v) : "memory");
  }
  // 16 bytes of slots.
  GH_FN static void store_row(u32* p, const u32* v) {
    asm volatile("st.relaxed.cta.shared.v4.u32 [%0],{%1,%2,%3,%4};" ::"r"(place(p)), "r"(v[0]), "r"(v[1]), "r"(v[2]),
                 "r"(v[3])
                 : "memory");
  }
  GH_FN static void store_row(u64* p, const u64* v) {
    asm volatile("st.relaxed.cta.shared.v2.u64 [%0],{%1,%2};" ::"r"(place(p)), "l"(v[0]), "l"(v[1]) : "memory");
  }
  GH_FN static void store_row(u128* p, const u128* v) { store_at(place(p), *v); }
  GH_FN static void store_at(u32 at, u128 v) {
    asm volatile("st.relaxed.cta.shared.v2.u64 [%0],{%1,%2};" ::"r"(at), "l"(v.lo), "l"(v.hi) : "memory");
  }
  template <class F>
  GH_FN static void add_value(typename F::word* p, typename F::value v, bool narrow) {
    const u32 at = place(p) + u32(sizeof(v));  // the value is the upper half
    if (sizeof(v) == 4 || narrow)
      asm volatile("red.relaxed.cta.shared.add.u32 [%0],%1;" ::"r"(at), "r"(u32(v)) : "memory");
    else
      add_halves(at, v);
  }
  // Shared memory adds 8 bytes by comparing and swapping; 4 bytes at once. No thread reads the sum meanwhile.
  GH_FN static void add_halves(u32 at, u64 v) {
    u32 before;
    asm volatile("atom.relaxed.cta.shared.add.u32 %0,[%1],%2;" : "=r"(before) : "r"(at), "r"(u32(v)) : "memory");
    const u32 high = u32(v >> 32) + (before + u32(v) < before);
    if (high) asm volatile("red.relaxed.cta.shared.add.u32 [%0],%1;" ::"r"(at + 4), "r"(high) : "memory");
  }
  template <order O, class T>
  GH_FN static void store(T* p, T v) {  // before any thread reads it
    static_assert(O == order::relaxed);
    store_at(place(p), v);
  }
  template <order O>
  GH_FN static u32 load(const u32* p) {
    static_assert(O == order::relaxed);
    u32 v;
    asm volatile("ld.relaxed.cta.shared.u32 %0,[%1];" : "=r"(v) : "r"(place(p)) : "memory");
    return v;
  }
  template <order O>
  GH_FN static u64 load(const u64* p) {
    static_assert(O == order::relaxed);
    u64 v;
    asm volatile("ld.relaxed.cta.shared.u64 %0,[%1];" : "=l"(v) : "r"(place(p)) : "memory");
    return v;
  }
  template <order O>
  GH_FN static u128 load(const u128* p) {
    static_assert(O == order::relaxed);
    u128 v{};
#if __CUDA_ARCH__ >= 900
    asm volatile("{.reg .b128 x; ld.relaxed.cta.shared.b128 x,[%2]; mov.b128 {%0,%1},x;}"
                 : "=l"(v.lo), "=l"(v.hi)
                 : "r"(place(p))
                 : "memory");
#endif
    return v;
  }
  template <bool>
  GH_FN static void load_two(const u64* p, u64* to) {
    asm volatile("ld.relaxed.cta.shared.v2.u64 {%0,%1},[%2];" : "=l"(to[0]), "=l"(to[1]) : "r"(place(p)) : "memory");
  }
  template <bool>
  GH_FN static void load_four(const u32* p, u32* to) {
    asm volatile("ld.relaxed.cta.shared.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(place(p))
                 : "memory");
  }
  template <order O>
  GH_FN static u32 cas(u32* p, u32 e, u32 d) {
    static_assert(O == order::relaxed);
    u32 r;
    asm volatile("atom.relaxed.cta.shared.cas.b32 %0,[%1],%2,%3;" : "=r"(r) : "r"(place(p)), "r"(e), "r"(d) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u64 cas(u64* p, u64 e, u64 d) {
    static_assert(O == order::relaxed);
    u64 r;
    asm volatile("atom.relaxed.cta.shared.cas.b64 %0,[%1],%2,%3;" : "=l"(r) : "r"(place(p)), "l"(e), "l"(d) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u128 cas(u128* p, u128 e, u128 d) {
    static_assert(O == order::relaxed);
    u128 r = e;
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{.reg .b128 e,d,r; mov.b128 e,{%3,%4}; mov.b128 d,{%5,%6}; atom.relaxed.cta.shared.cas.b128 r,[%2],e,d; "
        "mov.b128 {%0,%1},r;}"
        : "=l"(r.lo), "=l"(r.hi)
        : "r"(place(p)), "l"(e.lo), "l"(e.hi), "l"(d.lo), "l"(d.hi)
        : "memory");
#endif
    return r;
  }
};

// Pinned host memory that the device reaches over a bus, and what orders accesses of it: of system scope. Atomic operations
// are for words in the device's own memory.
struct mapped_mem : cuda_mem {
  template <order O>
  GH_FN static u32 load(const u32* p) {
    static_assert(O == order::relaxed);
    u32 v;
    asm volatile("ld.relaxed.sys.global.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
  }
  template <order O>
  GH_FN static u64 load(const u64* p) {
    u64 v;
    if constexpr (O == order::acquire)
      asm volatile("ld.acquire.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
    else
      asm volatile("ld.relaxed.sys.global.u64 %0,[%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
  }
  template <order O>
  GH_FN static void store(u32* p, u32 v) {
    if constexpr (O == order::release)
      asm volatile("st.release.sys.global.u32 [%0],%1;" ::"l"(p), "r"(v) : "memory");
    else
      asm volatile("st.relaxed.sys.global.u32 [%0],%1;" ::"l"(p), "r"(v) : "memory");
  }
  template <order O>
  GH_FN static void store(u64* p, u64 v) {
    static_assert(O == order::relaxed);
    asm volatile("st.relaxed.sys.global.u64 [%0],%1;" ::"l"(p), "l"(v) : "memory");
  }
  template <order O>
  GH_FN static u32 cas(u32* p, u32 e, u32 d) {
    static_assert(O == order::acq_rel);
    u32 r;
    asm volatile("atom.acq_rel.sys.global.cas.b32 %0,[%1],%2,%3;" : "=r"(r) : "l"(p), "r"(e), "r"(d) : "memory");
    return r;
  }
  template <order O>
  GH_FN static u64 cas(u64* p, u64 e, u64 d) {
    static_assert(O == order::relaxed);
    return cuda_mem::cas<O>(p, e, d);
  }
  template <order O>
  GH_FN static u64 fetch_or(u64* p, u64 v) {
    static_assert(O == order::release);
    u64 r;
    asm volatile("atom.release.sys.global.or.b64 %0,[%1],%2;" : "=l"(r) : "l"(p), "l"(v) : "memory");
    return r;
  }
  // Several words by one instruction, each of which is read or written at once.
  GH_FN static void load_two(const u32* p, u32* to) {
    asm volatile("ld.relaxed.sys.global.v2.u32 {%0,%1},[%2];" : "=r"(to[0]), "=r"(to[1]) : "l"(p) : "memory");
  }
  GH_FN static void load_two(const u64* p, u64* to) {
    asm volatile("ld.relaxed.sys.global.v2.u64 {%0,%1},[%2];" : "=l"(to[0]), "=l"(to[1]) : "l"(p) : "memory");
  }
  GH_FN static void load_four(const u32* p, u32* to) {
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(p)
                 : "memory");
  }
  GH_FN static void store_two(u32* p, const u32* v) {
    asm volatile("st.relaxed.sys.global.v2.u32 [%0],{%1,%2};" ::"l"(p), "r"(v[0]), "r"(v[1]) : "memory");
  }
  GH_FN static void store_two(u64* p, const u64* v) {
    asm volatile("st.relaxed.sys.global.v2.u64 [%0],{%1,%2};" ::"l"(p), "l"(v[0]), "l"(v[1]) : "memory");
  }
  GH_FN static void store_four(u32* p, const u32* v) {
    asm volatile("st.relaxed.sys.global.v4.u32 [%0],{%1,%2,%3,%4};" ::"l"(p), "r"(v[0]), "r"(v[1]), "r"(v[2]), "r"(v[3])
                 : "memory");
  }
};

// A variable that the threads of a block share; and as much memory as the launch says.
#define GH_BLOCK_MEMORY(type, name) __shared__ type name
#define GH_DYNAMIC_MEMORY(type, name)                                       \
  extern __shared__ __align__(1024) unsigned char gpuhash_dynamic_memory[]; \
  type* const name = reinterpret_cast<type*>(gpuhash_dynamic_memory)

// Of the current device: multiprocessors, and bytes of memory that a block may have.
inline u32 attribute_of_device(cudaDeviceAttr which) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) || cudaDeviceGetAttribute(&value, which, device)) return 0;
  return u32(value);
}
inline u32 multiprocessors() { return attribute_of_device(cudaDevAttrMultiProcessorCount); }
inline u32 block_bytes_at_most() { return attribute_of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin); }

// Bytes of the current device's memory. Each device is asked once.
inline u64 bytes_of_device() {
  constexpr int most = 64;
  static std::atomic<u64> known[most];
  int device = 0;
  size_t left = 0, all = 0;
  if (cudaGetDevice(&device)) return 0;
  if (device < most)
    if (const u64 there = known[device].load(std::memory_order_relaxed)) return there;
  if (cudaMemGetInfo(&left, &all)) return cudaGetLastError(), 0;
  if (device < most) known[device].store(all, std::memory_order_relaxed);
  return all;
}
inline constexpr u64 share_kept = 8;  // of it, one part of so many stays with the pool of each module

// Kernels of one chain: each may begin to be set up before the one before it has ended, and waits for that here, first of all.
GH_FN void wait_for_the_one_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// The same, and blocks of the next kernel may wait beside those of this one. Where they take much of a multiprocessor they had
// better come when these have ended.
GH_FN void after_the_one_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
  wait_for_the_one_before();
}

// Queue a kernel. Returns 0 or a CUDA error code. By a call, since <<<>>> passes its arguments through the runtime twice.
template <class... P>
int launch_bytes(void (*kernel)(P...), u64 blocks, u32 threads, size_t bytes, void* stream,
                 const std::type_identity_t<P>&... arguments) {
  if (blocks > 0x7fffffffu) return int(cudaErrorInvalidValue);
  void* at[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  const cudaError_t e = cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(u32(blocks)), dim3(threads), at,
                                         bytes, cudaStream_t(stream));
  if (e != cudaSuccess) cudaGetLastError();
  return int(e);
}
template <class... P>
int launch(void (*kernel)(P...), u64 blocks, u32 threads, void* stream, const std::type_identity_t<P>&... arguments) {
  return launch_bytes(kernel, blocks, threads, 0, stream, arguments...);
}
// May a block of this kernel have so much dynamic memory?
template <class Kernel>
int allow_bytes(Kernel* kernel, size_t bytes) {
  constexpr size_t always_allowed = 48 * 1024;
  if (bytes <= always_allowed) return 0;
  constexpr auto at_most = cudaFuncAttributeMaxDynamicSharedMemorySize;
  if (const cudaError_t e = cudaFuncSetAttribute(kernel, at_most, int(bytes))) return cudaGetLastError(), int(e);
  return 0;
}
// launch() with dynamic memory for each block.
template <class... P>
int launch_with(void (*kernel)(P...), u64 blocks, u32 threads, size_t bytes, void* stream,
                const std::type_identity_t<P>&... arguments) {
  if (const int e = allow_bytes(kernel, bytes)) return e;
  return launch_bytes(kernel, blocks, threads, bytes, stream, arguments...);
}
// Was this module's code compiled for processors on which wait_for_the_one_before() waits? Code for older ones may run on a newer
// one, and does not. Asked once for each device, of any kernel.
inline bool chains(const void* kernel) {
  constexpr int most = 64;
  static std::atomic<int> known[most];  // 0: not asked yet; 1: no; 2: yes
  int device = 0;
  if (cudaGetDevice(&device) || device >= most) return false;
  if (const int there = known[device].load(std::memory_order_relaxed)) return there == 2;
  cudaFuncAttributes of{};
  if (cudaFuncGetAttributes(&of, kernel)) return cudaGetLastError(), false;
  const bool does = of.ptxVersion >= 90;
  known[device].store(does ? 2 : 1, std::memory_order_relaxed);
  return does;
}
// launch_with() of a kernel that waits for the one before, right behind one that does so, too.
template <class... P>
int launch_next(void (*kernel)(P...), u32 blocks, u32 threads, size_t bytes, void* stream,
                const std::type_identity_t<P>&... arguments) {
  if (const int e = allow_bytes(kernel, bytes)) return e;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  const auto entry = reinterpret_cast<const void*>(kernel);
  const cudaLaunchConfig_t config{{blocks}, {threads}, bytes, cudaStream_t(stream), &early, u32(chains(entry))};
  void* at[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  if (const cudaError_t e = cudaLaunchKernelExC(&config, entry, at)) return cudaGetLastError(), int(e);
  return 0;
}

GH_END
