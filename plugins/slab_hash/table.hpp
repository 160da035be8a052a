// slab_hash for the kit: its storage, and growth (units.hpp: how much heap keys take; inspect.hpp: check and statistics).
//
// Two ways to grow. Super blocks are added to the heap when it runs out, without touching what is there. And when the
// average slab count passes max_load_factor the buckets are doubled by a rebuild, unless the option `buckets` fixed them
// (the paper's table, which never has to be rebuilt, only gets slower). Where the heap can have no more super blocks, the
// table is rebuilt with a larger one.
#pragma once
#include <math.h>

#include "inspect.hpp"
#include "layout.hpp"
#include "libgpuhash/kit/slab_heap_owner.hpp"
#include "libgpuhash/kit/table.hpp"
#include "units.hpp"

namespace gpuhash {

constexpr uint64_t slab_traits = traits_of_kinds(all_kinds) | GPUHASH_TRAIT_GROW | GPUHASH_TRAIT_FLUSH;

struct slab_options {
  uint64_t buckets = 0;      // 0: from capacity and utilization
  double utilization = 0.6;  // memory utilisation aimed at, by the paper's formula
  uint32_t slab_bytes = 128;
  uint32_t light = 0;
  uint32_t duplicates = 0;
  uint32_t hash = slab_murmur;
  uint32_t tile = 0;
  uint32_t parts = 0;  // parts_choice
};

template <class F>
class slab_hash_table final : public table {
  using word = typename F::word;
  using key = typename F::key;
  using layout_type = slab_table<F>;
  static constexpr uint32_t most_blocks = slab_heap::max_blocks;

