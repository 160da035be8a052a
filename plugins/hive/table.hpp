// hive for the kit: sizes, growth, statistics, and the tests of its invariants (layout.hpp).
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

#include "layout.hpp"
#include "libgpuhash/kit/table.hpp"
#include "region.hpp"
#include "segments.hpp"
#include "steps.hpp"

namespace gpuhash {

struct hive_options {
  uint64_t bucket = 8;                   // slots
  uint64_t ways = 2;                     // buckets of a key
  double stash = 1.0 / 64;               // slots of the stash by slots of the buckets; 0: none
  uint64_t evictions = eviction_rounds;  // 0: none
  uint32_t commits = 0;                  // hive_table::commits
  uint32_t whole = 0;                    // 1: the table is one segment
  uint32_t functions = 0;                // hive_table::functions
  double contract = 0.25;                // load below which a growing table gives memory back; 0: never
  uint32_t parts = 0;                    // parts_choice
};

inline constexpr uint32_t stash_path_slots = 128;  // where in the stash a key may lie
// Tests have small segments, few of them, little address space and steps of few segments.
#ifndef GPUHASH_HIVE_SEGMENT
#define GPUHASH_HIVE_SEGMENT (64 << 10)
#endif
#ifndef GPUHASH_HIVE_SEGMENTS
#define GPUHASH_HIVE_SEGMENTS 16
#endif
#ifndef GPUHASH_HIVE_RESERVE
#define GPUHASH_HIVE_RESERVE 4096
#endif
#ifndef GPUHASH_HIVE_STEP
#define GPUHASH_HIVE_STEP 512
#endif
inline constexpr uint64_t segment_bytes = GPUHASH_HIVE_SEGMENT;
// Fewer would only make keys of one unable to use another's room.
inline constexpr uint64_t least_segments = GPUHASH_HIVE_SEGMENTS;
static_assert(least_segments > 1);  // a table of one segment is whole: its buckets are no multiple of a filter's word
// Fewer would take more memory on CUDA than they need: each region of address space gets it in pieces of 2 MiB.
inline constexpr uint64_t least_on_cuda = 4 * least_segments;
inline constexpr double first_share = 0.875;  // of max_load_factor, at which splitting begins
// A step splits at least one in so many segments. On CUDA, where nobody wants to wait often, and a step that keeps all of the
// device busy takes as long as one of a single segment, it is more of them.
inline constexpr uint64_t least_step = 128, least_step_on_cuda = 16;
inline constexpr uint64_t segments_at_once = GPUHASH_HIVE_STEP;  // CUDA: for which there is work memory
// Address space that is reserved, by what the table takes at first; but no more than most_reserved, or 16 times as much.
inline constexpr uint64_t reserve_factor = GPUHASH_HIVE_RESERVE, least_reserve_factor = 4;
inline constexpr uint64_t most_reserved = uint64_t(256) << 30;
// A batch that erases looks how many keys are left once so many elements have, by the slots.
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
      : table(s), options_(o), stretches_(config_.grow && !o.whole && !has_resource() && has_space()) {}
  ~hive() override {
    dismantle([this](void* stream) {
      drop(storage_, stream);
      ground_.reset();
    });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    const shape wanted = shape_for(config_.capacity);
    std::unique_ptr<ground> wide = reserve_for(wanted);
    scratch fresh(*this, wide ? 0 : wanted.bytes, stream);
    if (const gpuhash_status s = lay_out(wanted, config_.capacity, fresh, wide.get(), &layout_, stream, err)) return s;
    shape_ = wanted;
    fresh.swap(storage_), ground_.swap(wide);
    if (const gpuhash_status s = write_used({}, 0, stream, err)) return s;
    rebuilds_ = 0;
    asked_for_ = config_.capacity;
    look_again(0);
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  // Is there address space to be had?
  bool has_space() const { return !on_cuda() || (api_.reserve_space && engine_->segments); }
  uint64_t least_stretched() const { return on_cuda() ? least_on_cuda : least_segments; }

  // How large everything is.
  struct shape {
    uint64_t base = 0, round = 0, split = 0, segment_buckets = 0, stash = 0, locks = 0;
    uint64_t slots = 0;                                                        // of the buckets
    size_t stash_at = 0, locks_at = 0, filter_at = 0, note_at = 0, bytes = 0;  // bytes 0: too many
    uint64_t level() const { return base << round; }
    uint64_t segments() const { return level() + split; }
    uint64_t buckets() const { return segments() * segment_buckets; }
  };
  // Where a table lies that grows where it is. Before the locks there is the note.
  struct ground {
    std::unique_ptr<region> slots, filter, locks, stash;
    uint64_t most_segments = 0;
    size_t bytes() const { return slots->bytes() + filter->bytes() + locks->bytes() + stash->bytes(); }
  };
  static constexpr size_t note_bytes = 128;

  const void* layout() const override { return &layout_; }
  void tune(request& q) const override { q.parts = options_.parts; }
  uint64_t cells() const override { return shape_.slots + shape_.stash; }
  uint32_t line_cells() const override { return 64 / sizeof(word); }
  uint64_t slots() const override { return shape_.slots + shape_.stash; }
  uint64_t bytes() const override { return ground_ ? ground_->bytes() : storage_.bytes; }
  uint64_t limit() const override { return limit_of(shape_); }
  bool smaller_for(uint64_t keys) const override {
    return ground_ && !for_rebuild(keys) ? segments_for(keys) < shape_.segments() : shape_for(keys).bytes < bytes();
  }
  // Just as many segments more as the keys need, but some.
  uint64_t next_limit(uint64_t most, uint64_t least) const override {
    if (!ground_) return 2 * most;
    const uint64_t step = on_cuda() ? least_step_on_cuda : least_step;
    const uint64_t wanted = segments_for(least), now = shape_.segments() + shape_.level() / step + 1;
    return limit_of(with_segments(shape_, wanted < now ? now : wanted));
  }
  // Up to this load a key finds a place in a bucket or in the stash, unless keys are chosen so that it does not.
  bool certain(uint64_t) override {
    return config_.max_load_factor <= 0.9 && options_.stash >= 1.0 / 64 && options_.evictions >= eviction_rounds;
  }

  uint64_t limit_of(const shape& s) const {
    const bool stretches = stretches_ && s.segments() >= least_stretched();
    const double done = double(s.split) / double(s.level());  // of the round
    const double share = stretches ? (first_share + (1 - first_share) * done) / (1 + done) : 1;
    const uint64_t n = uint64_t(double(s.slots) * config_.max_load_factor * share);
    return n ? n : 1;
  }

  shape shape_for(uint64_t keys) const {
    shape s;
    if (keys < 64) keys = 64;
    double wanted = ceil(double(keys) / config_.max_load_factor / double(options_.bucket));
    const uint64_t most = segment_bytes / (options_.bucket * sizeof(word));  // buckets of a segment
    const bool whole = options_.whole || wanted < double(least_segments * most);
    const bool stretches = stretches_ && wanted >= double(least_stretched() * most);
    if (stretches) wanted = ceil(wanted / first_share);
    if (wanted > 1e15) return s;
    const uint64_t buckets = uint64_t(wanted) < least_buckets ? uint64_t(least_buckets) : uint64_t(wanted);
    const uint64_t segments = whole ? 1 : buckets / most;
    while (stretches && segments >> (s.round + 1) >= least_stretched()) ++s.round;
    s.base = segments >> s.round;
    const uint64_t unit = whole ? 1 : 4;  // of buckets: no two segments share a word of the filter
    s.segment_buckets = (buckets + s.segments() - 1) / s.segments();
    for (s.segment_buckets = (s.segment_buckets + unit - 1) / unit * unit;; s.segment_buckets += unit) {
      measure(s);
      if (limit_of(s) >= keys) return s;  // or else it has been rounded down
    }
  }
  // What follows from the number of segments and their size.
  void measure(shape& s) const {
    const uint64_t n = s.buckets();
    s.slots = n * options_.bucket, s.stash = 0, s.bytes = 0;
    if (n >= uint64_t(index(~index(0)))) return;
    if (options_.stash > 0) {
      const double part = ceil(double(s.slots) * options_.stash / 64) * 64;
      s.stash = part > double(1u << 31) ? uint64_t(1) << 31 : uint64_t(part);
    }
    for (s.locks = 64; s.locks < n / 8 && s.locks < 1u << 31;) s.locks *= 2;
    place_parts(s);
  }
  // Where everything lies in a block.
  static void place_parts(shape& s) {
    s.stash_at = s.slots * sizeof(word);
    s.locks_at = s.stash_at + s.stash * sizeof(word);
    s.filter_at = s.locks_at + s.locks * sizeof(u32);
    s.note_at = s.filter_at + (s.buckets() + 3) / 4 * 4;
    s.bytes = (s.note_at + sizeof(u32) + 127) / 128 * 128;
  }
  shape with_segments(shape s, uint64_t n) const {
    for (s.round = 0; s.base << (s.round + 1) <= n;) ++s.round;
    s.split = n - s.level();
    measure(s);
    return s;
  }
  // The fewest segments of the table whose limit reaches so many keys.
  uint64_t segments_for(uint64_t keys) const {
    const double of_segment = double(shape_.segment_buckets * options_.bucket) * config_.max_load_factor;
    uint64_t level = shape_.base;
    while (double(level) * of_segment < double(keys)) level *= 2;
    const double done = (double(keys) / (double(level) * of_segment) - first_share) / (1 - first_share);
    uint64_t n = done <= 0 ? level : level + uint64_t(ceil(done * double(level)));
    while (limit_of(with_segments(shape_, n)) < keys) ++n;
    return n;
  }
  // Is a table for so many keys to be rebuilt, rather than to grow or shrink where it is?
  bool for_rebuild(uint64_t keys) const {
    return shape_for(keys).segments() < least_stretched() || segments_for(keys) > ground_->most_segments;
  }

  layout_type bind(const shape& s, void* memory, void* side) const {
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
    bind_sizes(s, t);
    bind_stash(s.stash, t);
    return t;
  }
  layout_type bind(const shape& s, const ground& g, void* side) const {
    layout_type t = bind(s, nullptr, side);
    t.slots = reinterpret_cast<word*>(g.slots->get());
    t.stash = reinterpret_cast<word*>(g.stash->get());
    t.locks = reinterpret_cast<u32*>(g.locks->get() + note_bytes);
    t.filter = reinterpret_cast<u32*>(g.filter->get());
    t.note = reinterpret_cast<u32*>(g.locks->get());
    return t;
  }
  static void bind_sizes(const shape& s, layout_type& t) {
    t.base = index(s.base), t.round = uint32_t(s.round), t.split = index(s.split);
    t.segment_buckets = index(s.segment_buckets);
    t.lock_mask = uint32_t(s.locks - 1);
  }
  static void bind_stash(uint64_t slots, layout_type& t) {
    t.stash_slots = uint32_t(slots);
    t.stash_path = t.stash_slots < stash_path_slots ? t.stash_slots : stash_path_slots;
  }

  // Address space for a table of this shape, with memory, and for what it may grow to; NULL: a block will do, or has to.
  std::unique_ptr<ground> reserve_for(const shape& s) const {
    if (!stretches_ || s.segments() < least_stretched() || s.bytes == 0) return nullptr;
    if (enough_memory(s.bytes, nullptr)) return nullptr;
    const uint64_t most_bytes = s.bytes > most_reserved / 16 ? 16 * s.bytes : most_reserved;
    uint64_t factor = most_bytes / s.bytes;
    factor = factor < reserve_factor ? factor : reserve_factor;
    for (; factor >= least_reserve_factor; factor /= 2) {  // a limit on address space may allow less
      const shape most = with_segments(s, s.segments() * factor);
      if (most.bytes == 0) continue;
      auto all = std::make_unique<ground>();
      for (auto* const part : {&all->slots, &all->filter, &all->locks, &all->stash}) *part = some_region();
      all->most_segments = most.segments();
      const size_t page = on_cuda() ? 0 : size_t(2) << 20;  // resize() rounds up to these
      if (all->slots->reserve(most.stash_at + page) && all->filter->reserve(most.buckets() + page) &&
          all->locks->reserve(note_bytes + most.locks * sizeof(u32) + page) &&
          all->stash->reserve(most.stash * sizeof(word) + page)) {
        const bool has_memory = have(*all, s) && all->stash->resize(s.stash * sizeof(word));
        return has_memory ? std::move(all) : nullptr;
      }
    }
    return nullptr;
  }
  std::unique_ptr<region> some_region() const {
    if (on_cuda()) return std::make_unique<device_region>(api_);
    return std::make_unique<host_region>();
  }
  // Memory for the slots, the filter and the locks of this shape.
  static bool have(ground& g, const shape& s) {
    return g.slots->resize(s.stash_at) && g.filter->resize(s.buckets()) &&
           g.locks->resize(note_bytes + s.locks * sizeof(u32));
  }

  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    const int e = ground_ ? empty(*ground_, shape_, layout_.stash_slots, stream)
                          : api_.fill(storage_.p, 0xff, storage_.bytes, stream);
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }
  int empty(const ground& g, const shape& s, uint64_t stash, void* stream) const {
    int e = api_.fill(g.slots->get(), 0xff, s.stash_at, stream);
    if (!e) e = api_.fill(g.filter->get(), 0xff, s.buckets(), stream);
    if (!e) e = api_.fill(g.locks->get(), 0xff, note_bytes + s.locks * sizeof(u32), stream);
    if (!e && stash) e = api_.fill(g.stash->get(), 0xff, stash * sizeof(word), stream);
    return e;
  }

