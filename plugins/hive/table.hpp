// hive for the kit: sizes, growth, statistics, and the tests of its invariants (layout.hpp).
//
// The table is one block of memory: buckets, stash, locks, filter, note. It grows by a rebuild into another block. But from
// 16 segments on, on the CPU, a growing table lies in reserved address space (region.hpp), and grows and shrinks by
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
#pragma once
#include <math.h>

#include <atomic>

#include "layout.hpp"
#include "libgpuhash/kit/table.hpp"
#include "region.hpp"
#include "segments.hpp"

namespace gpuhash {

struct hive_options {
  uint64_t bucket = 8;      // slots
  uint64_t ways = 2;        // buckets of a key
  double stash = 1.0 / 64;  // slots of the stash by slots of the buckets; 0: none
  uint32_t whole = 0;       // 1: the table is one segment
  uint32_t functions = 0;   // hive_table::functions
};

inline constexpr uint32_t stash_path_slots = 128;  // where in the stash a key may lie
inline constexpr uint64_t segment_bytes = 64 << 10;
inline constexpr uint64_t least_segments = 16;  // fewer would only make keys of one unable to use another's room
inline constexpr double first_share = 0.875;    // of max_load_factor, at which splitting begins
inline constexpr uint64_t least_step = 128;     // a step splits at least one in so many segments
// Address space that is reserved, by what the table takes at first; but no more than most_reserved, or 16 times as much.
inline constexpr uint64_t reserve_factor = 4096, least_reserve_factor = 4, most_reserved = uint64_t(256) << 30;

template <class F>
class hive final : public table {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  using layout_type = hive_table<F>;

 public:
  hive(const setup& s, const hive_options& o)
      : table(s), options_(o), stretches_(config_.grow && !on_cuda() && !o.whole && !has_resource()) {}
  ~hive() override {
    dismantle([this](void* stream) { drop(storage_, stream); });
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
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  // Does memory come from a resource of the caller's? Then all of it does.
  bool has_resource() const { return config_.memory && memory_.allocate != host->host_memory->allocate; }

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
    region slots, filter, locks, stash;
    uint64_t most_segments = 0;
    size_t bytes() const { return slots.bytes() + filter.bytes() + locks.bytes() + stash.bytes(); }
  };
  static constexpr size_t note_bytes = 128;

  const void* layout() const override { return &layout_; }
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
    const uint64_t wanted = segments_for(least), now = shape_.segments() + shape_.level() / least_step + 1;
    return limit_of(with_segments(shape_, wanted < now ? now : wanted));
  }
  // Up to this load a key finds a place in a bucket or in the stash, unless keys are chosen so that it does not.
  bool certain(uint64_t) override { return config_.max_load_factor <= 0.9 && options_.stash >= 1.0 / 64; }

