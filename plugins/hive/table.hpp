// hive for the kit: its storage, growth and contraction (shape.hpp: how large; linear_hashing.hpp: how segments are split).
//
// The table is one block of memory: buckets, stash, locks, filter, note. It grows by a rebuild into another block. But from
// 16 segments on, on CUDA from 64, a growing table lies in reserved address space (region.hpp), and grows and shrinks by
// linear hashing: a segment is split in two, or two are merged, and all others stay as they are.
//
// While a round goes on, segments that are split have half the load of those that are not. The latter have to hold their
// keys all the same, so that the table begins to split before they are full, and has split all when they would be:
//
//   keys of a segment that is not split   7/8 of max_load_factor ...  max_load_factor
//   segments that are split               none                   ...  all
//
// So each batch that adds keys pays for the splits that these keys need: about 8 pairs are read, and half of them moved,
// for each key that is added.
//
// Where keys have gone, so do segments: while the keys that are there fill less than the option `contract` of the slots, a
// batch that erases merges as many as bring it back there. Growth begins again at a load that is at least 1.5 times as high,
// so that no segment is merged and split in turn. The table never goes below what was asked for when it was created, or by
// reserve.
#pragma once
#include <math.h>

#include <atomic>

#include "inspect.hpp"
#include "layout.hpp"
#include "libgpuhash/kit/table.hpp"
#include "linear_hashing.hpp"
#include "shape.hpp"

namespace gpuhash {

// A batch that erases counts the keys that are left once so many elements have been erased, by the slots.
inline constexpr uint64_t look_share = tunable("look_share", 64u);
// Growth begins at this load or a higher one, by max_load_factor: at the end of a round (limit_of). The load at which
// segments are merged stays far below it.
inline constexpr double most_contract = 0.3;

template <class F>
class hive final : public table {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  using layout_type = hive_table<F>;

