// Linear hashing in hive: the segments of a table are split in two or merged where they are, and its stash is fitted to
// their number. The table is held exclusively.
#pragma once
#include <memory>
#include <new>

#include "libgpuhash/kit/context.hpp"
#include "region.hpp"
#include "segments.hpp"
#include "shape.hpp"
#include "steps.hpp"

namespace gpuhash {

// The memory of a table that grows where it is. The note lies before the locks.
struct reserved_range {
  std::unique_ptr<region> slots, filter, locks, stash;
  uint64_t most_segments = 0;
  size_t bytes() const { return slots->bytes() + filter->bytes() + locks->bytes() + stash->bytes(); }
  // Memory for the slots, the filter and the locks of this shape.
  bool have(const hive_shape& s) {
    return slots->resize(s.stash_at) && filter->resize(s.buckets()) &&
           locks->resize(note_bytes + s.locks * sizeof(u32));
  }
  static constexpr size_t note_bytes = 128;
};

// Has memory for its work, on CUDA of the device, before anything happens. Its functions return 0 or the device's error
// number, and add to *used how many more slots are used.
template <class F>
class resize_in_place {
  using word = typename F::word;
  using layout_type = hive_table<F>;

 public:
  resize_in_place(table_context& t, const hive_sizes<F>& sizes, layout_type& layout, hive_shape& shape,
                  reserved_range& range, uint64_t wanted, void* stream)
      : table_(t),
        sizes_(sizes),
        layout_(layout),
        shape_(shape),
        range_(range),
        stream_(stream),
        wanted_(wanted),
        most_(shape.segments() > wanted ? shape.segments() : wanted),
        at_once_(at_once(shape.segments(), wanted)),
        result_(new (std::nothrow) segment_result[most_]),
        merged_(new (std::nothrow) bool[most_]),
        work_(t, t.on_cuda() ? at_once_ * t.engine_->segments->work_bytes(&layout) : 0, stream),
        results_(t, t.on_cuda() ? most_ * sizeof(segment_result) : 0, stream),
        stash_(t, t.on_cuda() ? sizeof(stash_result) : 0, stream) {}
  bool complete() const { return result_ && merged_ && work_ && results_ && stash_; }
  uint64_t bytes() const { return work_.bytes() + results_.bytes() + stash_.bytes(); }

  int run(int64_t* used) {
    const uint64_t wanted = wanted_;
    int e = wanted == shape_.segments() ? repack_all(used) : 0;
    while (!e && shape_.segments() < wanted) e = split_up_to(wanted, used);
    const bool merges = shape_.segments() > wanted;
    for (bool more = merges; !e && more && shape_.segments() > wanted;) e = merge_down_to(wanted, used, &more);
    // Segments that were merged have no dead slots any more; the others may have too many for what the table is now.
    if (!e && merges && uint64_t(*used) > sizes_.limit_of(shape_)) e = repack_all(used);
    uint64_t left = 0;
    if (!e) e = drain_stash(used, &left);
    if (!e) e = fit_stash(left, used);
    return e;
  }

 private:
  // CUDA: the segments that are worked on at a time, no more than the step needs.
  static uint64_t at_once(uint64_t now, uint64_t wanted) {
    const uint64_t n = wanted > now ? wanted - now : wanted < now ? now - wanted : now;
    return n < segments_at_once ? n : segments_at_once;
  }

  // A step, in parallel; result_[i] says what became of its segment i.
  int run_step(segment_step step, int64_t* used) {
    const uint64_t n = step.count;
    if (!table_.on_cuda()) {
      run_on_threads(step);
    } else {
      int e = 0;
      auto* const results = results_.template as<segment_result>();
      for (uint64_t done = 0; done < n && !e; done += step.count) {
        step.count = n - done < at_once_ ? n - done : at_once_;
        e = table_.engine_->segments->step(&layout_, step, work_.get(), results + done, stream_);
        step.first += step.count;
      }
      if (!e && n) e = table_.api_.copy(result_.get(), results, n * sizeof(segment_result), stream_);
      if (!e) e = table_.api_.wait(stream_);
      if (e) return e;
    }
    for (uint64_t i = 0; i < n; ++i) *used += result_[i].change;
    return 0;
  }
  void run_on_threads(const segment_step& step) const {
    in_pieces(table_.threads(), step.count, tunable_cut({1, 1, 64}), [&](size_t begin, size_t end) {
      const segment_worker<F> worker(layout_);
      typename segment_worker<F>::buffers b(layout_);
      for (size_t i = begin; i < end; ++i) result_[i] = worker.run(step, step.first + i, b);
    });
  }
  int repack_all(int64_t* used) { return run_step({segment_step::repack, 0, shape_.segments()}, used); }

  // Splits segments up to the end of this round, in memory that is there.
  int split_up_to(uint64_t wanted, int64_t* used) {
    const uint64_t level = shape_.level(), to = wanted < 2 * level ? wanted : 2 * level;
    const hive_shape larger = sizes_.with_segments(shape_, to);
    if (larger.locks > shape_.locks)
      if (const int e = table_.api_.fill(layout_.locks + shape_.locks, 0xff,
                                         (larger.locks - shape_.locks) * sizeof(u32), stream_))
        return e;
    const segment_step step = {segment_step::split, shape_.split, to - shape_.segments(), level,
                               uint64_t(1) << shape_.round};
    const int e = run_step(step, used);
    shape_ = larger, hive_sizes<F>::bind_sizes(shape_, layout_);
    return e;
  }