  uint64_t limit_of(const shape& s) const {
    const bool stretches = stretches_ && s.segments() >= least_segments;
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
    if (stretches_ && !whole) wanted = ceil(wanted / first_share);
    if (wanted > 1e15) return s;
    const uint64_t buckets = uint64_t(wanted) < least_buckets ? uint64_t(least_buckets) : uint64_t(wanted);
    const uint64_t segments = whole ? 1 : buckets / most;
    while (stretches_ && segments >> (s.round + 1) >= least_segments) ++s.round;
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
    s.stash_at = s.slots * sizeof(word);
    s.locks_at = s.stash_at + s.stash * sizeof(word);
    s.filter_at = s.locks_at + s.locks * sizeof(u32);
    s.note_at = s.filter_at + (n + 3) / 4 * 4;
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
    return shape_for(keys).segments() < least_segments || segments_for(keys) > ground_->most_segments;
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
    bind_sizes(s, t);
    bind_stash(s.stash, t);
    return t;
  }
  layout_type bind(const shape& s, const ground& g, void* side) const {
    layout_type t = bind(s, nullptr, side);
    t.slots = reinterpret_cast<word*>(g.slots.get());
    t.stash = reinterpret_cast<word*>(g.stash.get());
    t.locks = reinterpret_cast<u32*>(g.locks.get() + note_bytes);
    t.filter = reinterpret_cast<u32*>(g.filter.get());
    t.note = reinterpret_cast<u32*>(g.locks.get());
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

  // Address space for a table of this shape and for what it may grow to; NULL: a block will do, or has to.
  std::unique_ptr<ground> reserve_for(const shape& s) const {
    if (!stretches_ || s.segments() < least_segments || s.bytes == 0) return nullptr;
    std::unique_ptr<ground> g(new (std::nothrow) ground);
    if (!g) return nullptr;
    const uint64_t most_bytes = s.bytes > most_reserved / 16 ? 16 * s.bytes : most_reserved;
    uint64_t factor = most_bytes / s.bytes;
    factor = factor < reserve_factor ? factor : reserve_factor;
    for (; factor >= least_reserve_factor; factor /= 2) {  // a limit on address space may allow less
      const shape most = with_segments(s, s.segments() * factor);
      if (most.bytes == 0) continue;
      auto all = std::unique_ptr<ground>(new (std::nothrow) ground);
      if (!all) return nullptr;
      all->most_segments = most.segments();
      const size_t page = size_t(2) << 20;  // resize() rounds up to these
      if (all->slots.reserve(most.stash_at + page) && all->filter.reserve(most.buckets() + page) &&
          all->locks.reserve(note_bytes + most.locks * sizeof(u32) + page) &&
          all->stash.reserve(most.stash * sizeof(word) + page))
        return all;
    }
    return nullptr;
  }
  // Memory for the slots, the filter and the locks of this shape.
  static bool have(ground& g, const shape& s) {
    return g.slots.resize(s.stash_at) && g.filter.resize(s.buckets()) &&
           g.locks.resize(note_bytes + s.locks * sizeof(u32));
  }

  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    int e = 0;
    if (!ground_)
      e = api_.fill(storage_.p, 0xff, storage_.bytes, stream);
    else
      empty(*ground_, shape_, layout_.stash_slots);
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }
  void empty(const ground& g, const shape& s, uint64_t stash) const {
    api_.fill(g.slots.get(), 0xff, s.stash_at, nullptr);
    api_.fill(g.filter.get(), 0xff, s.buckets(), nullptr);
    api_.fill(g.locks.get(), 0xff, note_bytes + s.locks * sizeof(u32), nullptr);
    api_.fill(g.stash.get(), 0xff, stash * sizeof(word), nullptr);
  }

