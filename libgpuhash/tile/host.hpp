// The tile on a CPU: one thread, the row in vector registers.
//
// Compiled once per instruction set (types.hpp says why). AVX-512 and AVX2 compare a row in one or two instructions; the
// generic form is the one that ThreadSanitizer sees, since it models per-slot atomic loads only. No vector type is wider
// than a register of the target: a wider one is split through memory, which costs more than it saves.
//
// x86 loads an aligned row of 16, 32 or 64 bytes so that each aligned 8-byte word of it is read at once. Words of 16 bytes
// are read at once by 16-byte loads of every processor that has AVX (Intel SDM 3, 9.1.1; AMD has stated the same). For
// wider loads no vendor promises it, and all processors do it: they read a cache line at once, or 16 bytes after 16
// bytes. Processors without AVX take the generic form.
#pragma once
#include "libgpuhash/tile/prefetch.hpp"
#include "libgpuhash/tile/tile.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__has_feature)  // clang's way to say it; gcc defines __SANITIZE_THREAD__
#if __has_feature(thread_sanitizer) && !defined(__SANITIZE_THREAD__)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#if defined(__SANITIZE_THREAD__) || !defined(__x86_64__)
#define GH_ROW_BYTES 0  // generic: per-slot atomic loads
#elif defined(__AVX512F__) && defined(__AVX512VL__)
#define GH_ROW_BYTES 64
#elif defined(__AVX2__)
#define GH_ROW_BYTES 32
#else
#define GH_ROW_BYTES 0
#endif

GH_BEGIN

// Where a value comes from is hidden, so that the compiler does not read the caller's array again instead of keeping it.
template <class T>
GH_FN T host_read_once(T v) {
  asm("" : "+r"(v));
  return v;
}

struct host_mem {
  static constexpr int memory_order(order o) {
    return o == order::relaxed   ? __ATOMIC_RELAXED
           : o == order::acquire ? __ATOMIC_ACQUIRE
           : o == order::release ? __ATOMIC_RELEASE
                                 : __ATOMIC_ACQ_REL;
  }
  static constexpr int on_failure(order o) {
    return o == order::acquire || o == order::acq_rel ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED;
  }
  using wide = unsigned __int128;
  static u128 narrow(wide w) { return {u64(w), u64(w >> 64)}; }
  static wide widen(u128 v) { return wide(v.lo) | wide(v.hi) << 64; }

  template <order O, class T>
  GH_FN static T load(const T* p) {
    if constexpr (sizeof(T) == 16) {
#if GH_ROW_BYTES
      __m128i x;
      asm volatile("vmovdqa %1, %0" : "=x"(x) : "m"(*p) : "memory");
      return {u64(_mm_cvtsi128_si64(x)), u64(_mm_extract_epi64(x, 1))};
#else  // a compare-and-swap that changes nothing is the only 16-byte load that is always atomic
      return narrow(__sync_val_compare_and_swap(reinterpret_cast<wide*>(const_cast<T*>(p)), wide(0), wide(0)));
#endif
    } else {
      return __atomic_load_n(p, memory_order(O));
    }
  }
  template <order O, class T>
  GH_FN static void store(T* p, T v) {
    if constexpr (sizeof(T) == 16) {
      T seen = load<order::relaxed>(p);
      for (T now; !((now = cas<O>(p, seen, v)) == seen); seen = now) relax();
    } else {
      __atomic_store_n(p, v, memory_order(O));
    }
  }
  template <order O, class T>
  GH_FN static T cas(T* p, T expected, T desired) {
    if constexpr (sizeof(T) == 16) {
      return narrow(__sync_val_compare_and_swap(reinterpret_cast<wide*>(p), widen(expected), widen(desired)));
    } else {
      __atomic_compare_exchange_n(p, &expected, desired, false, memory_order(O), on_failure(O));
      return expected;
    }
  }
  template <order O, class T>
  GH_FN static T exchange(T* p, T v) {
    return __atomic_exchange_n(p, v, memory_order(O));
  }
  template <order O, class T>
  GH_FN static T fetch_add(T* p, T v) {
    return __atomic_fetch_add(p, v, memory_order(O));
  }
  template <order O, class T>
  GH_FN static T fetch_or(T* p, T v) {
    return __atomic_fetch_or(p, v, memory_order(O));
  }
  template <order O, class T>
  GH_FN static T fetch_and(T* p, T v) {
    return __atomic_fetch_and(p, v, memory_order(O));
  }
  // To write: without other caches' copies, or the write would wait until those are gone. x86 processors that do not have
  // this instruction pass over it.
  template <bool ToWrite>
  GH_FN static void prefetch(const void* line) {
#if defined(__x86_64__)
    if constexpr (ToWrite) {
      asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
      return;
    }
#endif
    prefetch_line(line);
  }
  // ThreadSanitizer does not know fences; the accesses around them are atomic.
  GH_FN static void fence() {
#if !defined(__SANITIZE_THREAD__)
    __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
  }
  GH_FN static bool allocation_fails() { return false; }
  GH_FN static void relax(u32 = 0) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
};

