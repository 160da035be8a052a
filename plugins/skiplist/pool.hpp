// The pool of a skiplist's chunks: how many chunks a number of keys needs, the segments of memory that the chunks lie
// in, and the allocation of chunks.
#pragma once
#include <math.h>

#include "layout.hpp"
#include "libgpuhash/kit/context.hpp"

namespace gpuhash {

struct skip_options {
  uint32_t chunk = 16;     // words
  double p_chunk = 1.0;    // how many of the new chunks are named one level up
  double merge = 1.0 / 3;  // of a chunk's entries: fewer are merged with the next chunk's
  uint32_t order = order_unsigned;
  uint32_t build = 0;  // build_choice
};

template <class F>
struct chunk_pool {
  using block = table_context::block;
  skip_table<F> layout{};
  block shared;  // top and taken
  block segment[most_segments];
  uint64_t limit = 0;  // keys

  uint64_t bytes() const {
    uint64_t all = shared.bytes;
    for (const block& b : segment) all += b.bytes;
    return all;
  }
};

// Makes, widens, empties and drops the pools of a table. It has none of its own: during a rebuild a table has two.
template <class F>
class chunk_pools {
  using word = typename F::word;
  using layout_type = skip_table<F>;
  using block = table_context::block;

 public:
  using pool = chunk_pool<F>;
  chunk_pools(table_context& t, const skip_options& o) : table_(t), options_(o), per_chunk_(o.chunk - 2) {}

  size_t chunk_bytes() const { return options_.chunk * sizeof(word); }

