// hive on the CPU (on CUDA: steps.cuh): a segment is split into two, two are merged, or one is packed. The table is held
// exclusively.
//
// All buckets of a key lie in its segment (layout.hpp), and where in it does not depend on the segment's number. So pairs
// of other segments have nothing to do with any of this, and segments are worked on in parallel.
//
//   P1  The pairs of a segment are packed anew: each to its home while that has room, then to others of its buckets, with
//       evictions. A bucket that is full stays full, so that a pair outside of its home has a full home (H2); the filter
//       starts from nothing and knows all that lie outside (H3). Dead slots are gone.
//   P2  Nothing is written before all pairs have found a place. Where packing fails, or has no memory to do it in, a segment
//       is split slot by slot: each pair stays in its slot, or goes to the same one of the new segment, and leaves a dead
//       slot, which keeps a full bucket full. That always succeeds. Two segments are then not merged, and one is not packed.
//   P3  Pairs in the stash stay there, unless their home has a free slot now; then they have to be in it (H2).
#pragma once
#include <string.h>

#include <new>

#include "layout.hpp"
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"
#include "sizes.hpp"
#include "steps.hpp"

namespace gpuhash {

template <class F>
class segment_worker {
  using table = hive_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

 public:
  // What a thread works with: pairs that were read, the image of a segment, slots taken of each of its buckets.
  class buffers {
   public:
    explicit buffers(const table& t) {
      const size_t slots = size_t(t.segment_buckets) << t.slot_bits, buckets = t.segment_buckets;
      pairs = new (std::nothrow) word[slots];
      image = new (std::nothrow) word[slots];
      filter = new (std::nothrow) u32[buckets / 4];
      taken = new (std::nothrow) u8[buckets];
    }
    ~buffers() { delete[] pairs, delete[] image, delete[] filter, delete[] taken; }
    buffers(const buffers&) = delete;
    buffers& operator=(const buffers&) = delete;
    bool complete() const { return pairs && image && filter && taken; }

    word *pairs, *image;
    u32* filter;
    u8* taken;
  };

  explicit segment_worker(const table& t) : t_(t), slots_(uint64_t(t.segment_buckets) << t.slot_bits) {}

  segment_result run(const segment_step& step, uint64_t s, buffers& b) const {
    segment_result r{0, 1};
    if (step.what == segment_step::split)
      r.change = split(s, s + step.apart, index(step.bit), b);
    else if (step.what == segment_step::merge)
      r.done = merge(s, s + step.apart, b, &r.change);
    else
      r.done = repack(s, b, &r.change);
    return r;
  }

  // Pairs of segment `from` whose hash has this bit go to segment `to`. The change of the slots used.
  int64_t split(uint64_t from, uint64_t to, index bit, buffers& b) const {
    const int64_t before = used(from);
    if (!b.complete() || !split_packed(from, to, bit, b)) split_in_place(from, to, bit);
    return used(from) + used(to) - before;
  }

  // Pairs of segment `from` join those of `to`. False, and nothing has changed, if they do not fit.
  bool merge(uint64_t to, uint64_t from, buffers& b, int64_t* change) const {
    if (!b.complete()) return false;
    uint64_t n = 0;
    if (!gather(to, b.pairs, n) || !gather(from, b.pairs, n) || !pack(b.pairs, uint32_t(n), b.image, b.filter, b.taken))
      return false;
    *change = -used(from) - used(to);
    write(to, b);
    *change += used(to);
    return true;
  }

  // Dead slots go. False, and nothing has changed, if there is no memory for that.
  bool repack(uint64_t s, buffers& b, int64_t* change) const {
    uint64_t n = 0;
    if (!b.complete() || !gather(s, b.pairs, n) || !pack(b.pairs, uint32_t(n), b.image, b.filter, b.taken))
      return false;
    *change = -used(s);
    write(s, b);
    *change += used(s);
    return true;
  }

  // A pair whose home is full.
  bool put_in_stash(word w) const {
    const key k = F::key_of(w);
    const index home = t_.home(k);
    for (uint32_t i = 0, at = t_.stash_slots ? t_.stash_start(k) : 0; i < t_.stash_path; ++i, ++at) {
      word& slot = t_.stash[at % t_.stash_slots];
      if (is_live<F>(slot)) continue;
      slot = w;
      *t_.filter_of(home) &= ~t_.filter_bit(k, home);
      *t_.note = 0;
      return true;
    }
    return false;
  }

  // P3. The change of the slots used; *left pairs stay.
  int64_t drain_stash(uint64_t* stay) const {
    *stay = 0;
    if (!t_.stash_slots || *t_.note == ~0u) return 0;
    int64_t change = 0;
    uint64_t& left = *stay;
    uint32_t dead = 0;
    for (uint32_t i = 0; i < t_.stash_slots; ++i) {
      const word w = t_.stash[i];
      dead += is_dead<F>(w);
      if (!is_live<F>(w)) continue;
      const key k = F::key_of(w);
      const index home = t_.home(k);
      word* const free = free_slot(home);
      if (!free) {
        *t_.filter_of(home) &= ~t_.filter_bit(k, home);
        ++left;
        continue;
      }
      change += is_empty<F>(*free);
      *free = w;
      t_.stash[i] = vacant<F>();
      ++dead;
    }
    if (left) return change;
    memset(t_.stash, 0xff, t_.stash_slots * sizeof(word));
    *t_.note = ~0u;
    return change - int64_t(dead);
  }