// B bytes in one register, and which of its slots match.
template <class F, int B>
struct piece;

#if GH_ROW_BYTES
template <class F>
struct piece<F, 16> {
  static constexpr int n = 16 / sizeof(typename F::word);
  __m128i v;
  GH_FN void load(const void* p) {
    asm volatile("vmovdqa %1, %0" : "=x"(v) : "m"(*static_cast<const __m128i*>(p)) : "memory");
  }
  GH_FN void store(void* p) const { _mm_store_si128(static_cast<__m128i*>(p), v); }
  GH_FN u32 with_key(typename F::key k) const {
    if constexpr (std::is_same_v<F, set32>)
      return u32(_mm_movemask_ps(_mm_castsi128_ps(_mm_cmpeq_epi32(v, _mm_set1_epi32(int(k))))));
    if constexpr (std::is_same_v<F, pair32>)
      return u32(_mm_movemask_pd(
          _mm_castsi128_pd(_mm_cmpeq_epi64(_mm_slli_epi64(v, 32), _mm_set1_epi64x((long long)(u64(k) << 32))))));
    const u32 m = u32(_mm_movemask_pd(_mm_castsi128_pd(_mm_cmpeq_epi64(v, _mm_set1_epi64x((long long)k)))));
    return std::is_same_v<F, pair64> ? m & 1 : m;
  }
  GH_FN u32 with_word(typename F::word w) const {
    if constexpr (std::is_same_v<F, pair64>)
      return u32(_mm_movemask_pd(
                 _mm_castsi128_pd(_mm_cmpeq_epi64(v, _mm_set_epi64x((long long)w.hi, (long long)w.lo))))) == 3;
    else if constexpr (sizeof(w) == 8)
      return u32(_mm_movemask_pd(_mm_castsi128_pd(_mm_cmpeq_epi64(v, _mm_set1_epi64x((long long)w)))));
    else
      return with_key(F::key_of(w));
  }
};

template <class F>
struct piece<F, 32> {
  static constexpr int n = 32 / sizeof(typename F::word);
  __m256i v;
  GH_FN void load(const void* p) {
    asm volatile("vmovdqa %1, %0" : "=x"(v) : "m"(*static_cast<const __m256i*>(p)) : "memory");
  }
  GH_FN void store(void* p) const { _mm256_store_si256(static_cast<__m256i*>(p), v); }
  GH_FN static u32 mask64(__m256i m) { return u32(_mm256_movemask_pd(_mm256_castsi256_pd(m))); }
  GH_FN u32 with_key(typename F::key k) const {
    if constexpr (std::is_same_v<F, set32>)
      return u32(_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(v, _mm256_set1_epi32(int(k))))));
    if constexpr (std::is_same_v<F, pair32>)
      return mask64(_mm256_cmpeq_epi64(_mm256_slli_epi64(v, 32), _mm256_set1_epi64x((long long)(u64(k) << 32))));
    const u32 m = mask64(_mm256_cmpeq_epi64(v, _mm256_set1_epi64x((long long)k)));
    return std::is_same_v<F, pair64> ? _pext_u32(m, 0x5) : m;
  }
  // Unsigned: AVX2 compares signed numbers, so that the sign bits are flipped.
  GH_FN u32 at_most(typename F::key k) const {
    static_assert(sizeof(typename F::word) >= 8);
    const __m256i flip = _mm256_set1_epi64x((long long)(u64(1) << 63));
    const __m256i keys = std::is_same_v<F, pair32> ? _mm256_slli_epi64(v, 32) : v;
    const u64 bound = std::is_same_v<F, pair32> ? u64(k) << 32 : u64(k);
    const u32 m = ~mask64(_mm256_cmpgt_epi64(keys ^ flip, _mm256_set1_epi64x((long long)bound) ^ flip)) & 15;
    return std::is_same_v<F, pair64> ? _pext_u32(m, 0x5) : m;
  }
  GH_FN u32 with_word(typename F::word w) const {
    if constexpr (std::is_same_v<F, pair64>) {
      const u32 m = mask64(
          _mm256_cmpeq_epi64(v, _mm256_set_epi64x((long long)w.hi, (long long)w.lo, (long long)w.hi, (long long)w.lo)));
      return _pext_u32(m & m >> 1, 0x5);
    } else if constexpr (sizeof(w) == 8) {
      return mask64(_mm256_cmpeq_epi64(v, _mm256_set1_epi64x((long long)w)));
    } else {
      return with_key(F::key_of(w));
    }
  }
};
#endif