  // Empty storage: in memory of s.bytes, or in address space.
  gpuhash_status lay_out(const shape& s, uint64_t keys, const scratch& fresh, ground* wide, layout_type* out,
                         void* stream, gpuhash_error* err) {
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
    const bool in_place = ground_ && !for_rebuild(keys);
    uint64_t moved = 0;
    if (!in_place)
      if (const gpuhash_status s = move_to(keys, uint64_t(now.live), &moved, stream, err)) return s;
    if (keys < asked_for_) asked_for_ = keys;  // by shrink
    if (in_place) return stretch(segments_for(keys), now, stream, err);
    look_again(uint64_t(now.live));
    return write_used(now, moved, stream, err);
  }
  gpuhash_status move_to(uint64_t keys, uint64_t live, uint64_t* moved, void* stream, gpuhash_error* err) {
    const shape wanted = shape_for(keys), before = shape_;
    const layout_type old_layout = layout_;
    std::unique_ptr<ground> wide = reserve_for(wanted);
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
      fresh.swap(storage_), ground_.swap(wide);  // what was there before goes with these
    else
      layout_ = old_layout, shape_ = before;
    if (s != GPUHASH_OK && wide) api_.wait(stream);  // the memory of address space goes in the order of no stream
    return s;
  }

  // ---- linear hashing -------------------------------------------------------------------------------------------------