  // Merges segments down to the beginning of this round. *more false: no more can be merged.
  int merge_down_to(uint64_t wanted, int64_t* used, bool* more) {
    *more = false;
    if (shape_.split == 0 && shape_.round == 0) return 0;
    const uint64_t round = shape_.split ? shape_.round : shape_.round - 1, level = shape_.base << round;
    const uint64_t first = wanted < level ? 0 : wanted - level, last = shape_.segments() - level;
    if (const int e = run_step({segment_step::merge, first, last - first, level}, used)) return e;
    // The segments that are split are the first ones. Those before one that could not be merged are split again.
    uint64_t left = last;
    while (left > first && result_[left - 1 - first].done) --left;
    for (uint64_t s = first; s < left; ++s) merged_[s] = result_[s - first].done;
    for (uint64_t s = first, end; s < left; s = end) {
      for (end = s; end < left && merged_[end] == merged_[s];) ++end;
      const segment_step step = {segment_step::split, s, end - s, level, uint64_t(1) << round};
      if (merged_[s])
        if (const int e = run_step(step, used)) return e;
    }
    shape_ = sizes_.with_segments(shape_, level + left), hive_sizes<F>::bind_sizes(shape_, layout_);
    *more = left == first;
    return 0;
  }

  // P3. *left: so many pairs stay in the stash; if there are none, it is empty.
  int drain_stash(int64_t* used, uint64_t* left) {
    stash_result r;
    if (layout_.stash_slots == 0) return 0;
    if (!table_.on_cuda()) {
      *used += segment_worker<F>(layout_).drain_stash(left);
      return 0;
    }
    if (const int e =
            run_on_stash(&r, [&](stash_result* to) { return table_.engine_->segments->drain(&layout_, to, stream_); }))
      return e;
    *used += r.change;
    *left = r.left;
    if (r.left || !r.dead) return 0;
    *used -= int64_t(r.dead);
    return empty_stash(layout_.stash_slots, stream_);
  }
  int empty_stash(uint64_t slots, void* stream) {
    const int e = slots ? table_.api_.fill(layout_.stash, 0xff, slots * sizeof(word), stream) : 0;
    return e ? e : table_.api_.fill(layout_.note, 0xff, sizeof(u32), stream);
  }
  // CUDA: what a kernel says of the stash.
  template <class Kernel>
  int run_on_stash(stash_result* r, Kernel kernel) {
    auto* const there = stash_.template as<stash_result>();
    int e = table_.api_.fill(there, 0, sizeof(*r), stream_);
    if (!e) e = kernel(there);
    if (!e) e = table_.api_.copy(r, there, sizeof(*r), stream_);
    return e ? e : table_.api_.wait(stream_);
  }

  // Let the stash have the size that goes with the table, if all that it holds finds a place there.
  int fit_stash(uint64_t left, int64_t* used) {
    const uint64_t before = layout_.stash_slots, wanted = shape_.stash;
    if (before == wanted) return 0;
    const uint64_t both = before < wanted ? wanted : before;
    shape_.stash = before;
    const table_context::scratch old(table_, left ? before * sizeof(word) : 0, stream_);
    if (!old || !range_.stash->resize(both * sizeof(word))) return 0;
    int e = left ? table_.api_.copy(old.get(), layout_.stash, before * sizeof(word), stream_) : 0;
    if (!e) e = empty_stash(both, stream_);
    hive_sizes<F>::bind_stash(wanted, layout_);
    stash_result r;
    if (!e && left) e = refill_stash(old.get(), before, &r);
    if (e) return e;
    if (r.left) {
      hive_sizes<F>::bind_stash(before, layout_);
      e = table_.api_.copy(layout_.stash, old.get(), before * sizeof(word), stream_);
      if (!e) e = table_.api_.fill(layout_.note, 0, sizeof(u32), stream_);
    } else {
      shape_.stash = wanted;
      *used += r.change - int64_t(r.dead);
    }
    if (!e) e = table_.api_.wait(stream_);
    if (!e) range_.stash->resize(shape_.stash * sizeof(word));
    return e;
  }
  int refill_stash(const void* old, uint64_t slots, stash_result* r) {
    if (table_.on_cuda())
      return run_on_stash(
          r, [&](stash_result* to) { return table_.engine_->segments->restash(&layout_, old, slots, to, stream_); });
    const auto* const words = static_cast<const word*>(old);
    for (uint64_t i = 0; i < slots; ++i) {
      r->dead += !is_empty<F>(words[i]);
      if (!is_live<F>(words[i])) continue;
      const bool fits = segment_worker<F>(layout_).put_in_stash(words[i]);
      r->change += fits;
      r->left += !fits;
    }
    return 0;
  }

  table_context& table_;
  const hive_sizes<F>& sizes_;
  layout_type& layout_;
  hive_shape& shape_;
  reserved_range& range_;
  void* const stream_;
  const uint64_t wanted_;                           // segments
  const uint64_t most_;                             // segments, before or after
  const uint64_t at_once_;                          // for so many of them there is work memory
  const std::unique_ptr<segment_result[]> result_;  // of each segment of the last step
  const std::unique_ptr<bool[]> merged_;
  const table_context::scratch work_, results_, stash_;
};

}  // namespace gpuhash
