// The default memory resource of the CPU device: see memory.hpp.
#include "libgpuhash/src/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

namespace gpuhash {
namespace {

constexpr size_t cache_line = 64, huge_page = size_t{2} << 20;

void* allocate(void*, size_t bytes, size_t alignment, void*) {
  if (alignment != 0 && !std::has_single_bit(alignment)) return nullptr;
  const bool huge = bytes >= huge_page;
  alignment = std::max({alignment, huge ? huge_page : cache_line, sizeof(void*)});
  if (bytes > PTRDIFF_MAX - alignment) return nullptr;
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

}  // namespace gpuhash
