// A table at rest as host memory sees it, for check, statistics and histogram: itself on the CPU, a copy on CUDA.
//
// A structure derives its own, with a copy of its layout, and says which blocks the layout points to.
#pragma once
#include <memory>
#include <vector>

#include "libgpuhash/kit/context.hpp"

namespace gpuhash {

class inspector {
 public:
  virtual ~inspector() = default;
  inspector(const inspector&) = delete;
  inspector& operator=(const inspector&) = delete;

  // CUDA: have the blocks in host memory.
  gpuhash_status copy_in(gpuhash_error* err) {
    if (const gpuhash_status s = check_host_memory(bytes_, false, err)) return s;
    copy_blocks();
    if (!error_) error_ = context_.api_.wait(context_.own_stream_);
    return error_ ? context_.fault(err, error_, "reading the table") : gpuhash_status(GPUHASH_OK);
  }

  // CORRUPT if an invariant of layout.hpp does not hold; or else what the cells hold, side slots left out.
  virtual gpuhash_status check(uint64_t* live, uint64_t* used, gpuhash_error* err) = 0;
  virtual const char* unit() const { return "slots"; }  // what check() counts
  virtual gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error* err) = 0;
  // Adds to counts, the last of which stands for what is beyond.
  virtual void distances(size_t n, uint64_t* counts) = 0;

 protected:
  inspector(table_context& c, uint64_t bytes) : context_(c), bytes_(bytes) {}  // bytes: of all blocks together
  virtual void copy_blocks() = 0;                                              // copy() for each address in the layout

  // The block of n elements at `at`, and `at` is where its copy is. Not before copy_in() has waited.
  template <class T>
  void copy(T*& at, uint64_t n) {
    constexpr size_t alignment = 128;
    kept_.emplace_back(new unsigned char[n * sizeof(T) + alignment]);
    unsigned char* const p = kept_.back().get();
    auto* const to = reinterpret_cast<T*>(p + (alignment - uintptr_t(p) % alignment) % alignment);
    if (n && !error_) error_ = context_.api_.copy(to, at, n * sizeof(T), context_.own_stream_);
    at = to;
  }

 private:
  table_context& context_;
  const uint64_t bytes_;
  std::vector<std::unique_ptr<unsigned char[]>> kept_;
  int error_ = 0;
};

}  // namespace gpuhash
