// The check, the statistics and the histogram of a slab_hash, with the tests of its invariants (layout.hpp).
#pragma once
#include <algorithm>

#include "layout.hpp"
#include "libgpuhash/kit/inspector.hpp"

namespace gpuhash {

template <class F>
class slab_inspector final : public inspector {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  using layout_type = slab_table<F>;

 public:
  slab_inspector(table_context& c, const layout_type& t)
      : inspector(c, base_words(t) * sizeof(word) + (t.tails ? chains(t) * sizeof(u32) : 0) +
                         uint64_t(t.heap.supers) * (units_bytes(t) + bitmap_words(t) * sizeof(u32))),
        layout_(t) {}

  gpuhash_status check(uint64_t* live, uint64_t* used, gpuhash_error* err) override {
    seen_.assign(size_t(layout_.heap.capacity()), false);
    for (uint64_t b = 0; b < chains(layout_); ++b)
      if (const char* what = broken(b))
        return host->fail(err, GPUHASH_CORRUPT, "bucket %llu breaks an invariant: %s", (unsigned long long)b, what);
    *live = live_, *used = used_;
    const heap_use heap = count_units();
    if (heap.taken == linked_) return GPUHASH_OK;
    return host->fail(err, GPUHASH_CORRUPT, "%llu slabs are taken and %llu are on chains (S5)",
                      (unsigned long long)heap.taken, (unsigned long long)linked_);
  }
  gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error*) override {
    const layout_type& t = layout_;
    uint64_t slabs = 0, live = 0, longest = 0;
    for (uint64_t b = 0; b < chains(t); ++b) {
      uint64_t here = 0;
      each_slab(b, [&](const word* slab, u32) {
        ++here;
        for (uint32_t i = 0; i + 1 < t.slab_slots; ++i) live += is_live<F>(slab[i]);
      });
      slabs += b < t.buckets ? here : here - 1;  // the base slabs of the two side chains are not counted
      longest = here > longest ? here : longest;
    }
    const heap_use heap = count_units();
    const double B = double(t.buckets), M = double(t.slab_slots - 1);
    out.push_back({"buckets", B});
    out.push_back({"slab_slots", M});
    out.push_back({"slabs", double(slabs)});
    out.push_back({"beta", double(live) / (M * B)});                           // average slab count, n / (M B)
    out.push_back({"utilization", double(live) / ((M + 1) * double(slabs))});  // the paper's; x = y = one word
    out.push_back({"chain_max", double(longest)});
    out.push_back({"heap_units", double(t.heap.capacity())});
    out.push_back({"heap_taken", double(heap.taken)});
    out.push_back({"heap_full_blocks", double(heap.full_blocks)});
    out.push_back({"super_blocks", double(t.heap.supers)});
    return GPUHASH_OK;
  }
  void distances(size_t n, uint64_t* counts) override {  // buckets by their number of slabs
    for (uint64_t b = 0; b < layout_.buckets; ++b) {
      size_t here = 0;
      each_slab(b, [&](const word*, u32) { ++here; });
      ++counts[here < n ? here : n - 1];
    }
  }

 private:
  static uint64_t chains(const layout_type& t) { return uint64_t(t.buckets) + 2; }  // those of the side keys, too
  static uint64_t base_words(const layout_type& t) { return chains(t) * t.slab_slots; }
  static uint64_t units_bytes(const layout_type& t) {
    return uint64_t(t.heap.blocks) * block_units << t.heap.unit_bits;
  }
  static uint64_t bitmap_words(const layout_type& t) { return uint64_t(t.heap.blocks) * block_words; }
  void copy_blocks() override {
    layout_type& t = layout_;
    copy(t.base, base_words(t));
    if (t.tails) copy(t.tails, chains(t));
    t.heap.light = 0;
    for (uint32_t s = 0; s < t.heap.supers; ++s) {
      copy(t.heap.units[s], units_bytes(t));
      copy(t.heap.bitmaps[s], bitmap_words(t));
    }
  }