 public:
  slab_hash_table(const setup& s, const slab_options& o)
      : table(s, facts(o)),
        options_(o),
        heap_(api_, {this, take_for_heap, give_for_heap}),
        data_slots_(o.slab_bytes / sizeof(word) - 1),
        needs_{data_slots_, o.hash == slab_murmur && !o.duplicates, o.duplicates != 0, config_.grow != 0, on_cuda()},
        beta_(beta_for(o.utilization, data_slots_)) {
    use_estimate(units_);
  }
  ~slab_hash_table() override {
    dismantle([this](void* stream) {
      heap_.drop(stream);
      drop(base_, stream);
    });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    if (const gpuhash_status s = make_header(config_.stream, err)) return s;
    if (const gpuhash_status s = place(config_.capacity, 0, config_.stream, err)) return s;
    if (const gpuhash_status s = write_used({}, 0, config_.stream, err)) return s;
    rebuilds_ = 0;
    if (const int e = api_.wait(config_.stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  static table_facts facts(const slab_options& o) {
    table_facts f;
    f.chains = true;
    f.traits = o.duplicates ? slab_traits : slab_traits & ~uint64_t{GPUHASH_TRAIT_MULTI};
    f.refused_kinds = o.duplicates ? 0 : 1u << insert_multi;
    f.refusal = "insert_multi needs a table that takes duplicates; create it with the option duplicates=1";
    f.exhausted = {GPUHASH_NO_MEMORY, "slab: all of a table of",
                   "slots are taken; reserve more and retry those whose status is 3"};
    return f;
  }
  static void* take_for_heap(void* self, size_t bytes, void* stream) {
    return static_cast<slab_hash_table*>(self)->take_memory(bytes, stream);
  }
  static void give_for_heap(void* self, void* p, size_t bytes, void* stream) {
    static_cast<slab_hash_table*>(self)->give_memory(p, bytes, stream);
  }

  const void* layout() const override { return &layout_; }
  uint64_t cells() const override { return layout_.buckets + 2; }
  uint64_t slots() const override {  // those of the two side chains, too
    return (layout_.buckets + 2 + layout_.heap.capacity()) * data_slots_;
  }
  uint64_t bytes() const override { return base_.bytes + heap_.bytes(); }
  uint64_t limit() const override { return limit_; }
  uint64_t capacity(uint64_t live) override {  // as many keys as there are units for
    const uint64_t units = layout_.heap.capacity(), buckets = layout_.buckets;
    if (units != fits_.units || buckets != fits_.buckets)
      fits_ = {units, buckets, needs_.keys_for(units, buckets, limit_ < slots() ? limit_ : slots())};
    return live > fits_.keys ? live : fits_.keys;
  }
  std::unique_ptr<inspector> make_inspector() override { return std::make_unique<slab_inspector<F>>(*this, layout_); }
  void tune(request& q) const override {
    q.tile = options_.tile;
    q.parts = options_.parts;
  }

  // ---- storage --------------------------------------------------------------------------------------------------------

  // Fresh, empty storage for so many keys, with at least so many units.
  gpuhash_status place(uint64_t keys, double least_units, void* stream, gpuhash_error* err) {
    const uint64_t n = keys < 64 ? 64 : keys;
    const double wanted = options_.buckets ? double(options_.buckets) : ceil(double(n) / (beta_ * data_slots_));
    if (wanted >= double(typename F::index(~typename F::index(0))) - 4 || wanted > 1e15)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "capacity %llu needs %.0f buckets, which is too many for this key width; ask for fewer keys",
                        (unsigned long long)keys, wanted);
    const uint64_t buckets = uint64_t(wanted);
    const uint64_t bucket_bytes = options_.slab_bytes + (options_.duplicates ? sizeof(uint32_t) : 0);  // and its tail
    const size_t base_bytes = size_t((buckets + 2) * bucket_bytes);
    const double needed = needs_.units_for(n, buckets),
                 blocks = ceil((needed > least_units ? needed : least_units) / block_units);
    const double supers_needed = ceil(blocks / most_blocks);
    if (supers_needed >= slab_heap::max_supers)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "capacity %llu needs more slabs than a handle can name; ask for more buckets",
                        (unsigned long long)keys);
    // Where super blocks are added ahead of need they are a quarter each of what there is at first.
    const bool quarters = on_cuda() && config_.grow && !options_.light && supers_needed < 4 && blocks >= 4;
    const uint32_t supers = quarters ? 4 : uint32_t(supers_needed);
    const uint32_t per_super = uint32_t(ceil(blocks / supers));
    heap_.drop(stream);
    // A contiguous range cannot be added to, so it is made with room to spare.
    heap_.shape(uint32_t(__builtin_ctz(options_.slab_bytes)), per_super, options_.light,
                options_.light ? supers + 1 : slab_heap::max_supers, config_.seed);
    if (const gpuhash_status lacking = enough_memory(base_bytes + heap_.bytes_of(supers), err)) return lacking;
    scratch fresh(*this, base_bytes, stream);
    if (!fresh) return no_memory(err, fresh.bytes());
    if (const int e = api_.fill(fresh.get(), 0xff, fresh.bytes(), stream))
      return fault(err, e, "initialising the table");

    for (uint32_t i = 0; i < (options_.light ? 1 : supers); ++i)
      if (const int e = heap_.add_super(stream)) return no_super(e, "making a super block", err);

    fresh.swap(base_);
    layout_ = {};
    layout_.base = static_cast<word*>(base_.p);
    layout_.tails = tails_behind(layout_.base, buckets);
    layout_.seed = config_.seed;
    layout_.buckets = typename F::index(buckets);
    layout_.slab_slots = data_slots_ + 1;
    layout_.duplicates = options_.duplicates;
    layout_.hash_kind = options_.hash;
    const u64 drawn = mix(u64(config_.seed));  // a seed of 7 must not multiply by 8
    layout_.paper_a = uint32_t(drawn % (paper_prime - 1)) + 1, layout_.paper_b = uint32_t((drawn >> 32) % paper_prime);
    take_heap();
    const double most = double(buckets) * data_slots_ * config_.max_load_factor;
    capacity_ = n;
    limit_ = options_.buckets ? ~uint64_t(0) >> 2 : most > double(n) ? uint64_t(most) : n;
    return GPUHASH_OK;
  }

  gpuhash_status no_super(int e, const char* doing, gpuhash_error* err) {
    return e == api_.out_of_memory && !on_cuda() ? no_memory(err, heap_.bytes_of(1)) : fault(err, e, doing);
  }
  u32* tails_behind(word* base, uint64_t buckets) const {
    return options_.duplicates ? reinterpret_cast<u32*>(base + (buckets + 2) * (data_slots_ + 1)) : nullptr;
  }

  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    int e = api_.fill(base_.p, 0xff, base_.bytes, stream);
    if (!e) e = heap_.wipe(stream);
    layout_.heap = heap_.heap();
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }

  // As many buckets as now for limit() keys, and in proportion for more; or else a rebuild in place would add some. A small
  // table's proportion says nothing of a much larger one.
  gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    if (!options_.buckets && keys > capacity_ && keys / 4 <= limit_) {
      const double scaled = double(keys) * double(capacity_) / double(limit_);
      keys = scaled > double(capacity_) ? uint64_t(scaled) : capacity_;
    }
    return rebuild(keys, 0, stream, err);
  }

