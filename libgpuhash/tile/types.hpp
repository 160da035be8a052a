// Machine words and slot formats: what every layer of the kernels shares. Operation kinds are in kinds.hpp.
//
// A slot is ONE machine word, read and written by one access, so that a key never appears without its value:
//
//   set32    | key 32 |                          u32
//   pair32   | key 32 | value 32 |               u64   (key in the low half)
//   set64    | key 64 |                          u64
//   pair64   | key 64 | value 64 |               u128
//
// Two key patterns are used by the structures themselves. User keys equal to them live in two side slots (kit/side.hpp),
// so no key is reserved.
//
//   EMPTY {~0, ~0}      never held a key since the last exclusive rebuild. Memory filled with 0xff is empty.
//   DEAD  {~0 - 1, k}   a tombstone. In a pair it remembers its key k: only k may revive it. In a set it remembers
//                       nothing, and stays dead until the next rebuild.
#pragma once
#include <stddef.h>
#include <stdint.h>

#include <type_traits>

#include "libgpuhash/tile/sizes.hpp"

#if defined(__CUDACC__)
#define GH_FN __device__ __forceinline__
#else
#define GH_FN inline __attribute__((always_inline))
#endif

// Kernels are compiled once per instruction set; each set of them lives in its own namespace, or the linker would merge
// functions built for different processors (kit/check_objects.py).
#if defined(GPUHASH_ISA) && defined(__CUDACC__)
#error "GPUHASH_ISA is for plugin_host.cpp: with it a CUDA source's functions would be taken for those of the CPU"
#elif defined(GPUHASH_ISA)
#define GH_BEGIN      \
  namespace gpuhash { \
  inline namespace GPUHASH_ISA {
#elif defined(__CUDACC__)
#define GH_BEGIN      \
  namespace gpuhash { \
  inline namespace device {
#else
#define GH_BEGIN      \
  namespace gpuhash { \
  inline namespace portable {
#endif
#define GH_END \
  }            \
  }

// a and b as one name, both expanded.
#define GH_PASTE2(a, b) a##b
#define GH_PASTE(a, b) GH_PASTE2(a, b)

GH_BEGIN

using u8 = uint8_t;
using u32 = uint32_t;
using u64 = unsigned long long;
static_assert(sizeof(u64) == 8);

struct alignas(16) u128 {
  u64 lo, hi;
  friend constexpr bool operator==(const u128& a, const u128& b) { return a.lo == b.lo && a.hi == b.hi; }
  friend constexpr u128 operator|(const u128& a, const u128& b) { return {a.lo | b.lo, a.hi | b.hi}; }
};

template <class Key>
inline constexpr Key empty_key = Key(~Key(0));
template <class Key>
inline constexpr Key dead_key = Key(~Key(0) - 1);

// index: wide enough for every row of a table of such keys (2^32 rows of at least 8 slots hold all 32-bit keys).
struct set32 {
  using key = u32;
  using value = u32;
  using word = u32;
  using index = u32;
  static constexpr bool has_value = false;
  static constexpr word make(key k, value) { return k; }
  static constexpr key key_of(word w) { return w; }
  static constexpr value value_of(word) { return 0; }
};
struct pair32 {
  using key = u32;
  using value = u32;
  using word = u64;
  using index = u32;
  static constexpr bool has_value = true;
  static constexpr word make(key k, value v) { return word(k) | word(v) << 32; }
  static constexpr key key_of(word w) { return key(w); }
  static constexpr value value_of(word w) { return value(w >> 32); }
};
struct set64 {
  using key = u64;
  using value = u64;
  using word = u64;
  using index = u64;
  static constexpr bool has_value = false;
  static constexpr word make(key k, value) { return k; }
  static constexpr key key_of(word w) { return w; }
  static constexpr value value_of(word) { return 0; }
};
struct pair64 {
  using key = u64;
  using value = u64;
  using word = u128;
  using index = u64;
  static constexpr bool has_value = true;
  static constexpr word make(key k, value v) { return {k, v}; }
  static constexpr key key_of(word w) { return w.lo; }
  static constexpr value value_of(word w) { return w.hi; }
};

template <class F>
constexpr typename F::word empty_word() {
  return F::make(empty_key<typename F::key>, ~typename F::value(0));
}
template <class F>
constexpr typename F::word tombstone(typename F::key k) {
  return F::make(dead_key<typename F::key>, typename F::value(k));
}
template <class F>
constexpr bool is_live(typename F::word w) {
  return F::key_of(w) < dead_key<typename F::key>;
}
template <class Key>
constexpr bool is_side_key(Key k) {
  return k >= dead_key<Key>;
}

enum outcome : u32 { no = 0, yes = 1, full = 2, no_memory = 3, bad_op = 4 };

// How accumulate joins two values; the numbers are those of gpuhash.h. narrow: 4-byte values in an 8-byte slot.
struct joiner {
  u32 combine, type;
  bool narrow;
  const void* others = nullptr;  // operands<value> that follow the operation's own (CPU, equal keys of a block)
  bool keys_stay = false;        // request::keys_stay
};

// What a step tells its driver.
enum class verdict : u32 {
  again,  // visit a row at once: the same one, where a compare-and-swap was lost, or one that others are at work in
  next,   // the operation moved on to another row
  done,   // finished; the result is in the operation
  slow    // call slow(): a part that cannot be straight-line code
};

enum class order { relaxed, acquire, release, acq_rel };

GH_END
