// skiplist for the kit: growth and rebuilding of its pool of chunks (pool.hpp; bulk_build.hpp has batches that are built).
//
// The pool is made of segments. A table that runs out of chunks gets another segment, and nothing is copied; where more
// than half of the chunks in use are zombies or nearly empty, it is rebuilt instead, which reclaims them. A rebuild
// collects the pairs, which are sorted, and writes dense chunks of all levels at once.
#pragma once
#include "bulk_build.hpp"
#include "inspect.hpp"
#include "libgpuhash/kit/table.hpp"
#include "pool.hpp"

namespace gpuhash {

template <class F>
class skiplist_table final : public table {
  using spare_pool = typename chunk_pools<F>::spare;

 public:
  skiplist_table(const setup& s, const skip_options& o)
      : table(s, facts()), options_(o), per_chunk_(o.chunk - 2), pools_(*this, o) {
    use_estimate(chunks_);
    use_builder(builder_);
  }
  ~skiplist_table() override {
    dismantle([this](void* stream) { pools_.drop(pool_, stream); });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    if (const gpuhash_status s = pools_.place(config_.capacity, pool_, stream, err)) return s;
    if (const gpuhash_status s = write_used({}, 0, stream, err)) return s;
    if (const gpuhash_status s = chunks_.refresh(stream, err)) return s;
    rebuilds_ = 0;
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  static table_facts facts() {
    table_facts f;
    f.sets_as_pairs = true;
    f.exhausted = {GPUHASH_NO_MEMORY, "free chunk in a pool of",
                   "entries; reserve more, or flush, and retry those whose status is 3"};
    return f;
  }

  // ---- storage --------------------------------------------------------------------------------------------------------

  const void* layout() const override { return &pool_.layout; }
  uint64_t cells() const override { return pool_.layout.capacity; }
  uint64_t slots() const override {  // as if all chunks were of level 0, whose head is one of them
    return uint64_t(pool_.layout.capacity - pool_.layout.levels + 1) * per_chunk_;
  }
  uint64_t limit() const override { return pool_.limit; }
  uint64_t bytes() const override { return pool_.bytes(); }
  uint64_t user_key(uint64_t key) const override { return pool_.layout.decode(typename F::key(key)); }
  std::unique_ptr<inspector> make_inspector() override {
    return std::make_unique<skip_inspector<F>>(*this, pool_.layout);
  }
  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    chunks_.invalidate();
    builder_.holds(0);
    return pools_.clear(pool_, stream, err);
  }

  // ---- growth ---------------------------------------------------------------------------------------------------------

  // More keys: more chunks, beside those that are there. As many or fewer: a rebuild.
  gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    if (keys <= pool_.limit) return rebuild(keys, stream, err);
    return add_chunks(pools_.chunks_for(keys) + pool_.layout.levels - double(pool_.layout.capacity), keys, stream, err);
  }
  gpuhash_status add_chunks(double more, uint64_t keys, void* stream, gpuhash_error* err) {
    // Segments are few: where they run out, one takes the place of all.
    if (pool_.layout.segments + 2 > most_segments)
      return rebuild(keys > pool_.limit ? keys : 2 * pool_.limit, stream, err);
    uint32_t taken = 0;
    if (const gpuhash_status s = pools_.read_taken(pool_, &taken, stream, err)) return s;
    // Chunks that other elements asked for in vain are not handed out.
    int e = api_.copy(pool_.layout.taken, &taken, sizeof(taken), stream);
    if (!e) e = api_.wait(stream);
    if (e) return fault(err, e, "adding chunks");
    if (const gpuhash_status s = pools_.widen(pool_, more < 64 ? 64 : more, keys, stream, err)) return s;
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    forget_claims(uint64_t(now.used));
    return chunks_.refresh(stream, err);
  }
  gpuhash_status more_room(void* stream, gpuhash_error* err) override {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    // Where dense chunks would leave half of the pool free, that is enough.
    if (pools_.chunks_for(uint64_t(now.live)) < 0.5 * pool_.layout.capacity) return rebuild(pool_.limit, stream, err);
    return add_chunks(double(pool_.layout.capacity), 0, stream, err);
  }
  gpuhash_status make_room(uint64_t keys, void* stream, gpuhash_error* err) override {
    totals now{};
    if (keys > pool_.limit) return resize(keys, stream, err);
    // Zombies may have taken what was there.
    uint32_t taken = 0;
    gpuhash_status s = read_totals(&now, stream, err);
    if (!s) s = pools_.read_taken(pool_, &taken, stream, err);
    if (s || keys <= uint64_t(now.live)) return s;
    const uint64_t more = keys - uint64_t(now.live);
    // Few keys may each split a chunk.
    const double needed = pools_.chunks_for(keys) - pools_.chunks_for(uint64_t(now.live)) + double(more < 8 ? more : 8);
    return needed > double(pool_.layout.capacity - taken) ? rebuild(pool_.limit, stream, err) : s;
  }
  bool smaller_for(uint64_t keys) const override {
    return (pools_.chunks_for(keys < 64 ? 64 : keys) + pool_.layout.levels) * 1.02 < double(pool_.layout.capacity);
  }

