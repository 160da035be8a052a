// Address space that is reserved at once and gets memory as it is needed, from the start on: so that a table grows and
// shrinks where it is. On the CPU it is the system's, on CUDA the device's.
#pragma once
#include <stddef.h>
#include <sys/mman.h>

#include <memory>
#include <new>
#include <vector>

#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/host_memory.hpp"

namespace gpuhash {

class region {
 public:
  region() = default;
  region(const region&) = delete;
  region& operator=(const region&) = delete;
  virtual ~region() = default;

  virtual bool reserve(size_t bytes) = 0;
  // Maps memory for so many bytes; memory that is there stays. No batch uses memory that goes. Fails only if more
  // memory is needed, and then the region is as before.
  virtual bool resize(size_t bytes) = 0;

  unsigned char* get() const { return p_; }
  size_t bytes() const { return there_; }
  size_t reserved() const { return reserved_; }

 protected:
  unsigned char* p_ = nullptr;
  size_t reserved_ = 0, there_ = 0;
};

class host_region final : public region {
 public:
  ~host_region() override {
    if (p_) munmap(p_, reserved_);
  }

  bool reserve(size_t bytes) override {
    void* const p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    p_ = static_cast<unsigned char*>(p), reserved_ = bytes;
    madvise(p, bytes, MADV_HUGEPAGE);  // advice: a kernel without huge pages refuses it, and that is fine
    return true;
  }
  bool resize(size_t bytes) override {
    const size_t unit = bytes < huge_page ? small_unit : huge_page;
    const size_t wanted = (bytes + unit - 1) / unit * unit;
    if (wanted > reserved_) return false;
    if (wanted > there_) {
      if (mprotect(p_ + there_, wanted - there_, PROT_READ | PROT_WRITE)) return false;
      if (!commit_host_memory(p_ + there_, wanted - there_)) {
        give_back(there_, wanted);
        return false;
      }
    } else if (wanted < there_ && !give_back(wanted, there_)) {
      return true;  // it stays promised
    }
    there_ = wanted;
    return true;
  }

 private:
  // In this order the system gets the memory, and then forgets that it was promised.
  bool give_back(size_t begin, size_t end) {
    madvise(p_ + begin, end - begin, MADV_DONTNEED);
    return mprotect(p_ + begin, end - begin, PROT_NONE) == 0;
  }
  static constexpr size_t small_unit = 64 << 10, huge_page = 2 << 20;
};

// Memory comes in pieces, which are given back as they came. Mapping one takes about as long whatever its size is, so
// that a region that grows often takes a little more than it needs.
class device_region final : public region {
 public:
  explicit device_region(const device_api& api) : api_(api) {}
  ~device_region() override {
    while (!begins_.empty()) drop_last();
    if (p_) api_.release_space(p_, reserved_);
  }

  bool reserve(size_t bytes) override {
    void* p = nullptr;
    size_t wanted = bytes ? bytes : 1;  // a table without a stash has none there either
    if (api_.reserve_space(&p, &wanted, &unit_)) return false;
    p_ = static_cast<unsigned char*>(p), reserved_ = wanted;
    return true;
  }
  bool resize(size_t bytes) override {
    const size_t wanted = in_units(bytes);
    if (wanted > reserved_) return false;
    while (!begins_.empty() && begins_.back() >= wanted) drop_last();
    if (wanted <= there_) return true;
    try {
      begins_.reserve(begins_.size() + 1);
    } catch (const std::bad_alloc&) {
      return false;
    }
    size_t more = wanted - there_;
    const size_t some = in_units(there_ / share_ahead);
    if (some > more) more = some < reserved_ - there_ ? some : reserved_ - there_;
    return map(more) || (more > wanted - there_ && map(wanted - there_));
  }

 private:
  static constexpr size_t share_ahead = 64;
  size_t in_units(size_t bytes) const { return (bytes + unit_ - 1) / unit_ * unit_; }
  bool map(size_t bytes) {
    if (api_.map_memory(p_ + there_, bytes)) return false;
    begins_.push_back(there_);
    there_ += bytes;
    return true;
  }
  void drop_last() {
    api_.unmap_memory(p_ + begins_.back(), there_ - begins_.back());
    there_ = begins_.back();
    begins_.pop_back();
  }

  const device_api& api_;
  size_t unit_ = 1;
  std::vector<size_t> begins_;  // of the pieces
};

}  // namespace gpuhash