  // Have so many segments, or pack all of them if there are so many. Fails only before it begins, unless the device does.
  // Segments whose pairs would not fit into fewer stay as they are.
  gpuhash_status stretch(uint64_t wanted, const totals& now, void* stream, gpuhash_error* err) {
    if (wanted > shape_.segments() && !have(*ground_, with_segments(shape_, wanted))) {
      have(*ground_, shape_);
      return no_memory(err, with_segments(shape_, wanted).bytes);
    }
    workshop w(*this, wanted, stream);
    if (!w.complete()) {
      have(*ground_, shape_);
      return no_memory(err, w.bytes());
    }
    int64_t used = now.used;
    const int e = stretch_with(w, wanted, &used);
    if (e) {
      poisoned_ = true;  // some segments may be split, and others not
      return fault(err, e, "splitting or merging segments");
    }
    have(*ground_, shape_);  // less than before, or as much
    look_again(uint64_t(now.live));
    return write_used(now, uint64_t(used), stream, err);
  }
  // The rest that follows returns 0 or the device's error number, and adds to *used how many more slots are used.
  struct workshop;
  int stretch_with(workshop& w, uint64_t wanted, int64_t* used) {
    int e = wanted == shape_.segments() ? repack_all(w, used) : 0;
    while (!e && shape_.segments() < wanted) e = split_up_to(w, wanted, used);
    const bool merges = shape_.segments() > wanted;
    for (bool more = merges; !e && more && shape_.segments() > wanted;) e = merge_down_to(w, wanted, used, &more);
    // Segments that were merged have no dead slots any more; the others may have too many for what the table is now.
    if (!e && merges && uint64_t(*used) > limit_of(shape_)) e = repack_all(w, used);
    uint64_t left = 0;
    if (!e) e = drain_stash(w, used, &left);
    if (!e) e = fit_stash(w, left, used);
    return e;
  }

