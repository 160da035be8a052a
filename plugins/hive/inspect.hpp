// The check, the statistics and the histogram of a hive, with the tests of its invariants (layout.hpp).
#pragma once
#include "layout.hpp"
#include "libgpuhash/kit/inspector.hpp"

namespace gpuhash {

template <class F>
class hive_inspector final : public inspector {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  using layout_type = hive_table<F>;

 public:
  hive_inspector(table_context& c, const layout_type& t)
      : inspector(c, t.cells() * sizeof(word) + locks(t) * sizeof(u32) + filter_words(t) * sizeof(u32)), layout_(t) {}

  gpuhash_status check(uint64_t* live, uint64_t* used, gpuhash_error* err) override {
    for (uint64_t i = 0; i < layout_.cells(); ++i) {
      if (const char* what = broken(i))
        return host->fail(err, GPUHASH_CORRUPT, "slot %llu breaks an invariant: %s", (unsigned long long)i, what);
      *live += is_live<F>(*layout_.cell(i));
      *used += !is_empty<F>(*layout_.cell(i));
    }
    for (uint64_t i = 0; i < locks(layout_); ++i)
      if (!(layout_.locks[i] & 1))
        return host->fail(err, GPUHASH_CORRUPT, "lock %llu breaks an invariant: it was left locked",
                          (unsigned long long)i);
    return GPUHASH_OK;
  }
  gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error*) override {
    const layout_type& t = layout_;
    uint64_t live = 0, outside = 0, stashed = 0, dead = 0, full_buckets = 0, bits = 0;
    for (uint64_t i = 0; i < t.cells(); ++i) {
      const word w = *t.cell(i);
      dead += is_dead<F>(w);
      if (!is_live<F>(w)) continue;
      ++live;
      stashed += i >= t.bucket_cells();
      outside += i >= t.bucket_cells() || i >> t.slot_bits != uint64_t(t.home(F::key_of(w)));
    }
    for (uint64_t b = 0; b < t.buckets(); ++b) {
      bool full = true;
      for (uint32_t i = 0; i < 1u << t.slot_bits; ++i) full &= !is_empty<F>(t.bucket(index(b))[i]);
      full_buckets += full;
      bits += uint64_t(__builtin_popcount(~t.filter[b >> 2] >> (b & 3) * 8 & 0xff));
    }
    const double n = live ? double(live) : 1, buckets = double(t.buckets());
    out.push_back({"bucket", double(1u << t.slot_bits)});
    out.push_back({"buckets", buckets});
    out.push_back({"segments", double(t.segments())});
    out.push_back({"full_buckets", double(full_buckets) / buckets});
    out.push_back({"outside", double(outside) / n});  // of the keys, outside of their homes
    out.push_back({"dead", double(dead)});
    out.push_back({"stash_slots", double(t.stash_slots)});
    out.push_back({"stashed", double(stashed)});
    out.push_back({"filter_bits", double(bits) / (8 * buckets)});  // of all, how many say that a key was outside
    return GPUHASH_OK;
  }
  void distances(size_t n, uint64_t* counts) override {  // keys by their bucket; then stash
    for (uint64_t i = 0; i < layout_.cells(); ++i) {
      const word w = *layout_.cell(i);
      if (!is_live<F>(w)) continue;
      const key k = F::key_of(w);
      const size_t far =
          i >= layout_.bucket_cells() ? layout_.ways : way_of(k, layout_.home(k), i >> layout_.slot_bits);
      ++counts[far < n ? far : n - 1];
    }
  }

 private:
  static uint64_t locks(const layout_type& t) { return uint64_t(t.lock_mask) + 1; }
  static uint64_t filter_words(const layout_type& t) { return (t.buckets() + 3) / 4; }
  void copy_blocks() override {
    copy(layout_.slots, layout_.bucket_cells());
    copy(layout_.stash, layout_.stash_slots);
    copy(layout_.locks, locks(layout_));
    copy(layout_.filter, filter_words(layout_));
    copy(layout_.note, 1);
  }

  // The way by which k lies in bucket b; ways if it does not belong there.
  uint32_t way_of(key k, index home, uint64_t b) const {
    uint32_t way = 0;
    while (way < layout_.ways && uint64_t(layout_.bucket_of(k, home, way)) != b) ++way;
    return way;
  }

  // Tests H2, H3, H6, H7 for every live slot, and the reach of the stash; NULL if they hold. If two slots have one key
  // (H7), one of them is not in its home, or both are. So a key outside of its home is looked for in all of its
  // buckets, and a key of the stash along its path there.
  const char* broken(uint64_t cell) const {
    const layout_type& t = layout_;
    const word w = *t.cell(cell);
    if (!is_live<F>(w)) return nullptr;
    const key k = F::key_of(w);
    const index home = t.home(k);
    const uint64_t b = cell >> t.slot_bits;
    const bool stashed = cell >= t.bucket_cells();
    if (!stashed && way_of(k, home, b) == t.ways) return "a key lies in a bucket that is not its own";
    const bool at_home = !stashed && b == uint64_t(home);
    bool home_is_full = true;
    uint32_t copies = 0;
    for (uint32_t way = 0; way < (at_home ? 1 : t.ways); ++way) {
      const word* const bucket = t.bucket(t.bucket_of(k, home, way));
      for (uint32_t i = 0; i < 1u << t.slot_bits; ++i) {
        copies += F::key_of(bucket[i]) == k;
        if (way) continue;
        if (F::has_value && bucket[i] == tombstone<F>(k)) return "a live key has a tombstone in its home (H6)";
        home_is_full &= !is_empty<F>(bucket[i]);
      }
    }
    bool reached = false;
    for (uint32_t i = 0, at = stashed ? t.stash_start(k) : 0; stashed && i < t.stash_path;
         ++i, at = (at + 1) % t.stash_slots) {
      if (is_empty<F>(t.stash[at])) break;
      copies += F::key_of(t.stash[at]) == k;
      reached |= t.stash + at == t.cell(cell);
    }
    copies += stashed && !reached;  // this slot
    if (copies != 1) return "a key has two slots (H7)";
    if (!at_home && !home_is_full) return "a key lies outside of its home, which has an empty slot (H2)";
    if (stashed && !reached) return "a key of the stash cannot be found there";
    if (stashed && *t.note == ~0u) return "the stash holds a key, and the note says that it never did";
    if (!at_home && *t.filter_of(home) & t.filter_bit(k, home))
      return "a key lies outside of its home, and the filter does not say so (H3)";
    return nullptr;
  }

  layout_type layout_;
};

}  // namespace gpuhash