#if GH_ROW_BYTES == 64
template <class F>
struct piece<F, 64> {
  static constexpr int n = 64 / sizeof(typename F::word);
  __m512i v;
  GH_FN void load(const void* p) {
    asm volatile("vmovdqa64 %1, %0" : "=v"(v) : "m"(*static_cast<const __m512i*>(p)) : "memory");
  }
  GH_FN void store(void* p) const { _mm512_store_si512(p, v); }
  // The first slot that h names.
  GH_FN typename F::word first(u32 h) const {
    if constexpr (sizeof(typename F::word) == 4) return u32(_mm512_maskz_compress_epi32(__mmask16(h), v)[0]);
    if constexpr (sizeof(typename F::word) == 8) return u64(_mm512_maskz_compress_epi64(__mmask8(h), v)[0]);
    if constexpr (sizeof(typename F::word) == 16) {
      const __m512i front = _mm512_maskz_compress_epi64(__mmask8(_pdep_u32(h, 0x55) * 3), v);
      return {u64(front[0]), u64(front[1])};
    }
  }
  GH_FN u32 with_key(typename F::key k) const {
    if constexpr (std::is_same_v<F, set32>) return _mm512_cmpeq_epi32_mask(v, _mm512_set1_epi32(int(k)));
    if constexpr (std::is_same_v<F, pair32>)
      return _mm512_testn_epi64_mask(v ^ _mm512_set1_epi64((long long)k), _mm512_set1_epi64(0xffffffff));
    const u32 m = _mm512_cmpeq_epi64_mask(v, _mm512_set1_epi64((long long)k));
    return std::is_same_v<F, pair64> ? _pext_u32(m, 0x55) : m;
  }
  GH_FN u32 at_most(typename F::key k) const {
    static_assert(sizeof(typename F::word) >= 8);
    if constexpr (std::is_same_v<F, pair32>)
      return _mm512_cmple_epu64_mask(_mm512_slli_epi64(v, 32), _mm512_set1_epi64((long long)(u64(k) << 32)));
    const u32 m = _mm512_cmple_epu64_mask(v, _mm512_set1_epi64((long long)k));
    return std::is_same_v<F, pair64> ? _pext_u32(m, 0x55) : m;
  }
  GH_FN u32 with_word(typename F::word w) const {
    if constexpr (std::is_same_v<F, pair64>) {
      const u32 m = _mm512_cmpeq_epi64_mask(
          v, _mm512_set4_epi64((long long)w.hi, (long long)w.lo, (long long)w.hi, (long long)w.lo));
      return _pext_u32(m & m >> 1, 0x55);
    } else if constexpr (sizeof(w) == 8) {
      return _mm512_cmpeq_epi64_mask(v, _mm512_set1_epi64((long long)w));
    } else {
      return with_key(F::key_of(w));
    }
  }
};
#endif

// A row as registers of the widest kind that fits; as an array of words where rows are small or generic.
template <class F, int R, int B>
struct vector_row {
  static constexpr int bytes = R * int(sizeof(typename F::word));
  static constexpr int size = bytes < B ? bytes : B;
  static constexpr int count = bytes / size;
  piece<F, size> part[count];

  GH_FN void load(const typename F::word* line) {
    for (int i = 0; i < count; ++i) part[i].load(reinterpret_cast<const char*>(line) + i * size);
  }
  GH_FN u32 with_key(typename F::key k) const {
    u32 m = 0;
    for (int i = 0; i < count; ++i) m |= part[i].with_key(k) << i * piece<F, size>::n;
    return m;
  }
  GH_FN u32 at_most(typename F::key k) const {
    u32 m = 0;
    for (int i = 0; i < count; ++i) m |= part[i].at_most(k) << i * piece<F, size>::n;
    return m;
  }
  GH_FN u32 with_word(typename F::word w) const {
    u32 m = 0;
    for (int i = 0; i < count; ++i) m |= part[i].with_word(w) << i * piece<F, size>::n;
    return m;
  }
  // The first slot that h names.
  GH_FN typename F::word first(u32 h) const {
    if constexpr (size == 64) {  // from register to register: a store and a load would take longer
      typename F::word w{};
      for (int i = 0; i < count; ++i)  // all but one of them give 0
        w = w | part[i].first((count == 1 ? h : h & -h) >> i * piece<F, 64>::n);
      return w;
    } else {
      return word(u32(__builtin_ctz(h | 1u << (R - 1))));
    }
  }
  GH_FN typename F::word word(u32 i) const {
    if constexpr (size == 64) {
      return part[i / piece<F, 64>::n].first(1u << i % piece<F, 64>::n);
    } else {
      alignas(size) typename F::word all[R];
      for (int p = 0; p < count; ++p) part[p].store(reinterpret_cast<char*>(all) + p * size);
      return all[i];
    }
  }
};

