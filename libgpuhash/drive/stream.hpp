// Stores past the caches, on the CPU, for memory that is not read soon: such a store does not read the line first.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "libgpuhash/tile/types.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

GH_BEGIN

// Copy words to memory that is not read soon, past the caches. Another thread sees them after stream_done().
template <class Word>
inline void stream(Word* to, const Word* from, size_t n) {
  const size_t bytes = n * sizeof(Word);
#if defined(__x86_64__)
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | bytes) % 64 == 0) {
    for (size_t i = 0; i < bytes / 16; ++i)
      _mm_stream_si128(reinterpret_cast<__m128i*>(to) + i, _mm_load_si128(reinterpret_cast<const __m128i*>(from) + i));
    return;
  }
#endif
  memcpy(static_cast<void*>(to), from, bytes);
}
inline void stream_done() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

GH_END
