// Batches of a skiplist that are sorted and merged with the whole table at once, or with its end (docs/adr/0017): which
// these are, and how they are built.
#pragma once
#include <string.h>

#include "dense.hpp"
#include "libgpuhash/kit/adding.hpp"
#include "libgpuhash/kit/bulk_builder.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "pool.hpp"
#include "sizes.hpp"

namespace gpuhash {

template <class F>
class skiplist_table;

// When a rebuild takes a batch over: build_auto by these sizes. A smaller batch is served as fast key by key, and one
// that is small beside the table would be merged with more pairs than that is worth.
enum build_choice : uint32_t { build_auto, build_always, build_never };
inline constexpr uint64_t least_built = tunable("least_built", 1u << 12);
inline constexpr uint64_t least_built_on_cuda = 1 << 18;
inline constexpr uint64_t most_merged = 4;  // pairs of the table per element
inline constexpr uint32_t most_looks_left_out = tunable("looks_left_out", 63u);

template <class F>
class skip_builder final : public bulk_builder {
  using layout_type = skip_table<F>;
  using scratch = table_context::scratch;
  using spare = typename chunk_pools<F>::spare;

 public:
  explicit skip_builder(skiplist_table<F>& t) : table_(t) {}
  void holds(uint64_t keys) { offered_ = keys; }  // the table, exclusively

  bool accepts(const request& q) override {
    const bool may = pays(q);
    if (!may && adds(q.kind)) offered_ += q.n;
    return may;
  }
  gpuhash_status build(const request& q, totals* sum, bool* done, gpuhash_error* err) override;

 private:
  bool pays(const request& q) {
    if (table_.options_.build == build_never || !(table_.engine_->ordered->built_kinds >> q.kind & 1) || q.n >> 32)
      return false;
    if (table_.options_.build == build_always) return true;
    // On CUDA a build waits for batches that run, which only tables that grow do anyway.
    if (table_.on_cuda() && !table_.config_.grow) return false;
    return (is_large(q) && most_there() <= most_merged * q.n) || may_be_behind(q);
  }
  bool is_large(const request& q) const { return q.n >= (table_.on_cuda() ? least_built_on_cuda : least_built); }
  // Should this batch be tested for whether it comes behind the end? The test takes about as long as a small batch, and
  // on CUDA waits for earlier batches. So after a batch that did not, every second batch is tested, then every fourth,
  // and so on, until one does.
  bool may_be_behind(const request& q) {
    if (q.n < (table_.on_cuda() ? least_behind_on_cuda : least_behind)) return false;
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
  // An upper bound of the number of pairs; on CUDA, without waiting for batches that run.
  uint64_t most_there() { return table_.on_cuda() ? uint64_t(offered_) : table_.used_on_host(); }
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
    const gpuhash_status s = table_.write_totals(now, b.batch->stream, err);
    const gpuhash_status counted = table_.chunks_.refresh(b.batch->stream, err);
    return s ? s : counted;
  }

  // ---- a batch behind the end -----------------------------------------------------------------------------------------