  // Levels that 2^31 chunks can have.
  uint32_t most_levels_here() const { return uint32_t(ceil(31.0 / log2(double(per_chunk_ / 2)))) + 1; }
  // A chunk that a split leaves behind is half full at least; one that is built is full but for one entry.
  double fill() const { return table_.config_.grow ? 0.62 * per_chunk_ : double(per_chunk_ / 2); }
  uint32_t dense() const { return per_chunk_ - 1; }
  // Chunks for so many keys, whatever their order where the table may not grow; heads left out. A build of them, which fills
  // chunks further, takes no more.
  double chunks_for(uint64_t keys) const {
    const double per = fill();
    double level = ceil(double(keys) / per), all = 0;
    while (level > 1) {
      all += level;
      level = ceil(level / per);
    }
    return all + 8;
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
    t.side = reinterpret_cast<word*>(table_.head()->side);
    t.slots = options_.chunk;
    t.levels = most_levels_here();
    t.merge_below = uint32_t(ceil(options_.merge * per_chunk_));
    if (t.merge_below < 1) t.merge_below = 1;
    t.raise_below = uint32_t(options_.p_chunk * 65536);
    t.order = options_.order;
    t.sign = typename F::key(1) << (8 * table_.config_.key_bytes - 1);
    to.shared = table_.take(shared_bytes, stream);
    if (!to.shared.p) return table_.no_memory(err, shared_bytes);
    t.top = static_cast<u32*>(to.shared.p);
    t.taken = reinterpret_cast<u32*>(static_cast<char*>(to.shared.p) + taken_at);
    const uint64_t n = keys < 64 ? 64 : keys;
    const uint64_t written = built ? t.levels + built_chunks(built) : 0;
    const gpuhash_status s = widen(to, chunks_for(n) + t.levels, n, stream, err, written);
    return s ? s : reset(to, stream, err);
  }
  // So many more chunks, which are enough for so many keys, empty but for the first `written` of the pool. Those that are
  // there stay where they are.
  gpuhash_status widen(pool& to, double more, uint64_t keys, void* stream, gpuhash_error* err, uint64_t written = 0) {
    layout_type t = to.layout;
    block fresh[most_segments];
    uint32_t s = t.segments;
    gpuhash_status status = GPUHASH_OK;
    if (more + t.capacity > double(segment_chunks) * 16) return too_many(more + t.capacity, err);
    if (const gpuhash_status lacking = table_.enough_memory(uint64_t(ceil(more)) * chunk_bytes(), err)) return lacking;
    for (double left = ceil(more); left > 0 && !status; ++s) {
      const uint64_t here = left < segment_chunks ? uint64_t(left) : segment_chunks;
      if (s == most_segments) {
        status = too_many(more + t.capacity, err);
        break;
      }
      fresh[s] = table_.take(here * chunk_bytes(), stream);
      if (!fresh[s].p) {
        status = table_.no_memory(err, here * chunk_bytes());
        break;
      }
      const uint64_t kept = written < t.capacity ? 0 : written - t.capacity;
      if (const int e = empty(fresh[s], kept < here ? kept : here, here, stream))
        status = table_.fault(err, e, "adding chunks");
      t.segment[s] = static_cast<word*>(fresh[s].p);
      t.first[s] = t.capacity;
      t.capacity += uint32_t(here);
      left -= double(here);
    }
    if (status) {
      for (block& b : fresh) table_.drop(b, stream);
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
    return table_.api_.fill(at, 0xff, (end - first) * chunk_bytes(), stream);
  }
  // Heads that lead to nothing, into chunks that are empty otherwise.
  gpuhash_status reset(pool& to, void* stream, gpuhash_error* err) {
    const layout_type& t = to.layout;
    word heads[most_levels * 32];  // not of the heap, which may be exhausted
    write_heads(t, heads);
    const u32 counts[2] = {0, t.levels};
    int e = table_.api_.copy(t.segment[0], heads, size_t(t.levels) * t.slots * sizeof(word), stream);
    if (!e) e = table_.api_.copy(t.top, &counts[0], sizeof(u32), stream);
    if (!e) e = table_.api_.copy(t.taken, &counts[1], sizeof(u32), stream);
    if (!e) e = table_.api_.wait(stream);  // the heads go with this frame
    return e ? table_.fault(err, e, "initialising the table") : gpuhash_status(GPUHASH_OK);
  }
  void drop(pool& p, void* stream) {
    table_.drop(p.shared, stream);
    for (block& b : p.segment) table_.drop(b, stream);
    p.layout = {};
  }
  // As if these chunks had never been handed out, but for those that a build of `built` keys is about to write.
  gpuhash_status wipe(pool& p, uint32_t chunks, uint64_t built, void* stream, gpuhash_error* err) {
    const layout_type& t = p.layout;
    const uint64_t begin = built ? t.levels + built_chunks(built) : 0;
    for (uint32_t s = 0; s < t.segments && t.first[s] < chunks; ++s) {
      const uint32_t end = s + 1 < t.segments && t.first[s + 1] < chunks ? t.first[s + 1] : chunks;
      const uint64_t first = begin < t.first[s] ? 0 : begin - t.first[s];
      if (const int e = empty(p.segment[s], first, end - t.first[s], stream))
        return table_.fault(err, e, "clearing chunks");
    }
    return reset(p, stream, err);
  }
  gpuhash_status clear(pool& p, void* stream, gpuhash_error* err) {
    for (const block& b : p.segment)
      if (b.p)
        if (const int e = table_.api_.fill(b.p, 0xff, b.bytes, stream))
          return table_.fault(err, e, "clearing the table");
    return reset(p, stream, err);
  }
  gpuhash_status read_taken(const pool& p, uint32_t* out, void* stream, gpuhash_error* err) {
    int e = table_.api_.copy(out, p.layout.taken, sizeof(*out), stream);
    if (!e) e = table_.api_.wait(stream);
    if (*out > p.layout.capacity) *out = p.layout.capacity;
    return e ? table_.fault(err, e, "counting chunks") : gpuhash_status(GPUHASH_OK);
  }

  class spare {  // a pool for as long as a call lasts, on the call's stream
   public:
    spare(chunk_pools& of, void* stream) : of_(of), stream_(stream) {}
    ~spare() { of_.drop(it, stream_); }
    spare(const spare&) = delete;
    spare& operator=(const spare&) = delete;
    pool it;

   private:
    chunk_pools& of_;
    void* const stream_;
  };

 private:
  static constexpr size_t shared_bytes = 128;
  static constexpr size_t taken_at = 64;  // apart from top, which every operation reads

  table_context& table_;
  const skip_options options_;
  const uint32_t per_chunk_;
};

}  // namespace gpuhash