  // Move every live pair into storage for so many keys, with at least so many units. What the option `buckets` fixed stays.
  gpuhash_status rebuild(uint64_t keys, double least_units, void* stream, gpuhash_error* err) {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    if (keys < uint64_t(now.live)) keys = uint64_t(now.live);
    const double most_units = double(now.live) / data_slots_ + 64;  // whatever the keys are
    if (options_.light && least_units < most_units) least_units = most_units;
    const layout_type old_layout = layout_;
    const uint64_t old_limit = limit_;
    const uint64_t old_capacity = capacity_;
    const uint64_t old_sure = sure_;
    scratch old_base(*this, 0,
                     stream);  // what is left in here at the end is given back: the old storage, or a failed new one
    old_base.swap(base_);
    slab_heap_owner old_heap(api_, {this, take_for_heap, give_for_heap});
    old_heap.swap(heap_);
    rebuilding_ = true;
    gpuhash_status status;
    uint64_t moved = 0;
    const uint32_t kind = options_.duplicates ? GPUHASH_OP_INSERT_MULTI : GPUHASH_OP_INSERT;
    const uint64_t old_cells = uint64_t(old_layout.buckets) + 2;
    try {
      status = place(keys, least_units, stream, err);
      if (status == GPUHASH_OK)
        status = move_pairs({&old_layout, old_cells, old_cells, uint64_t(now.live), kind, true}, &moved, stream, err);
    } catch (const std::bad_alloc&) {  // of the heap's records; the old storage must not go with this frame
      status = host->fail(err, GPUHASH_NO_MEMORY, "no memory for the table's own records");
    }
    rebuilding_ = false;
    if (status != GPUHASH_OK) {
      old_base.swap(base_);
      heap_.swap(old_heap);
      layout_ = old_layout;
      limit_ = old_limit;
      capacity_ = old_capacity;
      sure_ = old_sure;
    }
    old_heap.drop(stream);
    if (status == GPUHASH_OK) status = write_used(now, moved, stream, err);
    return status;
  }

  // ---- room for a batch -----------------------------------------------------------------------------------------------

  // The estimate for the units of the heap, which does not surely have one for each slot.
  class estimate_of_units final : public room_estimate {
   public:
    explicit estimate_of_units(slab_hash_table& t) : table_(t) {}
    bool fits_surely(uint64_t) override { return table_.taken() <= table_.sure_; }
    gpuhash_status preallocate(void* stream, gpuhash_error* err) override { return table_.add_ahead(stream, err); }

   private:
    slab_hash_table& table_;
  };
  // Super blocks for what has been claimed, before it can run out.
  gpuhash_status add_ahead(void* stream, gpuhash_error* err) {
    const uint32_t there = heap_.heap().supers;
    gpuhash_status s = GPUHASH_OK;
    while (s == GPUHASH_OK && taken() > sure_ && heap_.can_add()) s = add_supers(1, stream, err);
    fill_evenly(there, needs_.most_units(used(), layout_.buckets));
    return s;
  }
  // From here on draw so many of the blocks from super block `there` on that these come to be as full as those before them,
  // of which so many units are taken, when the heap is as full as it should be. Draws among all would mostly meet full ones.
  void fill_evenly(uint32_t there, double units_taken) {
    const uint32_t supers = heap_.heap().supers;
    if (supers == there || !there || options_.light) return;
    const double of_super = well_filled * double(layout_.heap.capacity()) / supers;
    const double to_come = of_super * supers - units_taken, fresh = of_super * (supers - there);
    heap_.draw(there, fresh < to_come ? fresh / to_come : 1);
    layout_.heap = heap_.heap();
  }