  struct heap_use {
    uint64_t taken = 0;        // units
    uint64_t full_blocks = 0;  // memory blocks with no free unit
  };
  heap_use count_units() const {
    heap_use sum;
    for (uint32_t s = 0; s < layout_.heap.supers; ++s)
      for (uint32_t b = 0; b < layout_.heap.blocks; ++b) {
        uint32_t here = 0;
        for (uint32_t w = 0; w < block_words; ++w)
          here += uint32_t(__builtin_popcount(layout_.heap.bitmaps[s][b * block_words + w]));
        sum.taken += here, sum.full_blocks += here == block_units;
      }
    return sum;
  }

  // Chains as they are: slab(at, handle) for each slab of bucket b; handle is no_unit for the base slab. False: a link
  // names no unit of the heap, or the chain has more slabs than there are.
  template <class Each>
  bool each_slab(uint64_t b, Each each) const {
    const layout_type& t = layout_;
    const word* at = t.bucket(typename F::index(b));
    u32 handle = no_unit;
    for (uint64_t n = 0; n <= t.heap.capacity(); ++n) {
      each(at, handle);
      handle = layout_type::next_of(at[t.slab_slots - 1]);
      if (handle == no_unit) return true;
      if (!t.heap.owns(handle)) return false;
      at = t.slab(handle);
    }
    return false;
  }

  // What is wrong with the chain of bucket b, or NULL; then its keys and slabs are counted.
  const char* broken(uint64_t b) {
    const char* wrong = nullptr;
    bool ended = false;
    keys_.clear();
    const u32 tail = layout_.duplicates ? *layout_.tail(index(b)) : no_unit;
    bool tail_seen = tail == no_unit;
    const bool whole = each_slab(b, [&](const word* slab, u32 handle) {
      if (handle != no_unit) {
        tail_seen |= handle == tail;
        if (const char* what = link(handle)) wrong = what;
        if (ended) wrong = "a slab follows an empty slot (S2)";
      }
      for (uint32_t i = 0; i + 1 < layout_.slab_slots; ++i)
        if (const char* what = slot(b, slab[i], &ended)) wrong = what;
    });
    if (!tail_seen) wrong = "its tail is a slab of another chain, or of none (S6)";
    if (!whole) wrong = "a link leads nowhere, or in a circle (S4)";
    std::sort(keys_.begin(), keys_.end());
    if (std::adjacent_find(keys_.begin(), keys_.end()) != keys_.end()) wrong = "a key has two slots (S3)";
    return wrong;
  }
  const char* link(u32 handle) {
    const slab_heap& heap = layout_.heap;
    const uint32_t super = handle >> 24, block = handle >> 10 & (slab_heap::max_blocks - 1);
    const uint64_t unit = uint64_t(super) * heap.blocks * block_units + (handle & (slab_heap::super_units - 1));
    const bool twice = seen_[size_t(unit)];
    seen_[size_t(unit)] = true, ++linked_;
    if (!(heap.bitmap(super, block)[handle >> 5 & 31] >> (handle & 31) & 1)) return "a linked slab is not taken (S5)";
    return twice ? "a slab is on two chains (S5)" : nullptr;
  }
  const char* slot(uint64_t b, word w, bool* ended) {
    if (F::key_of(w) == empty_key<key>) {
      *ended = true;
      return nullptr;
    }
    const bool alive = is_live<F>(w);
    live_ += alive, ++used_;
    const char* const after_end = *ended ? "a key follows an empty slot (S2)" : nullptr;
    if (!alive && !F::has_value) return after_end;
    const key k = alive ? F::key_of(w) : key(F::value_of(w));
    if (!layout_.duplicates) keys_.push_back(k);
    const bool its_own = b < layout_.buckets ? uint64_t(layout_.home(k)) == b : k == layout_type::side_key;
    return its_own ? after_end : "a key lies in another key's bucket";
  }

  layout_type layout_;
  std::vector<bool> seen_;  // units on the chains so far
  std::vector<key> keys_;   // of a chain
  uint64_t live_ = 0, used_ = 0, linked_ = 0;
};

}  // namespace gpuhash
