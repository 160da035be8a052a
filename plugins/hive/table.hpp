// hive for the kit: sizes, rebuilding, statistics, and the tests of its invariants (layout.hpp).
//
// The table is one block of memory: buckets, stash, locks, filter, note. It grows by a rebuild into another block.
#pragma once
#include <math.h>

#include "layout.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

struct hive_options {
  uint64_t bucket = 8;      // slots
  uint64_t ways = 2;        // buckets of a key
  double stash = 1.0 / 64;  // slots of the stash by slots of the buckets; 0: none
  uint32_t whole = 0;       // 1: the table is one segment
};

inline constexpr uint32_t stash_path_slots = 128;  // where in the stash a key may lie
inline constexpr uint64_t segment_bytes = 64 << 10;

template <class F>
class hive final : public table {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  using layout_type = hive_table<F>;

 public:
  hive(const setup& s, const hive_options& o) : table(s), options_(o) {}
  ~hive() override {
    dismantle([this](void* stream) { drop(storage_, stream); });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    const shape wanted = shape_for(config_.capacity);
    scratch fresh(*this, wanted.bytes, stream);
    if (const gpuhash_status s = lay_out(wanted, config_.capacity, fresh, &layout_, stream, err)) return s;
    shape_ = wanted;
    fresh.swap(storage_);
    if (const gpuhash_status s = write_used({}, 0, stream, err)) return s;
    rebuilds_ = 0;
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  // How large everything is.
  struct shape {
    uint64_t segments = 0, segment_buckets = 0, stash = 0, locks = 0;
    uint64_t slots = 0;                                                        // of the buckets
    size_t stash_at = 0, locks_at = 0, filter_at = 0, note_at = 0, bytes = 0;  // bytes 0: too many
  };

  const void* layout() const override { return &layout_; }
  uint64_t cells() const override { return shape_.slots + shape_.stash; }
  uint32_t line_cells() const override { return 64 / sizeof(word); }
  uint64_t slots() const override { return shape_.slots + shape_.stash; }
  uint64_t bytes() const override { return storage_.bytes; }
  uint64_t limit() const override { return limit_of(shape_); }
  bool smaller_for(uint64_t keys) const override { return shape_for(keys).bytes < storage_.bytes; }
  // Up to this load a key finds a place in a bucket or in the stash, unless keys are chosen so that it does not.
  bool certain(uint64_t) override { return config_.max_load_factor <= 0.9 && options_.stash >= 1.0 / 64; }

  uint64_t limit_of(const shape& s) const {
    const uint64_t n = uint64_t(double(s.slots) * config_.max_load_factor);
    return n ? n : 1;
  }

  shape shape_for(uint64_t keys) const {
    shape s;
    if (keys < 64) keys = 64;
    const double wanted = ceil(double(keys) / config_.max_load_factor / double(options_.bucket));
    if (wanted > 1e15) return s;
    uint64_t buckets = uint64_t(wanted) < least_buckets ? uint64_t(least_buckets) : uint64_t(wanted);
    const uint64_t most = segment_bytes / (options_.bucket * sizeof(word));  // buckets of a segment
    // Segments are what many of them are cut into; a few would only make keys of one unable to use another's room.
    s.segments = options_.whole || buckets < 16 * most ? 1 : buckets / most;
    for (;; ++buckets) {  // limit() must reach keys
      s.segment_buckets = (buckets + s.segments - 1) / s.segments;
      s.slots = s.segments * s.segment_buckets * options_.bucket;
      if (limit_of(s) >= keys) break;
    }
    const uint64_t n = s.segments * s.segment_buckets;
    if (n >= uint64_t(index(~index(0)))) return s;
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
    return s;
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
    t.segments = index(s.segments), t.segment_buckets = index(s.segment_buckets);
    t.slot_bits = uint32_t(__builtin_ctzll(options_.bucket)), t.ways = uint32_t(options_.ways);
    t.lock_mask = uint32_t(s.locks - 1);
    t.stash_slots = uint32_t(s.stash);
    t.stash_path = t.stash_slots < stash_path_slots ? t.stash_slots : stash_path_slots;
    return t;
  }

  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    const int e = api_.fill(storage_.p, 0xff, storage_.bytes, stream);
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }

  // Empty storage in memory of s.bytes.
  gpuhash_status lay_out(const shape& s, uint64_t keys, const scratch& fresh, layout_type* out, void* stream,
                         gpuhash_error* err) {
    if (s.bytes == 0)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "capacity %llu is too large for this table's layout; ask for fewer keys",
                        (unsigned long long)keys);
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
    scratch fresh(*this, wanted.bytes, stream);
    layout_type now{};
    if (const gpuhash_status s = lay_out(wanted, keys, fresh, &now, stream, err)) return s;
    layout_ = now, shape_ = wanted;
    const uint64_t n = before.slots + before.stash;
    gpuhash_status s;
    try {
      s = move_pairs({&old_layout, n, n < rebuild_step ? n : rebuild_step, live, GPUHASH_OP_INSERT, false}, moved,
                     stream, err);
    } catch (...) {
      layout_ = old_layout, shape_ = before;
      throw;
    }
    if (s == GPUHASH_OK)
      fresh.swap(storage_);  // what was there before goes with the scratch
    else
      layout_ = old_layout, shape_ = before;
    return s;
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
    const word w = t.slots[cell];
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
      reached |= t.stash + at == t.slots + cell;
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
      live += is_live<F>(v.t.slots[i]);
      used += !is_empty<F>(v.t.slots[i]);
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
      const word w = t.slots[i];
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
    out.push_back({"segments", double(t.segments)});
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
      const word w = v.t.slots[i];
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
};

}  // namespace gpuhash