  // Dense chunks in storage for so many keys, or for those that are there if they are more.
  gpuhash_status rebuild(uint64_t keys, void* stream, gpuhash_error* err) {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    const uint64_t live = uint64_t(now.used);  // those of the side slots stay where they are
    builder_.holds(live);
    if (keys < live) keys = live;
    const uint32_t kb = sizeof(typename F::key);
    scratch keys_there(*this, size_t(live) * kb, stream);
    scratch values_there(*this, config_.value_bytes ? size_t(live) * kb : 0, stream);
    scratch counter(*this, sizeof(uint64_t), stream);
    if (!keys_there || !values_there || !counter) return no_memory(err, keys_there.bytes() + values_there.bytes());
    spare_pool fresh(pools_, stream);
    gpuhash_status s = pools_.place(keys, fresh.it, stream, err, live);
    if (s) return s;
    uint32_t taken = 0;
    if (const gpuhash_status unread = pools_.read_taken(pool_, &taken, stream, err)) return unread;
    int e = api_.fill(counter.get(), 0, sizeof(uint64_t), stream);
    if (!e && live)
      e = engine_->collect(
          layout(), cell_order{}, 0, taken,
          {keys_there.get(), values_there.get(), kb, kb, counter.as<uint64_t>(), live, threads(), stream});
    if (!e && live)
      e = engine_->ordered->build(&fresh.it.layout, size_t(live), keys_there.get(), values_there.get(), kb, kb,
                                  pools_.dense(), threads(), stream);
    if (!e) e = api_.wait(stream);
    if (e) return fault(err, e, "rebuilding the table");
    std::swap(fresh.it, pool_);
    s = write_used(now, live, stream, err);
    const gpuhash_status counted = chunks_.refresh(stream, err);
    return s ? s : counted;
  }
  gpuhash_status compact(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) override {
    if (first || count != ~uint64_t(0))
      return host->fail(err, GPUHASH_UNSUPPORTED, "a skiplist is flushed as a whole: flush without a range of buckets");
    return rebuild(pool_.limit, stream, err);
  }

  // An element splits a chunk of each level at most, whatever room slots have.
  class estimate_of_chunks final : public room_estimate {
   public:
    explicit estimate_of_chunks(skiplist_table& t) : table_(t) {}
    bool fits_surely(uint64_t n) override {
      return n < (uint64_t(1) << 32) && free_.take(n * table_.pool_.layout.levels).granted;
    }
    void invalidate() override { free_.recount(0, 0); }
    gpuhash_status refresh(void* stream, gpuhash_error* err) override {
      invalidate();
      uint32_t taken = 0;
      if (const gpuhash_status s = table_.pools_.read_taken(table_.pool_, &taken, stream, err)) return s;
      free_.recount(taken, table_.pool_.layout.capacity);
      return GPUHASH_OK;
    }
    uint64_t left() const { return free_.left(); }

   private:
    skiplist_table& table_;
    room_ledger free_;
  };

  template <class>
  friend struct skiplist_under_test;  // tests/kit
  friend class skip_builder<F>;
  const skip_options options_;
  const uint32_t per_chunk_;  // entries
  chunk_pools<F> pools_;
  chunk_pool<F> pool_;
  estimate_of_chunks chunks_{*this};
  skip_builder<F> builder_{*this};
};

}  // namespace gpuhash