 public:
  hive(const setup& s, const hive_options& o)
      : table(s, {.line_cells = 64 / sizeof(word)}),
        options_(o),
        sizes_(o, config_.max_load_factor, on_cuda(), config_.grow && !o.whole && !has_resource() && has_space()) {
    // Up to this load a key finds a place in a bucket or in the stash, unless keys are chosen so that it does not.
    storage_fits_surely(config_.max_load_factor <= 0.9 && o.stash >= 1.0 / 64 && o.evictions >= eviction_rounds);
  }
  ~hive() override {
    dismantle([this](void* stream) {
      drop(storage_, stream);
      range_.reset();
    });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    const hive_shape wanted = sizes_.shape_for(config_.capacity);
    std::unique_ptr<reserved_range> wide = reserve_for(wanted);
    scratch fresh(*this, wide ? 0 : wanted.bytes, stream);
    if (const gpuhash_status s = lay_out(wanted, config_.capacity, fresh, wide.get(), &layout_, stream, err)) return s;
    shape_ = wanted;
    fresh.swap(storage_), range_.swap(wide);
    if (const gpuhash_status s = write_used({}, 0, stream, err)) return s;
    rebuilds_ = 0;
    asked_for_ = config_.capacity;
    count_erased_from(0);
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  // Is there address space to be had?
  bool has_space() const { return !on_cuda() || (api_.reserve_space && engine_->segments); }
  const void* layout() const override { return &layout_; }
  void tune(request& q) const override { q.parts = options_.parts; }
  uint64_t cells() const override { return shape_.slots + shape_.stash; }
  uint64_t slots() const override { return shape_.slots + shape_.stash; }
  uint64_t bytes() const override { return range_ ? range_->bytes() : storage_.bytes; }
  uint64_t limit() const override { return sizes_.limit_of(shape_); }
  bool smaller_for(uint64_t keys) const override {
    return range_ && !for_rebuild(keys) ? sizes_.segments_for(shape_, keys) < shape_.segments()
                                        : sizes_.shape_for(keys).bytes < bytes();
  }
  // As many more segments as the keys need, but at least some.
  uint64_t next_limit(uint64_t most, uint64_t least) const override {
    if (!range_) return 2 * most;
    const uint64_t step = on_cuda() ? least_step_on_cuda : least_step;
    const uint64_t wanted = sizes_.segments_for(shape_, least), now = shape_.segments() + shape_.level() / step + 1;
    return sizes_.limit_of(sizes_.with_segments(shape_, wanted < now ? now : wanted));
  }
  std::unique_ptr<inspector> make_inspector() override { return std::make_unique<hive_inspector<F>>(*this, layout_); }

  // Is a table for so many keys to be rebuilt, rather than to grow or shrink where it is?
  bool for_rebuild(uint64_t keys) const {
    return sizes_.shape_for(keys).segments() < sizes_.least_stretched() ||
           sizes_.segments_for(shape_, keys) > range_->most_segments;
  }

  layout_type bind(const hive_shape& s, void* memory, void* side) const {
    auto* const at = static_cast<unsigned char*>(memory);
    layout_type t{};
    t.slots = reinterpret_cast<word*>(at);
    t.stash = reinterpret_cast<word*>(at + s.stash_at);
    t.locks = reinterpret_cast<u32*>(at + s.locks_at);
    t.filter = reinterpret_cast<u32*>(at + s.filter_at);
    t.note = reinterpret_cast<u32*>(at + s.note_at);
    t.side = static_cast<word*>(side);
    t.seed = config_.seed;
    t.slot_bits = uint32_t(__builtin_ctzll(options_.bucket)), t.ways = uint32_t(options_.ways);
    t.functions = options_.functions;
    t.evictions = uint32_t(options_.evictions), t.commits = options_.commits;
    hive_sizes<F>::bind_sizes(s, t);
    hive_sizes<F>::bind_stash(s.stash, t);
    return t;
  }
  layout_type bind(const hive_shape& s, const reserved_range& g, void* side) const {
    layout_type t = bind(s, nullptr, side);
    t.slots = reinterpret_cast<word*>(g.slots->get());
    t.stash = reinterpret_cast<word*>(g.stash->get());
    t.locks = reinterpret_cast<u32*>(g.locks->get() + reserved_range::note_bytes);
    t.filter = reinterpret_cast<u32*>(g.filter->get());
    t.note = reinterpret_cast<u32*>(g.locks->get());
    return t;
  }
  // Address space for a table of this shape, with memory, and for what it may grow to; NULL: a block will do, or has to.
  std::unique_ptr<reserved_range> reserve_for(const hive_shape& s) const {
    if (!sizes_.stretches() || s.segments() < sizes_.least_stretched() || s.bytes == 0) return nullptr;
    if (enough_memory(s.bytes, nullptr)) return nullptr;
    const uint64_t most_bytes = s.bytes > most_reserved / 16 ? 16 * s.bytes : most_reserved;
    uint64_t factor = most_bytes / s.bytes;
    factor = factor < reserve_factor ? factor : reserve_factor;
    for (; factor >= least_reserve_factor; factor /= 2) {  // a limit on address space may allow less
      const hive_shape most = sizes_.with_segments(s, s.segments() * factor);
      if (most.bytes == 0) continue;
      auto all = std::make_unique<reserved_range>();
      for (auto* const part : {&all->slots, &all->filter, &all->locks, &all->stash}) *part = some_region();
      all->most_segments = most.segments();
      const size_t page = on_cuda() ? 0 : size_t(2) << 20;  // resize() rounds up to these
      if (all->slots->reserve(most.stash_at + page) && all->filter->reserve(most.buckets() + page) &&
          all->locks->reserve(reserved_range::note_bytes + most.locks * sizeof(u32) + page) &&
          all->stash->reserve(most.stash * sizeof(word) + page)) {
        const bool has_memory = all->have(s) && all->stash->resize(s.stash * sizeof(word));
        return has_memory ? std::move(all) : nullptr;
      }
    }
    return nullptr;
  }
  std::unique_ptr<region> some_region() const {
    if (on_cuda()) return std::make_unique<device_region>(api_);
    return std::make_unique<host_region>();
  }
  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    const int e = range_ ? empty(*range_, shape_, layout_.stash_slots, stream)
                         : api_.fill(storage_.p, 0xff, storage_.bytes, stream);
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }
  int empty(const reserved_range& g, const hive_shape& s, uint64_t stash, void* stream) const {
    int e = api_.fill(g.slots->get(), 0xff, s.stash_at, stream);
    if (!e) e = api_.fill(g.filter->get(), 0xff, s.buckets(), stream);
    if (!e) e = api_.fill(g.locks->get(), 0xff, reserved_range::note_bytes + s.locks * sizeof(u32), stream);
    if (!e && stash) e = api_.fill(g.stash->get(), 0xff, stash * sizeof(word), stream);
    return e;
  }