  gpuhash_status more_room(void* stream, gpuhash_error* err) override {
    if (!heap_.can_add()) {
      if (rebuilding_)
        return host->fail(
            err, GPUHASH_NO_MEMORY,
            "the slab heap was full while the table was rebuilt; reserve more keys, or use allocator=slab_alloc");
      return rebuild(options_.buckets ? 0 : capacity_, 2 * double(layout_.heap.capacity()), stream, err);
    }
    // As many super blocks again as there are, so that a growing table asks rarely; fewer if there is no memory for
    // them.
    const uint32_t there = heap_.heap().supers;
    const double full = double(layout_.heap.capacity());
    const gpuhash_status s = add_supers(there ? there : 1, stream, err);
    fill_evenly(there, full);
    return s == GPUHASH_NO_MEMORY && heap_.heap().supers > there ? gpuhash_status(GPUHASH_OK) : s;
  }
  gpuhash_status add_supers(uint32_t n, void* stream, gpuhash_error* err) {
    gpuhash_status s = GPUHASH_OK;
    for (uint32_t i = 0; s == GPUHASH_OK && i < n && heap_.can_add(); ++i)
      if (const int e = heap_.add_super(stream)) s = no_super(e, "adding a super block", err);
    take_heap();
    return s;
  }
  void take_heap() {
    layout_.heap = heap_.heap();
    sure_ = on_cuda() ? needs_.sure_slots(layout_.heap.capacity(), layout_.buckets) : 0;
  }
  // reserve: more buckets, unless the table has enough or the option fixed them; and enough units. All or nothing.
  gpuhash_status make_room(uint64_t keys, void* stream, gpuhash_error* err) override {
    if (keys > limit_) return rebuild(keys, 0, stream, err);
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    // Slots of erased keys are not free for others: a table that may not grow is flushed before it is made larger.
    const uint64_t live = uint64_t(now.live);
    if (keys <= live) return GPUHASH_OK;
    const uint64_t all = uint64_t(now.used) + (keys - live);
    const bool fits = all <= limit_ && needs_.units_for(all, layout_.buckets) <= double(layout_.heap.capacity());
    if (!config_.grow && now.used > now.live && !fits) {
      if (const gpuhash_status s = compact(0, ~uint64_t(0), stream, err)) return s;
      if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    }
    if (keys < uint64_t(now.used)) keys = uint64_t(now.used);
    if (keys > limit_) return rebuild(keys, 0, stream, err);
    const double units = needs_.units_for(keys, layout_.buckets);
    const double missing = units - double(layout_.heap.capacity());
    if (missing <= 0) return GPUHASH_OK;
    const double supers = ceil(missing / (double(layout_.heap.blocks) * block_units));
    const uint32_t there = heap_.heap().supers;
    if (supers > double(heap_.most_supers() - there))
      return rebuild(options_.buckets ? keys : capacity_, units, stream, err);
    if (const gpuhash_status lacking = enough_memory(heap_.bytes_of(uint32_t(supers)), err)) return lacking;
    const gpuhash_status s = add_supers(uint32_t(supers), stream, err);
    if (s != GPUHASH_NO_MEMORY) return s;
    heap_.drop_after(there, stream);
    take_heap();
    return s;
  }
  // Smaller by more than the difference that chance and whole super blocks make?
  bool smaller_for(uint64_t keys) const override {
    const uint64_t n = keys < 64 ? 64 : keys;
    const double buckets = options_.buckets ? double(options_.buckets) : ceil(double(n) / (beta_ * data_slots_));
    const double blocks = ceil(needs_.units_for(n, uint64_t(buckets)) / block_units);
    const double needed = (buckets + 2 + blocks * block_units) * options_.slab_bytes;
    return needed * 1.02 < double(bytes());
  }
  gpuhash_status compact(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) override {
    const uint64_t all = cells();
    if (first > all || (count != ~uint64_t(0) && count > all - first))
      return host->fail(err, GPUHASH_INVALID_ARGUMENT, "buckets %llu to %llu do not exist: the table has %llu",
                        (unsigned long long)first, (unsigned long long)(first + count), (unsigned long long)all);
    const uint64_t end = count == ~uint64_t(0) ? all : first + count;
    heap_.draw_all();  // what comes back lies anywhere
    layout_.heap = heap_.heap();
    int e = engine_->flush(&layout_, first, end, head()->sum, threads(), stream);
    totals now{};
    if (e) return fault(err, e, "flushing");
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    forget_claims(uint64_t(now.used));
    return GPUHASH_OK;
  }

  slab_options options_;
  layout_type layout_{};
  block base_;
  slab_heap_owner heap_;
  uint32_t data_slots_;
  slab_needs needs_;
  double beta_;  // average slab count at `capacity_` keys
  uint64_t limit_ = 0;
  uint64_t capacity_ = 0;  // keys that the buckets were chosen for
  struct {
    uint64_t units = 0, buckets = 0, keys = 0;  // so many keys fit into such a table
  } fits_;
  bool rebuilding_ = false;
  uint64_t sure_ = 0;  // CUDA: as sure_slots() says of the heap as it is
  estimate_of_units units_{*this};
};

}  // namespace gpuhash