  // What a stretch works with: on CUDA, memory of the device. It is had before anything happens.
  struct workshop {
    workshop(hive& t, uint64_t wanted, void* a_stream)
        : stream(a_stream),
          most(t.shape_.segments() > wanted ? t.shape_.segments() : wanted),
          at_once(t.at_once(wanted)),
          result(new (std::nothrow) segment_result[most]),
          merged(new (std::nothrow) bool[most]),
          work(t, t.on_cuda() ? at_once * t.engine_->segments->work_bytes(&t.layout_) : 0, a_stream),
          results(t, t.on_cuda() ? most * sizeof(segment_result) : 0, a_stream),
          stash(t, t.on_cuda() ? sizeof(stash_result) : 0, a_stream) {}
    bool complete() const { return result && merged && work && results && stash; }
    uint64_t bytes() const { return work.bytes() + results.bytes() + stash.bytes(); }

    void* const stream;
    const uint64_t most;                             // segments
    const uint64_t at_once;                          // for so many of them there is work memory
    const std::unique_ptr<segment_result[]> result;  // of each segment of the last step
    const std::unique_ptr<bool[]> merged;
    const scratch work, results, stash;
  };

  // Segments that a stretch works on at a time, on CUDA: no more than it has to.
  uint64_t at_once(uint64_t wanted) const {
    const uint64_t now = shape_.segments();
    const uint64_t n = wanted > now ? wanted - now : wanted < now ? now - wanted : now;
    return n < segments_at_once ? n : segments_at_once;
  }

