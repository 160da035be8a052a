// Plain values side by side, which grow at their end, in memory of malloc: glibc moves the pages of a large array
// instead of copying it, and a kernel that has huge pages to give puts it there.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace gpuhash::columns {

/// Ask for huge pages, of which an array of at least two has one.
inline void advise_huge_pages(void* p, size_t bytes) {
#if defined(MADV_HUGEPAGE)
  constexpr uint64_t page = 4096, huge = uint64_t{2} << 20;
  if (bytes < 2 * huge) return;
  const uint64_t begin = (reinterpret_cast<uint64_t>(p) + page - 1) / page * page;
  madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uint64_t>(p) + bytes - begin, MADV_HUGEPAGE);
#endif
}

template <class T>
class growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  growing() = default;
  /// n values of zeros. Throws bad_alloc.
  explicit growing(size_t n)
      : values_(static_cast<T*>(std::calloc(std::max<size_t>(n, 1), sizeof(T)))), size_(n), room_(n) {
    if (!values_) throw std::bad_alloc();
    advise_huge_pages(values_, n * sizeof(T));
  }
  growing(growing&& o) noexcept { swap(o); }
  growing& operator=(growing&& o) noexcept {
    swap(o);
    return *this;
  }
  ~growing() { std::free(values_); }
  void swap(growing& o) noexcept {
    std::swap(values_, o.values_);
    std::swap(size_, o.size_);
    std::swap(room_, o.room_);
  }

  /// Throws bad_alloc, and nothing has changed.
  void reserve(size_t n) {
    if (n <= room_) return;
    if (n > SIZE_MAX / sizeof(T)) throw std::bad_alloc();
    void* const more = std::realloc(static_cast<void*>(values_), n * sizeof(T));
    if (!more) throw std::bad_alloc();
    values_ = static_cast<T*>(more);
    room_ = n;
    advise_huge_pages(more, n * sizeof(T));
  }
  void push_back(const T& value) { append(&value, 1); }
  void append(const T* values, size_t n) {
    need(n);
    if (n > 0) std::memcpy(values_ + size_, values, n * sizeof(T));
    size_ += n;
  }
  void append_zeros(size_t n) {
    need(n);
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
  static constexpr size_t least = 64 / sizeof(T) + 1;
  void need(size_t n) {
    if (n > room_ - size_) reserve(std::max(2 * room_, std::max(size_ + n, least)));
  }
  T* values_ = nullptr;
  size_t size_ = 0, room_ = 0;
};

}  // namespace gpuhash::columns