 private:
  word* slots_of(uint64_t s) const { return t_.slots + s * slots_; }
  u32* filter_of(uint64_t s) const { return t_.filter + s * t_.segment_buckets / 4; }

  int64_t used(uint64_t s) const {
    const word* const at = slots_of(s);
    int64_t n = 0;
    for (uint64_t i = 0; i < slots_; ++i) n += !is_empty<F>(at[i]);
    return n;
  }
  word* free_slot(index b) const {
    for (uint32_t i = 0; i < 1u << t_.slot_bits; ++i)
      if (!is_live<F>(t_.bucket(b)[i])) return t_.bucket(b) + i;
    return nullptr;
  }

  // Append the pairs of a segment. False: they are too many for one.
  bool gather(uint64_t s, word* pairs, uint64_t& n) const {
    const word* const at = slots_of(s);
    for (uint64_t i = 0; i < slots_; ++i) {
      if (!is_live<F>(at[i])) continue;
      if (n == slots_) return false;
      pairs[n++] = at[i];
    }
    return true;
  }
  void write(uint64_t s, const buffers& b) const {
    memcpy(slots_of(s), b.image, slots_ * sizeof(word));
    memcpy(filter_of(s), b.filter, t_.segment_buckets);
  }

  bool split_packed(uint64_t from, uint64_t to, index bit, buffers& b) const {
    const word* const at = slots_of(from);
    uint64_t stay = 0, go = slots_;  // those that stay from the front on, those that go from the end on
    for (uint64_t i = 0; i < slots_; ++i) {
      const word w = at[i];
      if (!is_live<F>(w)) continue;
      const bool goes = t_.first_hash(F::key_of(w)) & bit;
      b.pairs[goes ? go - 1 : stay] = w;
      go -= goes, stay += !goes;
    }
    // No key has its home in the new segment yet: it is packed where it lies.
    if (!pack(b.pairs + go, uint32_t(slots_ - go), slots_of(to), filter_of(to), b.taken)) return false;
    if (!pack(b.pairs, uint32_t(stay), b.image, b.filter, b.taken)) return false;
    write(from, b);
    return true;
  }
  void split_in_place(uint64_t from, uint64_t to, index bit) const {  // P2
    word* const old = slots_of(from);
    word* const fresh = slots_of(to);
    for (uint64_t i = 0; i < slots_; ++i) {
      const word w = old[i];
      const bool live = is_live<F>(w), goes = live && t_.first_hash(F::key_of(w)) & bit;
      fresh[i] = goes ? w : is_empty<F>(w) ? w : vacant<F>();
      old[i] = goes ? vacant<F>() : w;
    }
    memcpy(filter_of(to), filter_of(from), t_.segment_buckets);
  }

  // P1. The order of the pairs changes.
  bool pack(word* pairs, uint32_t n, word* image, u32* filter, u8* taken) const {
    const uint32_t bucket_slots = 1u << t_.slot_bits;
    memset(static_cast<void*>(image), 0xff, slots_ * sizeof(word));
    memset(filter, 0xff, t_.segment_buckets);
    memset(taken, 0, t_.segment_buckets);
    uint32_t rest = 0;
    for (uint32_t i = 0; i < n; ++i) {
      const word w = pairs[i];
      const uint64_t b = t_.place_of(t_.first_hash(F::key_of(w)));
      const bool fits = taken[b] < bucket_slots;
      (fits ? image + (b << t_.slot_bits) + taken[b] : pairs + rest)[0] = w;
      taken[b] = u8(taken[b] + fits), rest += !fits;
    }
    for (uint32_t i = 0; i < rest; ++i)
      if (!push(pairs[i], image, filter, taken)) return false;
    return true;
  }
  // Put a pair whose home is full into another of its buckets; it or one that it pushes out, and so on.
  bool push(word w, word* image, u32* filter, u8* taken) const {
    const uint32_t bucket_slots = 1u << t_.slot_bits;
    u32 drawn = mix(u32(F::key_of(w)));
    index left = ~index(0);  // the bucket that w was pushed out of
    for (uint32_t step = 0; step <= longest_walk; ++step) {
      const key k = F::key_of(w);
      const index own = t_.place_of(t_.first_hash(k));
      const auto enter = [&](uint32_t way) {
        if (way) filter[own >> 2] &= ~t_.filter_bit(k, own);
        return t_.bucket_among(k, own, way);
      };
      for (uint32_t way = 0; way < t_.ways; ++way) {
        const uint64_t b = t_.bucket_among(k, own, way);
        if (taken[b] == bucket_slots) continue;
        image[(b << t_.slot_bits) + taken[b]++] = w;
        enter(way);
        return true;
      }
      drawn = drawn * 1664525u + 1013904223u;  // numbers without quality, for which a slot needs none
      uint32_t way = (drawn >> 16) % t_.ways;
      if (t_.bucket_among(k, own, way) == left) way = (way + 1) % t_.ways;
      const index b = enter(way);
      word& slot = image[(uint64_t(b) << t_.slot_bits) + (drawn >> 24) % bucket_slots];
      const word out = slot;
      slot = w, w = out, left = b;
    }
    return false;
  }

  const table& t_;
  const uint64_t slots_;
};

}  // namespace gpuhash
