// Prefetches a cache line of memory for the calling thread.
#pragma once

namespace gpuhash {

/// GCC takes a function that does nothing but __builtin_prefetch for pure, and drops calls of it that it does not inline. The
/// asm, which is no instruction, keeps them.
inline void prefetch_line(const void* line) {
  __builtin_prefetch(line);
  asm volatile("");
}

}  // namespace gpuhash