  // A step, in parallel; w.result[i] says what became of its segment i.
  int run_step(workshop& w, segment_step step, int64_t* used) {
    const uint64_t n = step.count;
    if (!on_cuda()) {
      run_on_threads(w, step);
    } else {
      int e = 0;
      auto* const results = w.results.template as<segment_result>();
      for (uint64_t done = 0; done < n && !e; done += step.count) {
        step.count = n - done < w.at_once ? n - done : w.at_once;
        e = engine_->segments->step(&layout_, step, w.work.get(), results + done, w.stream);
        step.first += step.count;
      }
      if (!e && n) e = api_.copy(w.result.get(), results, n * sizeof(segment_result), w.stream);
      if (!e) e = api_.wait(w.stream);
      if (e) return e;
    }
    for (uint64_t i = 0; i < n; ++i) *used += w.result[i].change;
    return 0;
  }
  void run_on_threads(workshop& w, const segment_step& step) const {
    in_pieces(threads(), step.count, tunable_cut({1, 1, 64}), [&](size_t begin, size_t end) {
      const segment_worker<F> worker(layout_);
      typename segment_worker<F>::buffers b(layout_);
      for (size_t i = begin; i < end; ++i) w.result[i] = worker.run(step, step.first + i, b);
    });
  }
  int repack_all(workshop& w, int64_t* used) { return run_step(w, {segment_step::repack, 0, shape_.segments()}, used); }

  // Up to the end of this round, in memory that is there.
  int split_up_to(workshop& w, uint64_t wanted, int64_t* used) {
    const uint64_t level = shape_.level(), to = wanted < 2 * level ? wanted : 2 * level;
    const shape larger = with_segments(shape_, to);
    if (larger.locks > shape_.locks)
      if (const int e =
              api_.fill(layout_.locks + shape_.locks, 0xff, (larger.locks - shape_.locks) * sizeof(u32), w.stream))
        return e;
    const segment_step step = {segment_step::split, shape_.split, to - shape_.segments(), level,
                               uint64_t(1) << shape_.round};
    const int e = run_step(w, step, used);
    shape_ = larger, bind_sizes(shape_, layout_);
    return e;
  }