  // Empty storage: in memory of s.bytes, or in address space.
  gpuhash_status lay_out(const shape& s, uint64_t keys, const scratch& fresh, ground* wide, layout_type* out,
                         void* stream, gpuhash_error* err) {
    if (s.bytes == 0)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "capacity %llu is too large for this table's layout; ask for fewer keys",
                        (unsigned long long)keys);
    if (wide) {
      if (!have(*wide, s) || !wide->stash.resize(s.stash * sizeof(word))) return no_memory(err, s.bytes);
      empty(*wide, s, s.stash);
      *out = bind(s, *wide, head()->side);
      return GPUHASH_OK;
    }
    if (!fresh) return no_memory(err, fresh.bytes());
    if (const int e = api_.fill(fresh.get(), 0xff, fresh.bytes(), stream))
      return fault(err, e, "initialising the table");
    *out = bind(s, fresh.get(), head()->side);
    return GPUHASH_OK;
  }

  // Move every live pair into storage for so many keys. The old storage stays until the new one is complete. Where a pair
  // finds no place (no stash, or keys that were chosen for it), larger storage is tried.
  gpuhash_status resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    if (keys < uint64_t(now.live)) keys = uint64_t(now.live);
    if (ground_ && !for_rebuild(keys)) return stretch(segments_for(keys), now, err);
    for (;; keys *= 2) {
      uint64_t moved = 0;
      const gpuhash_status s = move_to(keys, uint64_t(now.live), &moved, stream, err);
      if (s == GPUHASH_OK) return write_used(now, moved, stream, err);
      if (s != GPUHASH_FULL) return s;
    }
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
      throw;
    }
    if (s == GPUHASH_OK)
      fresh.swap(storage_), ground_.swap(wide);  // what was there before goes with these
    else
      layout_ = old_layout, shape_ = before;
    return s;
  }

  // ---- linear hashing -------------------------------------------------------------------------------------------------

  // Have so many segments, or pack all of them if there are so many. Fails only before it begins. Segments whose pairs would
  // not fit into fewer stay as they are.
  gpuhash_status stretch(uint64_t wanted, const totals& now, gpuhash_error* err) {
    if (wanted > shape_.segments() && !have(*ground_, with_segments(shape_, wanted))) {
      have(*ground_, shape_);
      return no_memory(err, with_segments(shape_, wanted).bytes);
    }
    int64_t used = now.used;
    if (wanted == shape_.segments()) used += repack_all();
    while (shape_.segments() < wanted) used += split_up_to(wanted);
    while (shape_.segments() > wanted && merge_down_to(wanted, used)) {
    }
    used += segment_worker<F>(layout_).drain_stash();
    used += fit_stash();
    have(*ground_, shape_);  // less than before, or as much
    return write_used(now, uint64_t(used), nullptr, err);
  }

  // Work on segments first .. last-1, in parallel: one(worker, buffers, i) says how many more slots are used then.
  template <class One>
  int64_t on_segments(uint64_t first, uint64_t last, One one) const {
    std::atomic<int64_t> change{0};
    in_pieces(threads(), last - first, cut{1, 1, 64}, [&](size_t begin, size_t end) {
      const segment_worker<F> worker(layout_);
      typename segment_worker<F>::buffers b(layout_);
      int64_t mine = 0;
      for (size_t i = begin; i < end; ++i) mine += one(worker, b, first + i);
      change += mine;
    });
    return change;
  }
  int64_t repack_all() const {
    return on_segments(0, shape_.segments(), [](const auto& worker, auto& b, uint64_t s) {
      int64_t change = 0;
      worker.repack(s, b, &change);
      return change;
    });
  }

  // Up to the end of this round, in memory that is there. The change of the slots used.
  int64_t split_up_to(uint64_t wanted) {
    const uint64_t level = shape_.level(), to = wanted < 2 * level ? wanted : 2 * level;
    const shape larger = with_segments(shape_, to);
    for (uint64_t i = shape_.locks; i < larger.locks; ++i) layout_.locks[i] = ~0u;
    const index bit = index(1) << shape_.round;
    const int64_t change = on_segments(shape_.split, to - level, [level, bit](const auto& worker, auto& b, uint64_t s) {
      return worker.split(s, s + level, bit, b);
    });
    shape_ = larger, bind_sizes(shape_, layout_);
    return change;
  }

  // Down to the beginning of this round. False: that is as far as it goes.
  bool merge_down_to(uint64_t wanted, int64_t& used) {
    if (shape_.split == 0 && shape_.round == 0) return false;
    const uint64_t round = shape_.split ? shape_.round : shape_.round - 1, level = shape_.base << round;
    const uint64_t first = wanted < level ? 0 : wanted - level, last = shape_.segments() - level;
    const std::unique_ptr<bool[]> merged(new (std::nothrow) bool[last - first]());
    if (!merged) return false;
    used += on_segments(first, last, [&](const auto& worker, auto& b, uint64_t s) {
      int64_t change = 0;
      merged[s - first] = worker.merge(s, s + level, b, &change);
      return change;
    });
    // The segments that are split are the first ones. Those before one that could not be merged are split again.
    uint64_t left = last;
    while (left > first && merged[left - 1 - first]) --left;
    const index bit = index(1) << round;
    used += on_segments(first, left, [&](const auto& worker, auto& b, uint64_t s) {
      return merged[s - first] ? worker.split(s, s + level, bit, b) : 0;
    });
    shape_ = with_segments(shape_, level + left), bind_sizes(shape_, layout_);
    return left == first;
  }

  // Let the stash have the size that goes with the table, if all that it holds finds a place there. The change of the slots
  // used.
  int64_t fit_stash() {
    const uint64_t before = layout_.stash_slots, wanted = shape_.stash;
    if (before == wanted) return 0;
    const uint64_t both = before < wanted ? wanted : before;
    const std::unique_ptr<word[]> old(new (std::nothrow) word[before]);
    if (!old || !ground_->stash.resize(both * sizeof(word))) return shape_.stash = before, 0;
    memcpy(old.get(), layout_.stash, before * sizeof(word));
    const auto refill = [&](uint64_t slots) {
      memset(static_cast<void*>(layout_.stash), 0xff, both * sizeof(word));
      bind_stash(slots, layout_);
    };
    refill(wanted);
    int64_t change = 0;
    bool fits = true;
    for (uint64_t i = 0; i < before && fits; ++i) {
      change -= !is_empty<F>(old[i]);
      if (!is_live<F>(old[i])) continue;
      fits = segment_worker<F>(layout_).put_in_stash(old[i]);
      change += fits;
    }
    if (!fits) {
      refill(before);
      memcpy(layout_.stash, old.get(), before * sizeof(word));
      shape_.stash = before;
      change = 0;
    }
    ground_->stash.resize(shape_.stash * sizeof(word));
    return change;
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
    v.copy.reset(new (std::nothrow) unsigned char[storage_.bytes + 128]);
    if (!v.copy) return no_memory(err, storage_.bytes);
    unsigned char* const aligned = v.copy.get() + (128 - uintptr_t(v.copy.get()) % 128) % 128;
    int e = api_.copy(aligned, storage_.p, storage_.bytes, own_stream_);
    if (!e) e = api_.wait(own_stream_);
    if (e) return fault(err, e, "reading the table");
    v.t = bind(shape_, aligned, nullptr);
    return GPUHASH_OK;
  }

  // The way by which k lies in bucket b; ways if it does not belong there.
  static uint32_t way_of(const layout_type& t, key k, index home, uint64_t b) {
    uint32_t way = 0;
    while (way < t.ways && uint64_t(t.bucket_of(k, home, way)) != b) ++way;
    return way;
  }

  // H2, H3, H6, H7 for every live slot, and the reach of the stash; NULL if they hold.
  const char* broken(const layout_type& t, uint64_t cell) const {
    const word w = *t.cell(cell);
    if (!is_live<F>(w)) return nullptr;
    const key k = F::key_of(w);
    const index home = t.home(k);
    const uint64_t b = cell >> t.slot_bits;
    const bool stashed = cell >= shape_.slots;
    if (!stashed && way_of(t, k, home, b) == t.ways) return "a key lies in a bucket that is not its own";
    uint32_t copies = 0;
    for (uint32_t way = 0; way < t.ways; ++way) {
      const word* const bucket = t.bucket(t.bucket_of(k, home, way));
      for (uint32_t i = 0; i < 1u << t.slot_bits; ++i) {
        copies += F::key_of(bucket[i]) == k;
        if (way) continue;
        if (F::has_value && bucket[i] == tombstone<F>(k)) return "a live key has a tombstone in its home (H6)";
        if (is_empty<F>(bucket[i]) && (stashed || b != uint64_t(home)))
          return "a key lies outside of its home, which has an empty slot (H2)";
      }
    }
    bool reached = false;
    for (uint32_t i = 0, at = t.stash_slots ? t.stash_start(k) : 0; i < t.stash_path;
         ++i, at = (at + 1) % t.stash_slots) {
      if (is_empty<F>(t.stash[at])) break;
      copies += F::key_of(t.stash[at]) == k;
      reached |= t.stash + at == t.cell(cell);
    }
    if (stashed && !reached) return "a key of the stash cannot be found there";
    if (stashed && *t.note == ~0u) return "the stash holds a key, and the note says that it never did";
    if (copies != 1) return "a key has two slots (H7)";
    if ((stashed || b != uint64_t(home)) && *t.filter_of(home) & t.filter_bit(k, home))
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
};

}  // namespace gpuhash
