// Hash functions. All are bijections of the key, so that two keys never share all bits.
//
// murmur: the finaliser of MurmurHash3, keyed by xor with the table's seed before and after (Appleby, public domain
//         constants). The default.
// blog:   the same finaliser without a seed, as in Farrell's table, for reproduction.
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

enum hash_kind : u32 { hash_murmur = 0, hash_blog = 1 };

GH_FN u32 mix(u32 k) {
  k ^= k >> 16;
  k *= 0x85ebca6bu;
  k ^= k >> 13;
  k *= 0xc2b2ae35u;
  return k ^ k >> 16;
}
GH_FN u64 mix(u64 k) {
  k ^= k >> 33;
  k *= 0xff51afd7ed558ccdull;
  k ^= k >> 33;
  k *= 0xc4ceb9fe1a85ec53ull;
  return k ^ k >> 33;
}
// seed 0 is the unseeded finaliser: mix(k ^ 0) ^ 0.
GH_FN u32 hash(u32 k, u64 seed) { return mix(k ^ u32(seed)) ^ u32(seed >> 32); }
GH_FN u64 hash(u64 k, u64 seed) { return mix(k ^ seed) ^ (seed >> 32 | seed << 32); }

// High half of the product: maps a hash to 0 .. n-1 without a division.
GH_FN u32 reduce(u32 h, u32 n) { return u32((u64(h) * n) >> 32); }
GH_FN u64 reduce(u64 h, u64 n) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(h, n);
#elif defined(__CUDACC__)
  return h * n;  // the host pass of nvcc never runs this
#else
  return u64((static_cast<unsigned __int128>(h) * n) >> 64);
#endif
}

GH_END