  // Down to the beginning of this round. *more false: that is as far as it goes.
  int merge_down_to(workshop& w, uint64_t wanted, int64_t* used, bool* more) {
    *more = false;
    if (shape_.split == 0 && shape_.round == 0) return 0;
    const uint64_t round = shape_.split ? shape_.round : shape_.round - 1, level = shape_.base << round;
    const uint64_t first = wanted < level ? 0 : wanted - level, last = shape_.segments() - level;
    if (const int e = run_step(w, {segment_step::merge, first, last - first, level}, used)) return e;
    // The segments that are split are the first ones. Those before one that could not be merged are split again.
    uint64_t left = last;
    while (left > first && w.result[left - 1 - first].done) --left;
    for (uint64_t s = first; s < left; ++s) w.merged[s] = w.result[s - first].done;
    for (uint64_t s = first, end; s < left; s = end) {
      for (end = s; end < left && w.merged[end] == w.merged[s];) ++end;
      const segment_step step = {segment_step::split, s, end - s, level, uint64_t(1) << round};
      if (w.merged[s])
        if (const int e = run_step(w, step, used)) return e;
    }
    shape_ = with_segments(shape_, level + left), bind_sizes(shape_, layout_);
    *more = left == first;
    return 0;
  }

  // P3. *left: so many pairs stay in the stash; if there are none, it is empty.
  int drain_stash(workshop& w, int64_t* used, uint64_t* left) {
    stash_result r;
    if (layout_.stash_slots == 0) return 0;
    if (!on_cuda()) {
      *used += segment_worker<F>(layout_).drain_stash(left);
      return 0;
    }
    if (const int e =
            run_on_stash(w, &r, [&](stash_result* to) { return engine_->segments->drain(&layout_, to, w.stream); }))
      return e;
    *used += r.change;
    *left = r.left;
    if (r.left || !r.dead) return 0;
    *used -= int64_t(r.dead);
    return empty_stash(layout_.stash_slots, w.stream);
  }
  int empty_stash(uint64_t slots, void* stream) {
    const int e = slots ? api_.fill(layout_.stash, 0xff, slots * sizeof(word), stream) : 0;
    return e ? e : api_.fill(layout_.note, 0xff, sizeof(u32), stream);
  }
  // CUDA: what a kernel says of the stash.
  template <class Kernel>
  int run_on_stash(workshop& w, stash_result* r, Kernel kernel) {
    auto* const there = w.stash.template as<stash_result>();
    int e = api_.fill(there, 0, sizeof(*r), w.stream);
    if (!e) e = kernel(there);
    if (!e) e = api_.copy(r, there, sizeof(*r), w.stream);
    return e ? e : api_.wait(w.stream);
  }

