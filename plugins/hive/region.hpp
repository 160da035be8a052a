// Address space of the CPU that is reserved at once and gets memory as it is needed, from the start on: so that a table
// grows and shrinks where it is.
#pragma once
#include <stddef.h>
#include <sys/mman.h>

namespace gpuhash {

class region {
 public:
  region() = default;
  region(const region&) = delete;
  region& operator=(const region&) = delete;
  ~region() {
    if (p_) munmap(p_, reserved_);
  }

  bool reserve(size_t bytes) {
    void* const p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    p_ = static_cast<unsigned char*>(p), reserved_ = bytes;
    madvise(p, bytes, MADV_HUGEPAGE);  // advice: a kernel without huge pages refuses it, and that is fine
    return true;
  }
  // Have memory for so many bytes. What is there stays, what comes to it is 0. Fails only if there is more to be had.
  bool resize(size_t bytes) {
    const size_t unit = bytes < huge_page ? small_unit : huge_page;
    const size_t wanted = (bytes + unit - 1) / unit * unit;
    if (wanted > reserved_) return false;
    if (wanted > there_) {
      if (mprotect(p_ + there_, wanted - there_, PROT_READ | PROT_WRITE)) return false;
    } else if (wanted <
               there_) {  // in this order the system gives the memory back, and then forgets that it was promised
      madvise(p_ + wanted, there_ - wanted, MADV_DONTNEED);
      if (mprotect(p_ + wanted, there_ - wanted, PROT_NONE)) return true;  // it stays promised
    }
    there_ = wanted;
    return true;
  }
  unsigned char* get() const { return p_; }
  size_t bytes() const { return there_; }
  size_t reserved() const { return reserved_; }

 private:
  static constexpr size_t small_unit = 64 << 10, huge_page = 2 << 20;
  unsigned char* p_ = nullptr;
  size_t reserved_ = 0, there_ = 0;
};

}  // namespace gpuhash