template <class F, int R>
struct array_row {
  typename F::word all[R];
  GH_FN void load(const typename F::word* line) {
    for (int i = 0; i < R; ++i) all[i] = host_mem::load<order::relaxed>(line + i);
  }
  GH_FN u32 with_key(typename F::key k) const {
    u32 m = 0;
    for (int i = 0; i < R; ++i) m |= u32(F::key_of(all[i]) == k) << i;
    return m;
  }
  GH_FN u32 at_most(typename F::key k) const {
    u32 m = 0;
    for (int i = 0; i < R; ++i) m |= u32(F::key_of(all[i]) <= k) << i;
    return m;
  }
  GH_FN u32 with_word(typename F::word w) const {
    u32 m = 0;
    for (int i = 0; i < R; ++i) m |= u32(all[i] == w) << i;
    return m;
  }
  GH_FN typename F::word first(u32 h) const { return all[u32(__builtin_ctz(h | 1u << (R - 1)))]; }
  GH_FN typename F::word word(u32 i) const { return all[i]; }
};

template <class F, int R>
struct host_tile {
  using format = F;
  using mem = host_mem;
  using word = typename F::word;
  using hits = u32;  // bit i: slot i
  static constexpr int slots = R;
  static constexpr bool vector = GH_ROW_BYTES && R * sizeof(word) >= 16;
  using row =
      typename std::conditional_t<vector, std::type_identity<vector_row<F, R, GH_ROW_BYTES ? GH_ROW_BYTES : 16>>,
                                  std::type_identity<array_row<F, R>>>::type;

  bool alone = false;  // no other thread is at these slots: what was loaded is there still, and a store is enough

  GH_FN row load(const word* line) const {
    row r;
    r.load(line);
    return r;
  }
  GH_FN hits with_key(const row& r, typename F::key k, u32 first, u32 end = R) const {
    return r.with_key(k) & span(first, end);
  }
  GH_FN hits with_word(const row& r, word w, u32 first, u32 end = R) const { return r.with_word(w) & span(first, end); }
  GH_FN hits at_most(const row& r, typename F::key k, u32 first, u32 end = R) const {
    return r.at_most(k) & span(first, end);
  }
  GH_FN word last_word(const row& r, hits h) const { return r.word(31 - u32(__builtin_clz(h | 1))); }
  GH_FN static u32 span(u32 first, u32 end) { return ~0u << first & ~0u >> (32 - end); }
  GH_FN bool any(hits h) const { return h != 0; }
  GH_FN u32 number(hits h) const { return u32(__builtin_popcount(h)); }
  GH_FN hits choose(bool c, hits a, hits b) const { return c ? a : b; }
  GH_FN static u32 lead(hits h) { return u32(__builtin_ctz(h | 1u << (R - 1))); }
  GH_FN word word_at(const row& r, hits h) const { return r.first(h); }
  GH_FN typename F::value value_at(const row& r, hits h) const { return F::value_of(word_at(r, h)); }
  GH_FN word slot(const row& r, u32 i) const { return r.word(i); }
  template <class Act>
  GH_FN auto once(bool, Act act) const {
    return act();
  }
  GH_FN static void put(word* slot, word w) {
#if defined(__x86_64__)
    if constexpr (sizeof(word) == 16) {  // one store: the row is read again soon
      _mm_store_si128(reinterpret_cast<__m128i*>(slot), _mm_set_epi64x((long long)w.hi, (long long)w.lo));
      return;
    }
#endif
    *slot = w;
  }
  GH_FN bool cas(bool go, word* line, const row& r, hits h, word desired) const {
    if (!go) return false;
    if (alone) {
      put(line + lead(h), desired);
      return true;
    }
    const word expected = r.first(h);
    return mem::cas<order::relaxed>(line + lead(h), expected, desired) == expected;
  }
};

GH_END