  // Let the stash have the size that goes with the table, if all that it holds finds a place there.
  int fit_stash(workshop& w, uint64_t left, int64_t* used) {
    const uint64_t before = layout_.stash_slots, wanted = shape_.stash;
    if (before == wanted) return 0;
    const uint64_t both = before < wanted ? wanted : before;
    shape_.stash = before;
    const scratch old(*this, left ? before * sizeof(word) : 0, w.stream);
    if (!old || !ground_->stash->resize(both * sizeof(word))) return 0;
    int e = left ? api_.copy(old.get(), layout_.stash, before * sizeof(word), w.stream) : 0;
    if (!e) e = empty_stash(both, w.stream);
    bind_stash(wanted, layout_);
    stash_result r;
    if (!e && left) e = refill_stash(w, old.get(), before, &r);
    if (e) return e;
    if (r.left) {
      bind_stash(before, layout_);
      e = api_.copy(layout_.stash, old.get(), before * sizeof(word), w.stream);
      if (!e) e = api_.fill(layout_.note, 0, sizeof(u32), w.stream);
    } else {
      shape_.stash = wanted;
      *used += r.change - int64_t(r.dead);
    }
    if (!e) e = api_.wait(w.stream);
    if (!e) ground_->stash->resize(shape_.stash * sizeof(word));
    return e;
  }
  int refill_stash(workshop& w, const void* old, uint64_t slots, stash_result* r) {
    if (on_cuda())
      return run_on_stash(
          w, r, [&](stash_result* to) { return engine_->segments->restash(&layout_, old, slots, to, w.stream); });
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
  // Somebody has looked: `live` keys are there. So many elements may be erased until somebody should look again. Not before the
  // table has grown, if it is as small as it may be.
  void look_again(uint64_t live) {
    if (contract_below() == 0 || !smaller_for(asked_for_)) {
      look_after_ = ~uint64_t(0);
      return;
    }
    const auto low = uint64_t(contract_below() * double(slots()));
    const uint64_t some = slots() / look_share + 1;
    erased_ = 0;
    look_after_ = live > low + some ? live - low : some;
  }
  gpuhash_status erased(uint64_t n, void* stream, gpuhash_error* err) override {
    if (erased_.fetch_add(n) + n < look_after_) return GPUHASH_OK;
    exclusive hold(*this, stream);
    if (hold.error) return fault(err, hold.error, "waiting for running batches");
    if (erased_ < look_after_ || poisoned_) return GPUHASH_OK;  // another thread has looked
    totals now{};
    // Nothing orders this after launches of graphs that are alive, whose totals cannot be read then.
    if (refuse_to_move(GPUHASH_FULL, nullptr)) return GPUHASH_OK;
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    gpuhash_status s = GPUHASH_OK;
    if (double(now.live) < contract_below() * double(slots()))
      s = without_throwing(err, [&] { return contract(now, stream, err); });
    look_again(uint64_t(now.live));
    return poisoned_ ? s : gpuhash_status(GPUHASH_OK);  // for lack of memory: when somebody looks again
  }
  gpuhash_status contract(const totals& now, void* stream, gpuhash_error* err) {
    uint64_t keys = uint64_t(now.live) + uint64_t(now.live) / 2;
    if (keys < asked_for_) keys = asked_for_;
    if (!smaller_for(keys)) return GPUHASH_OK;
    if (!ground_ || for_rebuild(keys)) return resize_down(keys, stream, err);
    const double of_segment = double(shape_.segment_buckets * options_.bucket) * contract_below();
    const auto low = uint64_t(double(now.live) / of_segment) + 1;
    const uint64_t least = segments_for(keys), wanted = low > least ? low : least;
    return wanted < shape_.segments() ? stretch(wanted, now, stream, err) : gpuhash_status(GPUHASH_OK);
  }

  // ---- looking at it --------------------------------------------------------------------------------------------------

  // The table as host memory sees it: itself on the CPU, a copy on CUDA.
  struct host_view {
    std::unique_ptr<unsigned char[]> copy;
    layout_type t;
  };
  gpuhash_status view(host_view& v, gpuhash_error* err) {
    v.t = layout_;
    if (!on_cuda()) return GPUHASH_OK;
    shape all = shape_;
    place_parts(all);
    if (const gpuhash_status s = check_host_memory(all.bytes, false, err)) return s;
    v.copy.reset(new (std::nothrow) unsigned char[all.bytes + 128]);
    if (!v.copy) return no_memory(err, all.bytes);
    unsigned char* const aligned = v.copy.get() + (128 - uintptr_t(v.copy.get()) % 128) % 128;
    v.t = bind(all, aligned, nullptr);
    const auto copy = [&](auto* to, const auto* from, uint64_t n) {
      return n ? api_.copy(to, from, n * sizeof(*to), own_stream_) : 0;
    };
    int e = copy(v.t.slots, layout_.slots, all.slots);
    if (!e) e = copy(v.t.stash, layout_.stash, all.stash);
    if (!e) e = copy(v.t.locks, layout_.locks, all.locks);
    if (!e) e = copy(v.t.filter, layout_.filter, (all.buckets() + 3) / 4);
    if (!e) e = copy(v.t.note, layout_.note, 1);
    if (!e) e = api_.wait(own_stream_);
    return e ? fault(err, e, "reading the table") : gpuhash_status(GPUHASH_OK);
  }

  // The way by which k lies in bucket b; ways if it does not belong there.
  static uint32_t way_of(const layout_type& t, key k, index home, uint64_t b) {
    uint32_t way = 0;
    while (way < t.ways && uint64_t(t.bucket_of(k, home, way)) != b) ++way;
    return way;
  }

  // H2, H3, H6, H7 for every live slot, and the reach of the stash; NULL if they hold. Of two slots of a key (H7) one is not
  // in its home, or both are: so a key outside looks into all of its buckets, and only one of the stash along its path there.
  const char* broken(const layout_type& t, uint64_t cell) const {
    const word w = *t.cell(cell);
    if (!is_live<F>(w)) return nullptr;
    const key k = F::key_of(w);
    const index home = t.home(k);
    const uint64_t b = cell >> t.slot_bits;
    const bool stashed = cell >= shape_.slots;
    if (!stashed && way_of(t, k, home, b) == t.ways) return "a key lies in a bucket that is not its own";
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

  gpuhash_status inspect(gpuhash_error* err) override {
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    uint64_t live = 0, used = 0;
    for (uint64_t i = 0; i < cells(); ++i) {
      if (const char* what = broken(v.t, i))
        return host->fail(err, GPUHASH_CORRUPT, "slot %llu breaks an invariant: %s", (unsigned long long)i, what);
      live += is_live<F>(*v.t.cell(i));
      used += !is_empty<F>(*v.t.cell(i));
    }
    for (uint64_t i = 0; i < shape_.locks; ++i)
      if (!(v.t.locks[i] & 1))
        return host->fail(err, GPUHASH_CORRUPT, "lock %llu breaks an invariant: it was left locked",
                          (unsigned long long)i);
    header mine;
    totals now{};
    int e = api_.copy(&mine, head(), sizeof(mine), own_stream_);
    if (!e) e = api_.wait(own_stream_);
    if (e) return fault(err, e, "reading the table");
    for (const totals& s : mine.sum) now.live += s.live, now.used += s.used;
    const word* side = reinterpret_cast<const word*>(mine.side);
    for (int i = 0; i < 2; ++i) live += !is_empty<F>(side[i]);
    if (live != uint64_t(now.live) || used != uint64_t(now.used))
      return host->fail(err, GPUHASH_CORRUPT, "the counters say %llu live and %llu used, the slots %llu and %llu",
                        (unsigned long long)now.live, (unsigned long long)now.used, (unsigned long long)live,
                        (unsigned long long)used);
    return GPUHASH_OK;
  }

  gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error* err) override {
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    const layout_type& t = v.t;
    uint64_t live = 0, outside = 0, stashed = 0, dead = 0, full_buckets = 0, bits = 0;
    for (uint64_t i = 0; i < cells(); ++i) {
      const word w = *t.cell(i);
      dead += is_dead<F>(w);
      if (!is_live<F>(w)) continue;
      ++live;
      stashed += i >= shape_.slots;
      outside += i >= shape_.slots || i >> t.slot_bits != uint64_t(t.home(F::key_of(w)));
    }
    for (uint64_t b = 0; b < t.buckets(); ++b) {
      bool full = true;
      for (uint32_t i = 0; i < 1u << t.slot_bits; ++i) full &= !is_empty<F>(t.bucket(index(b))[i]);
      full_buckets += full;
      bits += uint64_t(__builtin_popcount(~t.filter[b >> 2] >> (b & 3) * 8 & 0xff));
    }
    const double n = live ? double(live) : 1, buckets = double(t.buckets());
    out.push_back({"bucket", double(options_.bucket)});
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
  gpuhash_status distances(size_t n, uint64_t* counts,
                           gpuhash_error* err) override {  // keys by their bucket; then stash
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    for (uint64_t i = 0; i < cells(); ++i) {
      const word w = *v.t.cell(i);
      if (!is_live<F>(w)) continue;
      const key k = F::key_of(w);
      const size_t far = i >= shape_.slots ? v.t.ways : way_of(v.t, k, v.t.home(k), i >> v.t.slot_bits);
      ++counts[far < n ? far : n - 1];
    }
    return GPUHASH_OK;
  }

  hive_options options_;
  layout_type layout_{};
  shape shape_;
  block storage_;
  const bool stretches_;            // may the table grow where it is?
  std::unique_ptr<ground> ground_;  // where it lies if it does; then storage_ is nothing
  uint64_t asked_for_ = 0;          // keys, when it was created or by reserve
  kit_atomic<uint64_t> erased_{0};  // elements of batches that may erase, since somebody looked
  kit_atomic<uint64_t> look_after_{0};
};

}  // namespace gpuhash
