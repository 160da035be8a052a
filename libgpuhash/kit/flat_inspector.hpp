// The check, the statistics and the histogram of a table in one block of slots (flat_table.hpp describes its
// Structure).
#pragma once
#include "libgpuhash/kit/inspector.hpp"
#include "libgpuhash/tile/types.hpp"

namespace gpuhash {

template <template <class> class Structure, class F>
class flat_inspector final : public inspector {
  using S = Structure<F>;
  using word = typename F::word;

 public:
  flat_inspector(table_context& c, const typename S::options& o, const typename S::layout& t, uint64_t n_slots)
      : inspector(c, n_slots * sizeof(word)), options_(o), seed_(c.config_.seed), layout_(t), n_slots_(n_slots) {}

  gpuhash_status check(uint64_t* live, uint64_t* used, gpuhash_error* err) override {
    uint64_t cell = 0;
    if (const char* what = S::broken(layout_, &cell))
      return host->fail(err, GPUHASH_CORRUPT, "slot %llu breaks an invariant: %s", (unsigned long long)cell, what);
    const word* slots = static_cast<const word*>(S::memory(layout_));
    for (uint64_t i = 0; i < n_slots_; ++i) {
      *live += is_live<F>(slots[i]);
      *used += F::key_of(slots[i]) != empty_key<typename F::key>;
    }
    return GPUHASH_OK;
  }
  gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error*) override {
    S::figures(layout_, out);
    return GPUHASH_OK;
  }
  void distances(size_t n, uint64_t* counts) override { S::distances(layout_, n, counts); }

 private:
  void copy_blocks() override {
    auto* slots = static_cast<word*>(const_cast<void*>(S::memory(layout_)));
    copy(slots, n_slots_);
    layout_ = S::bind(options_, slots, n_slots_, nullptr, seed_);
  }

  const typename S::options options_;
  const uint64_t seed_;
  typename S::layout layout_;
  const uint64_t n_slots_;
};

}  // namespace gpuhash
