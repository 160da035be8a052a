// skiplist for the kit: its pool of chunks, growth, rebuilding, and the tests of its invariants (layout.hpp).
//
// The pool is made of segments. A table that runs out of chunks gets another segment, and nothing is copied; where more
// than half of the chunks in use are zombies or nearly empty, it is rebuilt instead, which reclaims them. A rebuild
// collects the pairs, which are sorted, and writes dense chunks of all levels at once.
#pragma once
#include <math.h>

#include "check.hpp"
#include "dense.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

struct skip_options {
  uint32_t chunk = 16;     // words
  double p_chunk = 1.0;    // how many of the new chunks are named one level up
  double merge = 1.0 / 3;  // of a chunk's entries: fewer are merged with the next chunk's
  uint32_t order = order_unsigned;
  uint32_t build = 0;  // build_choice
};

// When a rebuild takes a batch over: build_auto by these sizes. A smaller batch is served as fast key by key, and one
// that is small beside the table would be merged with more pairs than that is worth.
enum build_choice : uint32_t { build_auto, build_always, build_never };
inline constexpr uint64_t least_built = tunable("least_built", 1u << 12);
inline constexpr uint64_t least_built_on_cuda = 1 << 18;
inline constexpr uint64_t most_merged = 4;  // pairs of the table per element
// A batch behind the end is built without the other pairs, however many they are. Defined as small by tests.
#ifndef GPUHASH_LEAST_BEHIND
#define GPUHASH_LEAST_BEHIND (1 << 8)
#endif
#ifndef GPUHASH_LEAST_BEHIND_ON_CUDA
#define GPUHASH_LEAST_BEHIND_ON_CUDA (1 << 12)
#endif
inline constexpr uint64_t least_behind = GPUHASH_LEAST_BEHIND, least_behind_on_cuda = GPUHASH_LEAST_BEHIND_ON_CUDA;
inline constexpr uint32_t most_looks_left_out = tunable("looks_left_out", 63u);

template <class F>
class skiplist_table final : public table {
  using word = typename F::word;
  using layout_type = skip_table<F>;