  // Empty storage: in memory of s.bytes, or in address space.
  gpuhash_status lay_out(const hive_shape& s, uint64_t keys, const scratch& fresh, reserved_range* wide,
                         layout_type* out, void* stream, gpuhash_error* err) {
    if (s.bytes == 0)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "capacity %llu is too large for this table's layout; ask for fewer keys",
                        (unsigned long long)keys);
    if (wide) {
      if (const int e = empty(*wide, s, s.stash, stream)) return fault(err, e, "initialising the table");
      *out = bind(s, *wide, head()->side);
      return GPUHASH_OK;
    }
    if (!fresh) return no_memory(err, fresh.bytes());
    if (const int e = api_.fill(fresh.get(), 0xff, fresh.bytes(), stream))
      return fault(err, e, "initialising the table");
    *out = bind(s, fresh.get(), head()->side);
    return GPUHASH_OK;
  }

  // Move every live pair into storage for so many keys. The old storage stays until the new one is complete.
  gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    if (keys < uint64_t(now.live)) keys = uint64_t(now.live);
    const bool in_place = range_ && !for_rebuild(keys);
    uint64_t moved = 0;
    if (!in_place)
      if (const gpuhash_status s = move_to(keys, uint64_t(now.live), &moved, stream, err)) return s;
    if (keys < asked_for_) asked_for_ = keys;  // by shrink
    if (in_place) return resize_where_it_is(sizes_.segments_for(shape_, keys), now, stream, err);
    count_erased_from(uint64_t(now.live));
    return write_used(now, moved, stream, err);
  }
  gpuhash_status move_to(uint64_t keys, uint64_t live, uint64_t* moved, void* stream, gpuhash_error* err) {
    const hive_shape wanted = sizes_.shape_for(keys), before = shape_;
    const layout_type old_layout = layout_;
    std::unique_ptr<reserved_range> wide = reserve_for(wanted);
    scratch fresh(*this, wide ? 0 : wanted.bytes, stream);
    layout_type now{};
    if (const gpuhash_status s = lay_out(wanted, keys, fresh, wide.get(), &now, stream, err)) return s;
    layout_ = now, shape_ = wanted;
    const uint64_t n = old_layout.cells();
    gpuhash_status s;
    try {
      s = move_pairs({&old_layout, n, n < rebuild_step ? n : rebuild_step, live, GPUHASH_OP_INSERT, false}, moved,
                     stream, err);
    } catch (...) {
      layout_ = old_layout, shape_ = before;
      if (wide) api_.wait(stream);
      throw;
    }
    if (s == GPUHASH_OK)
      fresh.swap(storage_), range_.swap(wide);  // what was there before goes with these
    else
      layout_ = old_layout, shape_ = before;
    if (s != GPUHASH_OK && wide) api_.wait(stream);  // the memory of address space goes in the order of no stream
    return s;
  }

  // ---- linear hashing -------------------------------------------------------------------------------------------------

  // Have so many segments, or pack all of them if there are so many. Fails only before it begins, unless the device does.
  // Segments whose pairs would not fit into fewer stay as they are.
  gpuhash_status resize_where_it_is(uint64_t wanted, const totals& now, void* stream, gpuhash_error* err) {
    if (wanted > shape_.segments() && !range_->have(sizes_.with_segments(shape_, wanted))) {
      range_->have(shape_);
      return no_memory(err, sizes_.with_segments(shape_, wanted).bytes);
    }
    resize_in_place<F> resizing(*this, sizes_, layout_, shape_, *range_, wanted, stream);
    if (!resizing.complete()) {
      range_->have(shape_);
      return no_memory(err, resizing.bytes());
    }
    int64_t used = now.used;
    const int e = resizing.run(&used);
    if (e) {
      poisoned_ = true;  // some segments may be split, and others not
      return fault(err, e, "splitting or merging segments");
    }
    range_->have(shape_);  // less than before, or as much
    count_erased_from(uint64_t(now.live));
    return write_used(now, uint64_t(used), stream, err);
  }
  // ---- contraction ----------------------------------------------------------------------------------------------------

  gpuhash_status make_room(uint64_t keys, void* stream, gpuhash_error* err) override {
    // Dead slots go to other keys as they are.
    const gpuhash_status s = keys <= limit() ? gpuhash_status(GPUHASH_OK) : resize(keys, stream, err);
    if (s == GPUHASH_OK && keys > asked_for_) asked_for_ = keys;
    return s;
  }

  double contract_below() const {  // keys by slots; 0: never
    const double most = most_contract * config_.max_load_factor;
    return !config_.grow ? 0 : options_.contract < most ? options_.contract : most;
  }
  // Called when the counters were read, and say `live` keys: so many elements may be erased until they are read again.
  // A table that is as small as it may be does not read them before it has grown.
  void count_erased_from(uint64_t live) {
    if (contract_below() == 0 || !smaller_for(asked_for_)) {
      read_after_ = ~uint64_t(0);
      return;
    }
    const auto low = uint64_t(contract_below() * double(slots()));
    const uint64_t some = slots() / look_share + 1;
    erased_ = 0;
    read_after_ = live > low + some ? live - low : some;
  }
  gpuhash_status erased(uint64_t n, void* stream, gpuhash_error* err) override {
    if (erased_.fetch_add(n) + n < read_after_) return GPUHASH_OK;
    exclusive hold(*this, stream);
    if (hold.error) return fault(err, hold.error, "waiting for running batches");
    if (erased_ < read_after_ || poisoned_) return GPUHASH_OK;  // another thread has read them
    totals now{};
    // Nothing orders this after launches of graphs that are alive, whose totals cannot be read then.
    if (refuse_to_move(GPUHASH_FULL, nullptr)) return GPUHASH_OK;
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    gpuhash_status s = GPUHASH_OK;
    changes();
    if (double(now.live) < contract_below() * double(slots()))
      s = without_throwing(err, [&] { return contract(now, stream, err); });
    count_erased_from(uint64_t(now.live));
    return poisoned_ ? s : gpuhash_status(GPUHASH_OK);  // for lack of memory: when the counters are read again
  }
  gpuhash_status contract(const totals& now, void* stream, gpuhash_error* err) {
    uint64_t keys = uint64_t(now.live) + uint64_t(now.live) / 2;
    if (keys < asked_for_) keys = asked_for_;
    if (!smaller_for(keys)) return GPUHASH_OK;
    if (!range_ || for_rebuild(keys)) return resize_down(keys, stream, err);
    const double of_segment = double(shape_.segment_buckets * options_.bucket) * contract_below();
    const auto low = uint64_t(double(now.live) / of_segment) + 1;
    const uint64_t least = sizes_.segments_for(shape_, keys), wanted = low > least ? low : least;
    return wanted < shape_.segments() ? resize_where_it_is(wanted, now, stream, err) : gpuhash_status(GPUHASH_OK);
  }

  const hive_options options_;
  const hive_sizes<F> sizes_;
  layout_type layout_{};
  hive_shape shape_;
  block storage_;
  std::unique_ptr<reserved_range> range_;  // where it lies if it does; then storage_ is nothing
  uint64_t asked_for_ = 0;                 // keys, when it was created or by reserve
  kit_atomic<uint64_t> erased_{0};         // elements of batches that may erase, since the counters were read
  kit_atomic<uint64_t> read_after_{0};
};

}  // namespace gpuhash