  // The keys of such a batch, merged with the pairs of the last chunk, go into that chunk and into new ones. If the
  // batch does not come behind the end, nothing happens. If chunks are lacking the table grows, and its end is looked
  // at anew.
  gpuhash_status build_behind(const request& q, const totals& now, totals* sum, bool* done, gpuhash_error* err) {
    bool again = false;
    const gpuhash_status s = try_behind(q, now, sum, done, &again, err);
    return s || !again ? s : try_behind(q, now, sum, done, nullptr, err);
  }
  // again: if not NULL, room may be made; then it says so, and nothing else has happened.
  gpuhash_status try_behind(const request& q, const totals& now, totals* sum, bool* done, bool* again,
                            gpuhash_error* err) {
    const ordered_engine& engine = *table_.engine_->ordered;
    const size_t its_bytes = entries() * sizeof(typename F::key);
    scratch there(table_, sizeof(table_end) + 2 * its_bytes, q.stream);
    if (!there) return table_.no_memory(err, there.bytes());
    char* const its_keys = static_cast<char*>(there.get()) + sizeof(table_end);
    char* const its_values = table_.config_.value_bytes ? its_keys + its_bytes : nullptr;
    table_end end;
    int e = engine.look_at_end(table_.layout(), q, there.as<table_end>(), its_keys, its_values);
    if (!e) e = table_.api_.copy(&end, there.get(), sizeof(end), q.stream);
    if (!e) e = table_.api_.wait(q.stream);
    if (e) return table_.fault(err, e, "looking at the end of the table");
    // New chunks are named by their keys from number dense() on, which come behind all names that are there.
    if (end.falls_short || end.below >= pools().dense()) return GPUHASH_OK;
    saw_one_behind();
    build_request b{};
    b.batch = &q;
    b.old_keys = its_keys;
    b.old_values = its_values;
    b.old = end.entries[0];
    if (end.taken > table_.pool_.layout.capacity) end.taken = table_.pool_.layout.capacity;
    scratch work(table_, engine.work_bytes(b), q.stream);
    if (!work) return table_.no_memory(err, work.bytes());
    b.work = work.get();
    e = engine.sort(table_.layout(), b);
    if (e) return table_.fault(err, e, "sorting a batch");
    const uint64_t all = uint64_t(now.used) + b.fresh;
    const uint64_t chunks = dense_shape::behind(end, b.old + b.fresh, pools().dense(), table_.pool_.layout.levels).all;
    if (all <= table_.limit() && chunks <= table_.pool_.layout.capacity - end.taken)
      return extend(b, end, now, sum, done, err);
    // Updates need no room; in a table that may not grow some elements find none, and have that status.
    if (!table_.config_.grow || !b.fresh || !again) return GPUHASH_OK;
    *again = true;
    return make_room_behind(all, chunks, q.stream, err);
  }
  gpuhash_status extend(const build_request& b, const table_end& end, const totals& now, totals* sum, bool* done,
                        gpuhash_error* err) {
    void* const stream = b.batch->stream;
    constexpr uint32_t half = sizeof(typename F::key);
    const ordered_engine& engine = *table_.engine_->ordered;
    const uint64_t n = b.old + b.fresh;
    scratch keys(table_, n * half, stream);
    scratch values(table_, table_.config_.value_bytes ? n * half : 0, stream);
    if (!keys || !values) return table_.no_memory(err, keys.bytes() + values.bytes());
    const layout_type target = encoded(table_.pool_.layout);
    *done = true;  // from here on nothing runs out
    int e = engine.merge(table_.layout(), b, keys.get(), values.get());
    if (!e && n)
      e = engine.extend(&target, end, size_t(n), keys.get(), values.get(), half, half, pools().dense(),
                        table_.threads(), stream);
    if (!e) e = table_.api_.wait(stream);
    if (e) return table_.fault(err, e, "building the end of the table");
    return count_built(b, now, uint64_t(now.used) + b.fresh, sum, err);
  }
  // Twice the pool, or more: so keys that come behind the end for ever are moved seldom, or not at all.
  gpuhash_status make_room_behind(uint64_t keys, uint64_t chunks, void* stream, gpuhash_error* err) {
    const double capacity = double(table_.pool_.layout.capacity);
    if (pools().chunks_for(keys) < 0.5 * capacity)
      return table_.rebuild(table_.pool_.limit, stream, err);  // of zombies, most of it
    const double wanted = pools().chunks_for(keys) + double(chunks + table_.pool_.layout.levels) - capacity;
    return table_.add_chunks(wanted < capacity ? capacity : wanted, keys, stream, err);
  }

  // A look at some of its keys, which are read again later.
  bool ascends(const request& q) const {
    if (!table_.engine_->ordered->build_ascending) return false;
    uint64_t before = 0;
    for (size_t i = 0; i < q.n; i += q.n / 64 + 1) {
      const auto* const at = static_cast<const char*>(q.keys) + i * q.key_bytes;
      typename F::key k = 0;
      memcpy(&k, at, q.key_bytes);  // the lower bytes
      k = table_.pool_.layout.encode(k);
      if (i && k <= before) return false;
      before = k;
    }
    return true;
  }
  // From the batch into the chunks, in a table that has no chunk in use. True: it is done.
  bool build_ascending(const request& q, totals* sum, bool* done, gpuhash_status* s, gpuhash_error* err) {
    void* const stream = q.stream;
    uint32_t taken = 0;
    if ((*s = pools().read_taken(table_.pool_, &taken, stream, err))) return false;
    if (!table_.config_.grow && q.n > table_.limit()) return false;
    const bool in_place = q.n <= table_.limit() && pools().built_chunks(q.n) + table_.pool_.layout.levels <=
                                                       uint64_t(table_.pool_.layout.capacity);
    spare fresh(pools(), stream);
    if (in_place)
      *s = pools().wipe(table_.pool_, taken, q.n, stream, err);
    else
      *s = pools().place(q.n > table_.limit() ? q.n : table_.limit(), fresh.it, stream, err, q.n);
    if (*s) return false;
    if (!table_.engine_->ordered->build_ascending(&(in_place ? table_.pool_ : fresh.it).layout, q, pools().dense())) {
      if (in_place) *s = pools().wipe(table_.pool_, table_.pool_.layout.capacity, 0, stream, err);  // as it was
      return false;
    }
    *done = true;
    if (!in_place) {
      std::swap(fresh.it, table_.pool_);
      ++table_.rebuilds_;
    }
    totals now{};
    if ((*s = table_.read_totals(&now, stream, err))) return true;
    now.live += int64_t(q.n);
    now.used = int64_t(q.n);
    sum->yes = q.n;
    *s = table_.write_totals(now, stream, err);
    const gpuhash_status counted = table_.chunks_.refresh(stream, err);
    *s = *s ? *s : counted;
    return true;
  }

