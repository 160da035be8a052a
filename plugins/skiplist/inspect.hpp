// The check, the statistics and the histogram of a skiplist. The tests of its invariants are in check.hpp.
#pragma once
#include "check.hpp"
#include "layout.hpp"
#include "libgpuhash/kit/inspector.hpp"

namespace gpuhash {

template <class F>
class skip_inspector final : public inspector {
  using word = typename F::word;
  using layout_type = skip_table<F>;

 public:
  skip_inspector(table_context& c, const layout_type& t)
      : inspector(c, uint64_t(t.capacity) * t.slots * sizeof(word)), layout_(t) {}

  gpuhash_status check(uint64_t* live, uint64_t* used, gpuhash_error* err) override {
    skip_check<F> check(layout_);
    std::string wrong = check.run();
    if (wrong.empty()) wrong = check.run_spare();
    *live = *used = check.live;
    return wrong.empty() ? gpuhash_status(GPUHASH_OK) : corrupt(wrong, err);
  }
  const char* unit() const override { return "chunks"; }
  gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error* err) override {
    const layout_type& t = layout_;
    skip_check<F> check(t);
    const std::string wrong = check.run();
    if (!wrong.empty()) return corrupt(wrong, err);
    uint64_t above = 0;
    for (u32 l = 1; l <= *t.top; ++l) above += check.chunks[l];
    out.push_back({"levels", double(*t.top + 1)});
    out.push_back({"chunk_entries", double(entries())});
    out.push_back({"chunks", double(check.chunks[0])});
    out.push_back({"chunks_above", double(above)});
    out.push_back({"fill", double(check.live) / double(check.chunks[0] * entries())});
    out.push_back({"names", double(check.names)});
    out.push_back({"zombies", double(check.zombies)});
    out.push_back({"pool_chunks", double(t.capacity)});
    out.push_back({"pool_taken", double(*t.taken < t.capacity ? *t.taken : t.capacity)});
    out.push_back({"segments", double(t.segments)});
    return GPUHASH_OK;
  }
  void distances(size_t n, uint64_t* counts) override {  // chunks by their entries
    for (u32 at = layout_type::head(0); at != none;) {
      const word* const c = layout_.chunk(at);
      size_t here = 0;
      for (u32 i = 0; i < entries(); ++i) here += F::key_of(c[i]) != layout_type::no_key;
      ++counts[here < n ? here : n - 1];
      at = layout_type::link_of(c[layout_.slots - 2]);
    }
  }

 private:
  uint32_t entries() const { return layout_.slots - 2; }  // of a chunk
  static gpuhash_status corrupt(const std::string& wrong, gpuhash_error* err) {
    return host->fail(err, GPUHASH_CORRUPT, "an invariant is broken: %s", wrong.c_str());
  }
  void copy_blocks() override {
    layout_type& t = layout_;
    copy(t.top, 1);
    copy(t.taken, 1);
    for (uint32_t s = 0; s < t.segments; ++s) {
      const uint32_t end = s + 1 < t.segments ? t.first[s + 1] : t.capacity;
      copy(t.segment[s], uint64_t(end - t.first[s]) * t.slots);
    }
  }

  layout_type layout_;
};

}  // namespace gpuhash
