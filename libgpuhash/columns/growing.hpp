// Plain values side by side, which grow at their end. A large array has pages of its own, huge ones where the kernel has
// them to give: they come as zeros, and are moved to another address instead of being copied.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash::columns {

/// Arrays of the heap, or of pages of their own if they are large. A caller keeps the size of its array and passes it again.
/// A NULL that is returned: there is no memory.
namespace memory {

inline constexpr size_t page = tunable("large_page", size_t{2} << 20), large = tunable("large_array", size_t{4} << 20);

/// The size of the mapping for so many bytes. Linux puts a mapping of whole huge pages where huge pages fit.
inline size_t mapped(size_t bytes) { return (bytes + page - 1) / page * page; }

inline void* map(size_t bytes) {
  if (bytes > PTRDIFF_MAX) return nullptr;
  void* const p = mmap(nullptr, mapped(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  madvise(p, mapped(bytes), MADV_HUGEPAGE);
  return p;
}
inline void* zeros(size_t bytes) { return bytes < large ? std::calloc(std::max<size_t>(bytes, 1), 1) : map(bytes); }
inline void release(void* p, size_t bytes) {
  if (bytes < large)
    std::free(p);
  else
    munmap(p, mapped(bytes));
}
/// More memory in the place of p, which may be NULL where before is 0. NULL: p is as it was.
inline void* more(void* p, size_t before, size_t bytes) {
  if (bytes < large) return std::realloc(p, bytes);
#if !defined(__SANITIZE_THREAD__)  // which does not know mremap
  if (before >= large) {
    if (bytes > PTRDIFF_MAX) return nullptr;
    void* const there = mremap(p, mapped(before), mapped(bytes), MREMAP_MAYMOVE);
    return there == MAP_FAILED ? nullptr : there;
  }
#endif
  void* const there = map(bytes);
  if (!there) return nullptr;
  if (before) std::memcpy(there, p, before);
  release(p, before);
  return there;
}

}  // namespace memory

template <class T>
class growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  growing() = default;
  /// n values of zeros. Throws bad_alloc.
  explicit growing(size_t n) {
    if (n <= most) values_ = static_cast<T*>(memory::zeros(n * sizeof(T)));
    if (!values_) throw std::bad_alloc();
    size_ = room_ = n;
  }
  growing(growing&& o) noexcept { swap(o); }
  growing& operator=(growing&& o) noexcept {
    swap(o);
    return *this;
  }
  ~growing() { memory::release(values_, room_ * sizeof(T)); }
  void swap(growing& o) noexcept {
    std::swap(values_, o.values_);
    std::swap(size_, o.size_);
    std::swap(room_, o.room_);
  }

  /// Throws bad_alloc, and nothing has changed.
  void reserve(size_t n) {
    if (n <= room_) return;
    void* const p = n > most ? nullptr : memory::more(values_, room_ * sizeof(T), n * sizeof(T));
    if (!p) throw std::bad_alloc();
    values_ = static_cast<T*>(p);
    room_ = n;
  }
  /// Room for n further values. Throws bad_alloc, and nothing has changed.
  void make_room(size_t n) {
    if (n > room_ - size_) reserve(std::max(2 * room_, std::max(size_ + n, least)));
  }
  void push_back(const T& value) { append(&value, 1); }
  void append(const T* values, size_t n) {
    make_room(n);
    if (n > 0) std::memcpy(values_ + size_, values, n * sizeof(T));
    size_ += n;
  }
  void append_zeros(size_t n) {
    make_room(n);
    if (n > 0) std::memset(static_cast<void*>(values_ + size_), 0, n * sizeof(T));
    size_ += n;
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  size_t capacity() const { return room_; }
  T* data() { return values_; }
  const T* data() const { return values_; }
  T& operator[](size_t i) { return values_[i]; }
  const T& operator[](size_t i) const { return values_[i]; }

 private:
  static constexpr size_t least = 64 / sizeof(T) + 1, most = PTRDIFF_MAX / sizeof(T);
  T* values_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

}  // namespace gpuhash::columns