  chunk_pools<F>& pools() { return table_.pools_; }
  uint32_t entries() const { return table_.per_chunk_; }  // of a chunk

  skiplist_table<F>& table_;
  // Elements of batches that may have added keys since the number of keys was last counted.
  kit_atomic<uint64_t> offered_{0};
  // Batches that are not compared with the end of the table: the next ones; and after the next one that does not come behind
  // it.
  kit_atomic<uint32_t> looks_left_out_{0}, leave_out_{0};
};

template <class F>
gpuhash_status skip_builder<F>::build(const request& q, totals* sum, bool* done, gpuhash_error* err) {
  void* const stream = q.stream;
  constexpr uint32_t half = sizeof(typename F::key);
  const ordered_engine& engine = *table_.engine_->ordered;
  totals now{};
  if (const gpuhash_status s = table_.read_totals(&now, stream, err)) return s;
  const uint64_t old = uint64_t(now.used);
  offered_ = old + q.n;
  const bool always = table_.options_.build == build_always;
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
  const layout_type plain = encoded(table_.pool_.layout);
  scratch work(table_, engine.work_bytes(b), stream);
  scratch old_keys(table_, old * half, stream);
  scratch old_values(table_, table_.config_.value_bytes ? old * half : 0, stream);
  scratch counter(table_, sizeof(uint64_t), stream);
  if (!work || !old_keys || !old_values || !counter) return table_.no_memory(err, work.bytes() + old_keys.bytes());
  b.work = work.get();
  b.old_keys = old_keys.get();
  b.old_values = old_values.get();
  uint32_t taken = 0;
  if (const gpuhash_status s = pools().read_taken(table_.pool_, &taken, stream, err)) return s;
  int e = table_.api_.fill(counter.get(), 0, sizeof(uint64_t), stream);
  if (!e && old)
    e = table_.engine_->collect(
        &plain, cell_order{}, 0, taken,
        {old_keys.get(), old_values.get(), half, half, counter.as<uint64_t>(), old, table_.threads(), stream});
  if (!e) e = engine.sort(table_.layout(), b);
  if (e) return table_.fault(err, e, "sorting a batch");
  const uint64_t all = old + b.fresh;
  if (!table_.config_.grow && all > table_.limit()) return GPUHASH_OK;  // some will find no room, and say so
  const bool in_place = all <= table_.limit() && pools().built_chunks(all) + table_.pool_.layout.levels <=
                                                     uint64_t(table_.pool_.layout.capacity);
  if (!in_place && !b.fresh) return GPUHASH_OK;  // updates of a table that is too full: they need no room
  scratch keys(table_, all * half, stream);
  scratch values(table_, table_.config_.value_bytes ? all * half : 0, stream);
  if (!keys || !values) return table_.no_memory(err, keys.bytes() + values.bytes());
  // All pairs are in arrays by now: where they fit, their chunks can be written over.
  spare fresh(pools(), stream);
  if (!in_place)
    if (const gpuhash_status s = pools().place(all > table_.limit() ? all : table_.limit(), fresh.it, stream, err, all))
      return s;
  const layout_type target = encoded((in_place ? table_.pool_ : fresh.it).layout);
  *done = true;  // from here on nothing runs out
  gpuhash_status s = in_place ? pools().wipe(table_.pool_, taken, all, stream, err) : gpuhash_status(GPUHASH_OK);
  if (!s) e = engine.merge(table_.layout(), b, keys.get(), values.get());
  if (!s && !e && all)
    e = engine.build(&target, size_t(all), keys.get(), values.get(), half, half, pools().dense(), table_.threads(),
                     stream);
  if (!e) e = table_.api_.wait(stream);
  if (s || e) return s ? s : table_.fault(err, e, "building the table from a batch");
  if (!in_place) {
    std::swap(fresh.it, table_.pool_);
    ++table_.rebuilds_;
  }
  return count_built(b, now, all, sum, err);
}

}  // namespace gpuhash