 public:
  skiplist_table(const setup& s, const skip_options& o) : table(s), options_(o), per_chunk_(o.chunk - 2) {}
  ~skiplist_table() override {
    dismantle([this](void* stream) { drop_all(pool_, stream); });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    if (const gpuhash_status s = place(config_.capacity, pool_, stream, err)) return s;
    if (const gpuhash_status s = write_used({}, 0, stream, err)) return s;
    if (const gpuhash_status s = recount(stream, err)) return s;
    rebuilds_ = 0;
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  // ---- storage --------------------------------------------------------------------------------------------------------

  struct pool {
    layout_type layout{};
    block shared;  // top and taken
    block segment[most_segments];
    uint64_t limit = 0;
  };
  static constexpr size_t shared_bytes = 128;
  static constexpr size_t taken_at = 64;  // apart from top, which everybody reads

  const void* layout() const override { return &pool_.layout; }
  uint64_t cells() const override { return pool_.layout.capacity; }
  uint32_t line_cells() const override { return 1; }
  uint64_t slots() const override {  // as if all chunks were of level 0, whose head is one of them
    return uint64_t(pool_.layout.capacity - pool_.layout.levels + 1) * per_chunk_;
  }
  uint64_t limit() const override { return pool_.limit; }
  uint64_t bytes() const override {
    uint64_t all = pool_.shared.bytes;
    for (const block& b : pool_.segment) all += b.bytes;
    return all;
  }
  uint64_t user_key(uint64_t key) const override { return pool_.layout.decode(typename F::key(key)); }
  bool stores_pairs() const override { return true; }
  size_t chunk_bytes() const { return options_.chunk * sizeof(word); }

  // Levels that 2^31 chunks can have.
  uint32_t most_levels_here() const { return uint32_t(ceil(31.0 / log2(double(per_chunk_ / 2)))) + 1; }
  // A chunk that a split leaves behind is half full at least; one that is built is full but for one entry.
  double fill() const { return config_.grow ? 0.62 * per_chunk_ : double(per_chunk_ / 2); }
  uint32_t dense() const { return per_chunk_ - 1; }
  // Chunks for so many keys, whatever their order where the table may not grow; heads left out.
  double chunks_for(uint64_t keys) const {
    const double per = fill();
    double level = ceil(double(keys) / per), all = 0;
    while (level > 1) {
      all += level;
      level = ceil(level / per);
    }
    const double least = double(built_chunks(keys));
    return (all > least ? all : least) + 8;
  }
  // Chunks that a build of so many keys writes, every word of each; heads left out (dense_shape).
  uint64_t built_chunks(uint64_t keys) const {
    uint64_t all = 0;
    for (uint64_t level = keys; level > 1; all += level - 1) level = (level + dense() - 1) / dense();
    return all;
  }
  gpuhash_status too_many(double chunks, gpuhash_error* err) const {
    return host->fail(
        err, GPUHASH_INVALID_ARGUMENT,
        "%.0f chunks of %u entries are more than a table can have (about 2^30); ask for fewer keys, or for "
        "larger chunks (option chunk)",
        chunks, per_chunk_);
  }

  // Fresh, empty storage for so many keys; but for the chunks that a build of `built` of them is about to write. If it
  // fails, or throws, the caller gives back what there is of it.
  gpuhash_status place(uint64_t keys, pool& to, void* stream, gpuhash_error* err, uint64_t built = 0) {
    to = {};
    layout_type& t = to.layout;
    t.side = reinterpret_cast<word*>(head()->side);
    t.slots = options_.chunk;
    t.levels = most_levels_here();
    t.merge_below = uint32_t(ceil(options_.merge * per_chunk_));
    if (t.merge_below < 1) t.merge_below = 1;
    t.raise_below = uint32_t(options_.p_chunk * 65536);
    t.order = options_.order;
    t.sign = typename F::key(1) << (8 * config_.key_bytes - 1);
    to.shared = take(shared_bytes, stream);
    if (!to.shared.p) return no_memory(err, shared_bytes);
    t.top = static_cast<u32*>(to.shared.p);
    t.taken = reinterpret_cast<u32*>(static_cast<char*>(to.shared.p) + taken_at);
    const uint64_t n = keys < 64 ? 64 : keys;
    const uint64_t written = built ? t.levels + built_chunks(built) : 0;
    const gpuhash_status s = widen_pool(to, chunks_for(n) + t.levels, n, stream, err, written);
    return s ? s : reset(to, stream, err);
  }
  // So many more chunks, which are enough for so many keys, empty but for the first `written` of the pool. Those that are
  // there stay where they are.
  gpuhash_status widen_pool(pool& to, double more, uint64_t keys, void* stream, gpuhash_error* err,
                            uint64_t written = 0) {
    layout_type t = to.layout;
    block fresh[most_segments];
    uint32_t s = t.segments;
    gpuhash_status status = GPUHASH_OK;
    if (more + t.capacity > double(segment_chunks) * 16) return too_many(more + t.capacity, err);
    if (const gpuhash_status lacking = enough_memory(uint64_t(ceil(more)) * chunk_bytes(), err)) return lacking;
    for (double left = ceil(more); left > 0 && !status; ++s) {
      const uint64_t here = left < segment_chunks ? uint64_t(left) : segment_chunks;
      if (s == most_segments) {
        status = too_many(more + t.capacity, err);
        break;
      }
      fresh[s] = take(here * chunk_bytes(), stream);
      if (!fresh[s].p) {
        status = no_memory(err, here * chunk_bytes());
        break;
      }
      const uint64_t kept = written < t.capacity ? 0 : written - t.capacity;
      if (const int e = empty(fresh[s], kept < here ? kept : here, here, stream))
        status = fault(err, e, "adding chunks");
      t.segment[s] = static_cast<word*>(fresh[s].p);
      t.first[s] = t.capacity;
      t.capacity += uint32_t(here);
      left -= double(here);
    }
    if (status) {
      for (block& b : fresh) drop(b, stream);
      return status;
    }
    for (uint32_t i = t.segments; i < s; ++i) to.segment[i] = fresh[i];
    t.segments = s;
    to.layout = t;
    to.limit = limit_of(t, keys);
    return GPUHASH_OK;
  }
  // At least `least` keys, and not so many that a rebuild for them would take more chunks: each would make the table larger.
  uint64_t limit_of(const layout_type& t, uint64_t least) const {
    uint64_t low = least, high = uint64_t(double(t.capacity - t.levels) * fill() / (1 + 2.0 / per_chunk_));
    while (low < high) {
      const uint64_t middle = high - (high - low) / 2;
      if (chunks_for(middle) + t.levels <= double(t.capacity))
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
  // Empty the chunks from `first` to `end` of a segment.
  int empty(const block& segment, uint64_t first, uint64_t end, void* stream) {
    if (first >= end) return 0;
    char* const at = static_cast<char*>(segment.p) + first * chunk_bytes();
    return api_.fill(at, 0xff, (end - first) * chunk_bytes(), stream);
  }
  // Heads that lead to nothing, into chunks that are empty otherwise.
  gpuhash_status reset(pool& to, void* stream, gpuhash_error* err) {
    const layout_type& t = to.layout;
    word heads[most_levels * 32];  // not of the heap, which may be exhausted
    write_heads(t, heads);
    const u32 counts[2] = {0, t.levels};
    int e = api_.copy(t.segment[0], heads, size_t(t.levels) * t.slots * sizeof(word), stream);
    if (!e) e = api_.copy(t.top, &counts[0], sizeof(u32), stream);
    if (!e) e = api_.copy(t.taken, &counts[1], sizeof(u32), stream);
    if (!e) e = api_.wait(stream);  // the heads go with this frame
    return e ? fault(err, e, "initialising the table") : gpuhash_status(GPUHASH_OK);
  }
  void drop_all(pool& p, void* stream) {
    drop(p.shared, stream);
    for (block& b : p.segment) drop(b, stream);
    p.layout = {};
  }
  struct spare_pool {  // for as long as a call lasts, on the call's stream
    skiplist_table& of;
    void* stream;
    pool it{};
    ~spare_pool() { of.drop_all(it, stream); }
  };
  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    for (const block& b : pool_.segment)
      if (b.p)
        if (const int e = api_.fill(b.p, 0xff, b.bytes, stream)) return fault(err, e, "clearing the table");
    doubt();
    offered_ = 0;
    return reset(pool_, stream, err);
  }

  gpuhash_status read_taken(uint32_t* out, void* stream, gpuhash_error* err) {
    int e = api_.copy(out, pool_.layout.taken, sizeof(*out), stream);
    if (!e) e = api_.wait(stream);
    if (*out > pool_.layout.capacity) *out = pool_.layout.capacity;
    return e ? fault(err, e, "counting chunks") : gpuhash_status(GPUHASH_OK);
  }

  // ---- growth ---------------------------------------------------------------------------------------------------------

  // More keys: more chunks, beside those that are there. As many or fewer: a rebuild.
  gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    if (keys <= pool_.limit) return rebuild(keys, stream, err);
    return add_chunks(chunks_for(keys) + pool_.layout.levels - double(pool_.layout.capacity), keys, stream, err);
  }
  gpuhash_status add_chunks(double more, uint64_t keys, void* stream, gpuhash_error* err) {
    // Segments are few: where they run out, one takes the place of all.
    if (pool_.layout.segments + 2 > most_segments)
      return rebuild(keys > pool_.limit ? keys : 2 * pool_.limit, stream, err);
    uint32_t taken = 0;
    if (const gpuhash_status s = read_taken(&taken, stream, err)) return s;
    // What others asked for in vain is not handed out.
    int e = api_.copy(pool_.layout.taken, &taken, sizeof(taken), stream);
    if (!e) e = api_.wait(stream);
    if (e) return fault(err, e, "adding chunks");
    if (const gpuhash_status s = widen_pool(pool_, more < 64 ? 64 : more, keys, stream, err)) return s;
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    forget_claims(uint64_t(now.used));
    return recount(stream, err);
  }
  gpuhash_status more_room(void* stream, gpuhash_error* err) override {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    // Where dense chunks would leave half of the pool free, that is enough.
    if (chunks_for(uint64_t(now.live)) < 0.5 * pool_.layout.capacity) return rebuild(pool_.limit, stream, err);
    return add_chunks(double(pool_.layout.capacity), 0, stream, err);
  }
  gpuhash_status make_room(uint64_t keys, void* stream, gpuhash_error* err) override {
    totals now{};
    if (keys > pool_.limit) return resize(keys, stream, err);
    // Zombies may have taken what was there.
    uint32_t taken = 0;
    gpuhash_status s = read_totals(&now, stream, err);
    if (!s) s = read_taken(&taken, stream, err);
    if (s || keys <= uint64_t(now.live)) return s;
    const uint64_t more = keys - uint64_t(now.live);
    // Few keys may each split a chunk.
    const double needed = chunks_for(keys) - chunks_for(uint64_t(now.live)) + double(more < 8 ? more : 8);
    return needed > double(pool_.layout.capacity - taken) ? rebuild(pool_.limit, stream, err) : s;
  }
  bool smaller_for(uint64_t keys) const override {
    return (chunks_for(keys < 64 ? 64 : keys) + pool_.layout.levels) * 1.02 < double(pool_.layout.capacity);
  }
  gpuhash_status exhausted(uint64_t failed, uint64_t n, uint64_t slots, gpuhash_error* err) const override {
    return host->fail(
        err, GPUHASH_NO_MEMORY,
        "%llu of %llu elements found no free chunk in a pool of %llu entries; reserve more, or flush, and "
        "retry those whose status is 3",
        (unsigned long long)failed, (unsigned long long)n, (unsigned long long)slots);
  }

  // Dense chunks in storage for so many keys, or for those that are there if they are more.
  gpuhash_status rebuild(uint64_t keys, void* stream, gpuhash_error* err) {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    const uint64_t live = uint64_t(now.used);  // those of the side slots stay where they are
    offered_ = live;
    if (keys < live) keys = live;
    const uint32_t kb = sizeof(typename F::key);
    scratch keys_there(*this, size_t(live) * kb, stream);
    scratch values_there(*this, config_.value_bytes ? size_t(live) * kb : 0, stream);
    scratch counter(*this, sizeof(uint64_t), stream);
    if (!keys_there || !values_there || !counter) return no_memory(err, keys_there.bytes() + values_there.bytes());
    spare_pool fresh{*this, stream};
    gpuhash_status s = place(keys, fresh.it, stream, err, live);
    if (s) return s;
    uint32_t taken = 0;
    if (const gpuhash_status unread = read_taken(&taken, stream, err)) return unread;
    int e = api_.fill(counter.get(), 0, sizeof(uint64_t), stream);
    if (!e && live)
      e = engine_->collect(layout(), cell_order{}, 0, taken, keys_there.get(), values_there.get(), kb, kb,
                           counter.as<uint64_t>(), threads(), stream);
    if (!e && live)
      e = engine_->ordered->build(&fresh.it.layout, size_t(live), keys_there.get(), values_there.get(), kb, kb, dense(),
                                  threads(), stream);
    if (!e) e = api_.wait(stream);
    if (e) return fault(err, e, "rebuilding the table");
    std::swap(fresh.it, pool_);
    s = write_used(now, live, stream, err);
    const gpuhash_status counted = recount(stream, err);
    return s ? s : counted;
  }
  gpuhash_status compact(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) override {
    if (first || count != ~uint64_t(0))
      return host->fail(err, GPUHASH_UNSUPPORTED, "a skiplist is flushed as a whole: flush without a range of buckets");
    return rebuild(pool_.limit, stream, err);
  }

  // ---- a batch that a rebuild takes over --------------------------------------------------------------------------------

  bool may_build(const request& q) override {
    const bool may = pays(q);
    if (!may && adds(q.kind)) offered_ += q.n;
    return may;
  }
  bool pays(const request& q) {
    if (options_.build == build_never || !(engine_->ordered->built_kinds >> q.kind & 1) || q.n >> 32) return false;
    if (options_.build == build_always) return true;
    // On CUDA it waits for what runs, as a table does only where it grows.
    if (on_cuda() && !config_.grow) return false;
    return (is_large(q) && most_there() <= most_merged * q.n) || may_be_behind(q);
  }
  bool is_large(const request& q) const { return q.n >= (on_cuda() ? least_built_on_cuda : least_built); }
  // Is it time to look whether a batch comes behind the end? To look takes about as long as a small batch, and on CUDA waits
  // for those before. So after a batch that did not, every second one is looked at, every fourth, and so on, until one does.
  bool may_be_behind(const request& q) {
    if (q.n < (on_cuda() ? least_behind_on_cuda : least_behind)) return false;
    const uint32_t left = looks_left_out_;
    if (left) {
      looks_left_out_ = left - 1;
      return false;
    }
    const uint32_t more = 2 * leave_out_ + 1;
    looks_left_out_ = leave_out_ = more < most_looks_left_out ? more : most_looks_left_out;
    return true;
  }
  void saw_one_behind() { looks_left_out_ = leave_out_ = 0; }
  // Pairs that there may be; on CUDA, without waiting for anybody.
  uint64_t most_there() { return on_cuda() ? uint64_t(offered_) : used_on_host(); }
  // As if these chunks had never been handed out, but for those that a build of `built` keys is about to write.
  gpuhash_status wipe(uint32_t chunks, uint64_t built, void* stream, gpuhash_error* err) {
    const layout_type& t = pool_.layout;
    const uint64_t begin = built ? t.levels + built_chunks(built) : 0;
    for (uint32_t s = 0; s < t.segments && t.first[s] < chunks; ++s) {
      const uint32_t end = s + 1 < t.segments && t.first[s + 1] < chunks ? t.first[s + 1] : chunks;
      const uint64_t first = begin < t.first[s] ? 0 : begin - t.first[s];
      if (const int e = empty(pool_.segment[s], first, end - t.first[s], stream))
        return fault(err, e, "clearing chunks");
    }
    return reset(pool_, stream, err);
  }
  gpuhash_status build_from(const request& q, totals* sum, bool* done, gpuhash_error* err) override {
    void* const stream = q.stream;
    constexpr uint32_t half = sizeof(typename F::key);
    const ordered_engine& engine = *engine_->ordered;
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    const uint64_t old = uint64_t(now.used);
    offered_ = old + q.n;
    const bool always = options_.build == build_always;
    const bool whole = (always || is_large(q)) && old <= most_merged * q.n;
    if (!whole) {
      const gpuhash_status s = build_behind(q, now, sum, done, err);
      offered_ = old + q.n;  // a rebuild does not know of the batch
      if (s || *done || !always) return s;
    }
    if (old == 0 && ascends(q)) {
      gpuhash_status s = GPUHASH_OK;
      if (build_ascending(q, sum, done, &s, err) || s) return s;
    }
    build_request b{};
    b.batch = &q;
    b.old = old;
    const layout_type plain = encoded(pool_.layout);
    scratch work(*this, engine.work_bytes(b), stream);
    scratch old_keys(*this, old * half, stream);
    scratch old_values(*this, config_.value_bytes ? old * half : 0, stream);
    scratch counter(*this, sizeof(uint64_t), stream);
    if (!work || !old_keys || !old_values || !counter) return no_memory(err, work.bytes() + old_keys.bytes());
    b.work = work.get();
    b.old_keys = old_keys.get();
    b.old_values = old_values.get();
    uint32_t taken = 0;
    if (const gpuhash_status s = read_taken(&taken, stream, err)) return s;
    int e = api_.fill(counter.get(), 0, sizeof(uint64_t), stream);
    if (!e && old)
      e = engine_->collect(&plain, cell_order{}, 0, taken, old_keys.get(), old_values.get(), half, half,
                           counter.as<uint64_t>(), threads(), stream);
    if (!e) e = engine.sort(layout(), b);
    if (e) return fault(err, e, "sorting a batch");
    const uint64_t all = old + b.fresh;
    if (!config_.grow && all > limit()) return GPUHASH_OK;  // some will find no room, and say so
    const bool in_place = all <= limit() && built_chunks(all) + pool_.layout.levels <= uint64_t(pool_.layout.capacity);
    if (!in_place && !b.fresh) return GPUHASH_OK;  // updates of a table that is too full: they need no room
    scratch keys(*this, all * half, stream);
    scratch values(*this, config_.value_bytes ? all * half : 0, stream);
    if (!keys || !values) return no_memory(err, keys.bytes() + values.bytes());
    // All pairs are in arrays by now: where they fit, their chunks can be written over.
    spare_pool fresh{*this, stream};
    if (!in_place)
      if (const gpuhash_status s = place(all > limit() ? all : limit(), fresh.it, stream, err, all)) return s;
    const layout_type target = encoded((in_place ? pool_ : fresh.it).layout);
    *done = true;  // from here on nothing runs out
    gpuhash_status s = in_place ? wipe(taken, all, stream, err) : gpuhash_status(GPUHASH_OK);
    if (!s) e = engine.merge(layout(), b, keys.get(), values.get());
    if (!s && !e && all)
      e = engine.build(&target, size_t(all), keys.get(), values.get(), half, half, dense(), threads(), stream);
    if (!e) e = api_.wait(stream);
    if (s || e) return s ? s : fault(err, e, "building the table from a batch");
    if (!in_place) {
      std::swap(fresh.it, pool_);
      ++rebuilds_;
    }
    return count_built(b, now, all, sum, err);
  }
  // A layout in which keys stay as they are.
  static layout_type encoded(layout_type t) {
    t.order = order_unsigned;
    return t;
  }
  // The batch is built, and the table has so many pairs now, those of side slots left out.
  gpuhash_status count_built(const build_request& b, totals now, uint64_t all, totals* sum, gpuhash_error* err) {
    now.live += int64_t(b.fresh + b.fresh_side);
    now.used = int64_t(all);
    sum->yes = b.fresh + b.fresh_side;
    const gpuhash_status s = write_totals(now, b.batch->stream, err);
    const gpuhash_status counted = recount(b.batch->stream, err);
    return s ? s : counted;
  }

  // ---- a batch behind the end -----------------------------------------------------------------------------------------

  // Its keys, merged with the pairs of the last chunk, go into that chunk and into new ones; or it is none, and nothing has
  // happened. Where chunks are lacking for it the table grows, and its end is looked at anew.
  gpuhash_status build_behind(const request& q, const totals& now, totals* sum, bool* done, gpuhash_error* err) {
    bool again = false;
    const gpuhash_status s = try_behind(q, now, sum, done, &again, err);
    return s || !again ? s : try_behind(q, now, sum, done, nullptr, err);
  }
  // again: if not NULL, room may be made; then it says so, and nothing else has happened.
  gpuhash_status try_behind(const request& q, const totals& now, totals* sum, bool* done, bool* again,
                            gpuhash_error* err) {
    const ordered_engine& engine = *engine_->ordered;
    const size_t its_bytes = per_chunk_ * sizeof(typename F::key);
    scratch there(*this, sizeof(table_end) + 2 * its_bytes, q.stream);
    if (!there) return no_memory(err, there.bytes());
    char* const its_keys = static_cast<char*>(there.get()) + sizeof(table_end);
    char* const its_values = config_.value_bytes ? its_keys + its_bytes : nullptr;
    table_end end;
    int e = engine.look_at_end(layout(), q, there.as<table_end>(), its_keys, its_values);
    if (!e) e = api_.copy(&end, there.get(), sizeof(end), q.stream);
    if (!e) e = api_.wait(q.stream);
    if (e) return fault(err, e, "looking at the end of the table");
    // Names of new chunks are those of keys from number dense() on. They have to come behind all names that are there.
    if (end.falls_short || end.below >= dense()) return GPUHASH_OK;
    saw_one_behind();
    build_request b{};
    b.batch = &q;
    b.old_keys = its_keys;
    b.old_values = its_values;
    b.old = end.entries[0];
    if (end.taken > pool_.layout.capacity) end.taken = pool_.layout.capacity;
    scratch work(*this, engine.work_bytes(b), q.stream);
    if (!work) return no_memory(err, work.bytes());
    b.work = work.get();
    e = engine.sort(layout(), b);
    if (e) return fault(err, e, "sorting a batch");
    const uint64_t all = uint64_t(now.used) + b.fresh;
    const uint64_t chunks = dense_shape::behind(end, b.old + b.fresh, dense(), pool_.layout.levels).all;
    if (all <= limit() && chunks <= pool_.layout.capacity - end.taken) return extend(b, end, now, sum, done, err);
    // Updates need no room, and where the table may not grow some elements find none, and say so.
    if (!config_.grow || !b.fresh || !again) return GPUHASH_OK;
    *again = true;
    return make_room_behind(all, chunks, q.stream, err);
  }
  gpuhash_status extend(const build_request& b, const table_end& end, const totals& now, totals* sum, bool* done,
                        gpuhash_error* err) {
    void* const stream = b.batch->stream;
    constexpr uint32_t half = sizeof(typename F::key);
    const ordered_engine& engine = *engine_->ordered;
    const uint64_t n = b.old + b.fresh;
    scratch keys(*this, n * half, stream);
    scratch values(*this, config_.value_bytes ? n * half : 0, stream);
    if (!keys || !values) return no_memory(err, keys.bytes() + values.bytes());
    const layout_type target = encoded(pool_.layout);
    *done = true;  // from here on nothing runs out
    int e = engine.merge(layout(), b, keys.get(), values.get());
    if (!e && n)
      e = engine.extend(&target, end, size_t(n), keys.get(), values.get(), half, half, dense(), threads(), stream);
    if (!e) e = api_.wait(stream);
    if (e) return fault(err, e, "building the end of the table");
    return count_built(b, now, uint64_t(now.used) + b.fresh, sum, err);
  }
  // Twice what is there, or more: so keys that come behind the end for ever are moved seldom, or not at all.
  gpuhash_status make_room_behind(uint64_t keys, uint64_t chunks, void* stream, gpuhash_error* err) {
    const double capacity = double(pool_.layout.capacity);
    if (chunks_for(keys) < 0.5 * capacity) return rebuild(pool_.limit, stream, err);  // of zombies, most of it
    const double wanted = chunks_for(keys) + double(chunks + pool_.layout.levels) - capacity;
    return add_chunks(wanted < capacity ? capacity : wanted, keys, stream, err);
  }

  // A look at some of its keys, which are read again later.
  bool ascends(const request& q) const {
    if (!engine_->ordered->build_ascending) return false;
    uint64_t before = 0;
    for (size_t i = 0; i < q.n; i += q.n / 64 + 1) {
      const auto* const at = static_cast<const char*>(q.keys) + i * q.key_bytes;
      typename F::key k = 0;
      memcpy(&k, at, q.key_bytes);  // the lower bytes
      k = pool_.layout.encode(k);
      if (i && k <= before) return false;
      before = k;
    }
    return true;
  }
  // From the batch into the chunks, in a table that has no chunk in use. True: it is done.
  bool build_ascending(const request& q, totals* sum, bool* done, gpuhash_status* s, gpuhash_error* err) {
    void* const stream = q.stream;
    uint32_t taken = 0;
    if ((*s = read_taken(&taken, stream, err))) return false;
    if (!config_.grow && q.n > limit()) return false;
    const bool in_place = q.n <= limit() && built_chunks(q.n) + pool_.layout.levels <= uint64_t(pool_.layout.capacity);
    spare_pool fresh{*this, stream};
    if (in_place)
      *s = wipe(taken, q.n, stream, err);
    else
      *s = place(q.n > limit() ? q.n : limit(), fresh.it, stream, err, q.n);
    if (*s) return false;
    if (!engine_->ordered->build_ascending(&(in_place ? pool_ : fresh.it).layout, q, dense())) {
      if (in_place) *s = wipe(pool_.layout.capacity, 0, stream, err);  // as it was
      return false;
    }
    *done = true;
    if (!in_place) {
      std::swap(fresh.it, pool_);
      ++rebuilds_;
    }
    totals now{};
    if ((*s = read_totals(&now, stream, err))) return true;
    now.live += int64_t(q.n);
    now.used = int64_t(q.n);
    sum->yes = q.n;
    *s = write_totals(now, stream, err);
    const gpuhash_status counted = recount(stream, err);
    *s = *s ? *s : counted;
    return true;
  }

  // ---- room for a batch -----------------------------------------------------------------------------------------------

  // An element splits a chunk of each level at most.
  bool certain(uint64_t n) override { return n < (uint64_t(1) << 32) && free_.take(n * pool_.layout.levels).granted; }
  void doubt() override { free_.recount(0, 0); }
  gpuhash_status recount(void* stream, gpuhash_error* err) override {
    doubt();
    uint32_t taken = 0;
    if (const gpuhash_status s = read_taken(&taken, stream, err)) return s;
    free_.recount(taken, pool_.layout.capacity);
    return GPUHASH_OK;
  }

  // ---- looking at it --------------------------------------------------------------------------------------------------

  struct host_view {
    std::vector<std::unique_ptr<word[]>> copies;
    u32 top = 0, taken = 0;
    layout_type t;
  };
  // The table as host memory sees it: itself on the CPU, a copy on CUDA.
  gpuhash_status view(host_view& v, gpuhash_error* err) {
    v.t = pool_.layout;
    if (on_cuda())
      if (const gpuhash_status s = check_host_memory(bytes(), false, err)) return s;
    int e = api_.copy(&v.top, v.t.top, sizeof(u32), own_stream_);
    if (!e) e = api_.copy(&v.taken, v.t.taken, sizeof(u32), own_stream_);
    v.t.top = &v.top;
    v.t.taken = &v.taken;
    for (uint32_t s = 0; on_cuda() && !e && s < v.t.segments; ++s) {
      v.copies.emplace_back(new word[pool_.segment[s].bytes / sizeof(word)]);
      e = api_.copy(v.copies.back().get(), pool_.segment[s].p, pool_.segment[s].bytes, own_stream_);
      v.t.segment[s] = v.copies.back().get();
    }
    if (!e) e = api_.wait(own_stream_);
    return e ? fault(err, e, "reading the table") : gpuhash_status(GPUHASH_OK);
  }

  gpuhash_status inspect(gpuhash_error* err) override {
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    skip_check<F> check(v.t);
    std::string wrong = check.run();
    if (wrong.empty()) wrong = check.run_spare();
    if (!wrong.empty()) return host->fail(err, GPUHASH_CORRUPT, "an invariant is broken: %s", wrong.c_str());
    header mine;
    totals now{};
    int e = api_.copy(&mine, head(), sizeof(mine), own_stream_);
    if (!e) e = api_.wait(own_stream_);
    if (e) return fault(err, e, "reading the table");
    if (const gpuhash_status s = read_totals(&now, own_stream_, err)) return s;
    uint64_t live = check.live;
    const word* side = reinterpret_cast<const word*>(mine.side);
    for (int i = 0; i < 2; ++i) live += F::key_of(side[i]) != empty_key<typename F::key>;
    if (live != uint64_t(now.live) || check.live != uint64_t(now.used))
      return host->fail(err, GPUHASH_CORRUPT, "the counters say %llu live and %llu used, the chunks %llu and %llu",
                        (unsigned long long)now.live, (unsigned long long)now.used, (unsigned long long)live,
                        (unsigned long long)check.live);
    return GPUHASH_OK;
  }
  gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error* err) override {
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    skip_check<F> check(v.t);
    const std::string wrong = check.run();
    if (!wrong.empty()) return host->fail(err, GPUHASH_CORRUPT, "an invariant is broken: %s", wrong.c_str());
    uint64_t above = 0;
    for (u32 l = 1; l <= v.top; ++l) above += check.chunks[l];
    out.push_back({"levels", double(v.top + 1)});
    out.push_back({"chunk_entries", double(per_chunk_)});
    out.push_back({"chunks", double(check.chunks[0])});
    out.push_back({"chunks_above", double(above)});
    out.push_back({"fill", double(check.live) / double(check.chunks[0] * per_chunk_)});
    out.push_back({"names", double(check.names)});
    out.push_back({"zombies", double(check.zombies)});
    out.push_back({"pool_chunks", double(v.t.capacity)});
    out.push_back({"pool_taken", double(v.taken < v.t.capacity ? v.taken : v.t.capacity)});
    out.push_back({"segments", double(v.t.segments)});
    return GPUHASH_OK;
  }
  gpuhash_status distances(size_t n, uint64_t* counts, gpuhash_error* err) override {  // chunks by their entries
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    for (u32 at = layout_type::head(0); at != none;) {
      const word* const c = v.t.chunk(at);
      size_t here = 0;
      for (u32 i = 0; i < per_chunk_; ++i) here += F::key_of(c[i]) != layout_type::no_key;
      ++counts[here < n ? here : n - 1];
      at = layout_type::link_of(c[v.t.slots - 2]);
    }
    return GPUHASH_OK;
  }

  template <class>
  friend struct skiplist_under_test;  // tests/kit
  skip_options options_;
  uint32_t per_chunk_;
  pool pool_;
  room_ledger free_;  // CUDA: chunks of the pool
  // Elements of batches that may have added keys, since it was known how many there are.
  kit_atomic<uint64_t> offered_{0};
  // Batches that are not compared with the end of the table: the next ones; and after the next one that does not come behind it.
  kit_atomic<uint32_t> looks_left_out_{0}, leave_out_{0};
};

}  // namespace gpuhash
