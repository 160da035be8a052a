// Both halves of the product of 64 by 64 bits, folded: every bit of a and b reaches the result (Wang Yi, wyhash, 2019).
#pragma once
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

GH_FN u64 fold(u64 a, u64 b) {
#if defined(__CUDA_ARCH__)
  return a * b ^ __umul64hi(a, b);
#elif defined(__x86_64__) && !defined(__CUDACC__)
  // Of a product of 128 bits GCC 12 puts the low half through memory.
  u64 low, high;
  asm("mulq %3" : "=a"(low), "=d"(high) : "%a"(a), "rm"(b) : "cc");
  return low ^ high;
#else
  const auto product = static_cast<unsigned __int128>(a) * b;
  return u64(product) ^ u64(product >> 64);
#endif
}

GH_END
