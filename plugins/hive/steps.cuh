// The kernels of hive's linear hashing on CUDA (steps.hpp): segments.hpp, whose rules P1 to P3 hold here, by the threads of a
// block for each segment.
//
// A segment is packed in four passes with a barrier after each. Counters of the buckets' slots lie in the block's memory; a
// thread that adds to one and finds less than a bucket's slots has the slot of that number.
//   1  every pair goes to its home, if that has room; the others are listed
//   2  those go to another of their buckets, if that has room; the others are listed
//   3  one thread puts these in the place of others, and those in the place of others, and so on. They are few: in a table
//      of the default load none at a split, and some in a hundred pairs at a merge
//   4  what was packed is written to where it belongs, and slots that are not taken become EMPTY
#pragma once
#include "layout.hpp"
#include "libgpuhash/drive/cuda.cuh"
#include "sizes.hpp"
#include "steps.hpp"

GH_BEGIN

template <class F>
class segment_block {
  using table = hive_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;
  using mem = cuda_mem;

 public:
  // Of the block.
  struct counters {
    u32 listed, listed_again, failed, used_before, used_after;
  };

  // In the work memory of a segment: what it will be, and the two lists.
  static constexpr u64 slots_of(const table& t) { return u64(t.segment_buckets) << t.slot_bits; }
  static constexpr u64 list_slots(const table& t) { return slots_of(t) / listed_share; }
  static constexpr u64 work_words(const table& t) { return slots_of(t) + 2 * list_slots(t); }
  // In the block's memory: a counter for each bucket and a filter, of two segments.
  static constexpr u32 block_bytes(const table& t) { return 2 * u32(t.segment_buckets) * 5; }

  GH_FN segment_block(const table& a_table, const segment_step& step, word* work, u32* shared, counters& c)
      : t(a_table),
        q(step),
        at(step.first + blockIdx.x),
        slots(slots_of(a_table)),
        buckets(u32(a_table.segment_buckets)),
        most_listed(u32(list_slots(a_table))),
        image(work + blockIdx.x * work_words(a_table)),
        list(image + slots),
        list_again(list + most_listed),
        taken(shared),
        filter(shared + 2 * buckets),
        now(c) {}

  GH_FN void run(segment_result* results) const {
    begin();
    __syncthreads();
    take_in(at);
    if (q.what == segment_step::merge) take_in(at + q.apart);
    __syncthreads();
    cap();
    __syncthreads();
    place_listed();
    __syncthreads();
    cap();
    __syncthreads();
    if (threadIdx.x == 0 && !now.failed) push_listed();
    __syncthreads();
    const bool packed = !now.failed;
    if (packed)
      write_packed();
    else if (q.what == segment_step::split)
      split_in_place();
    __syncthreads();
    if (threadIdx.x) return;
    // A split that was not packed has as many slots in use in both segments.
    const u32 after = packed ? now.used_after : q.what == segment_step::split ? 2 * now.used_before : now.used_before;
    results[blockIdx.x].change = int64_t(after) - int64_t(now.used_before);
    results[blockIdx.x].done = packed || q.what == segment_step::split;
  }

 private:
  GH_FN bool splits() const { return q.what == segment_step::split; }
  GH_FN u32 sides() const { return splits() ? 2 : 1; }
  GH_FN u32 bucket_slots() const { return 1u << t.slot_bits; }
  GH_FN u32 side_of(index h) const { return splits() && h & index(q.bit) ? 1 : 0; }
  GH_FN word* segment(u64 s) const { return t.slots + s * slots; }
  GH_FN u32* filter_words(u64 s) const { return t.filter + s * (buckets / 4); }
  // Where the pairs of a side are packed. No key has its home in the new segment yet: it is packed where it lies.
  GH_FN word* packed_at(u32 side) const { return side ? segment(at + q.apart) : image; }
  GH_FN word load(const word* p) const { return mem::load<order::relaxed>(p); }
  GH_FN void store(word* p, word w) const { mem::store<order::relaxed>(p, w); }

  GH_FN void begin() const {
    if (threadIdx.x == 0) now = {};
    for (u32 i = threadIdx.x; i < 2 * buckets; i += block_threads) taken[i] = 0;
    for (u32 i = threadIdx.x; i < buckets / 2; i += block_threads) filter[i] = ~0u;
  }
  GH_FN void note_outside(key k, index own, u32 side) const {
    atomicAnd(filter + side * (buckets / 4) + (u32(own) >> 2), ~t.filter_bit(k, own));  // H3
  }
  // A slot of a bucket for w. False: it is full.
  GH_FN bool take(u32 side, index b, word w) const {
    const u32 place = atomicAdd(taken + side * buckets + u32(b), 1u);
    if (place >= bucket_slots()) return false;
    store(packed_at(side) + (u64(b) << t.slot_bits) + place, w);
    return true;
  }
  GH_FN void put_on(word* to, u32* length, word w) const {
    const u32 i = atomicAdd(length, 1u);
    if (i < most_listed)
      store(to + i, w);
    else
      now.failed = 1;
  }

  GH_FN void take_in(u64 s) const {
    u32 used = 0;
    for (u64 i = threadIdx.x; i < slots; i += block_threads) {
      const word w = load(segment(s) + i);
      used += !is_empty<F>(w);
      if (!is_live<F>(w)) continue;
      const index h = t.first_hash(F::key_of(w));
      if (!take(side_of(h), t.place_of(h), w)) put_on(list, &now.listed, w);
    }
    if (used) atomicAdd(&now.used_before, used);
  }
  // Counters say how many slots are taken, not how many wanted one.
  GH_FN void cap() const {
    for (u32 i = threadIdx.x; i < 2 * buckets; i += block_threads)
      taken[i] = taken[i] < bucket_slots() ? taken[i] : bucket_slots();
  }
  GH_FN void place_listed() const {
    const u32 n = now.listed < most_listed ? now.listed : most_listed;
    for (u32 i = threadIdx.x; i < n; i += block_threads) {
      const word w = load(list + i);
      const key k = F::key_of(w);
      const index h = t.first_hash(k), own = t.place_of(h);
      const u32 side = side_of(h);
      bool placed = false;
      for (u32 way = 1; way < t.ways && !placed; ++way) placed = take(side, t.bucket_among(k, own, way), w);
      if (placed)
        note_outside(k, own, side);
      else
        put_on(list_again, &now.listed_again, w);
    }
  }
  GH_FN void push_listed() const {
    for (u32 i = 0; i < now.listed_again && !now.failed; ++i) now.failed = !push(load(list_again + i));
  }
  // As segment_worker::push does it.
  GH_FN bool push(word w) const {
    u32 drawn = mix(u32(F::key_of(w)));
    index left = ~index(0);  // the bucket that w was pushed out of
    for (u32 step = 0; step <= longest_walk; ++step) {
      const key k = F::key_of(w);
      const index h = t.first_hash(k), own = t.place_of(h);
      const u32 side = side_of(h);
      for (u32 way = 0; way < t.ways; ++way) {
        const index b = t.bucket_among(k, own, way);
        u32& n = taken[side * buckets + u32(b)];
        if (n == bucket_slots()) continue;
        store(packed_at(side) + (u64(b) << t.slot_bits) + n, w);
        ++n;
        if (way) note_outside(k, own, side);
        return true;
      }
      drawn = drawn * 1664525u + 1013904223u;
      u32 way = (drawn >> 16) % t.ways;
      if (t.bucket_among(k, own, way) == left) way = (way + 1) % t.ways;
      const index b = t.bucket_among(k, own, way);
      if (way) note_outside(k, own, side);
      word* const slot = packed_at(side) + (u64(b) << t.slot_bits) + (drawn >> 24) % bucket_slots();
      const word out = load(slot);
      store(slot, w);
      w = out;
      left = b;
    }
    return false;
  }

  GH_FN void write_packed() const {
    u32 used = 0;
    for (u32 side = 0; side < sides(); ++side) {
      const u64 s = side ? at + q.apart : at;
      for (u64 i = threadIdx.x; i < slots; i += block_threads) {
        const bool full = u32(i) % bucket_slots() < taken[side * buckets + u32(i >> t.slot_bits)];
        used += full;
        if (!full)
          store(segment(s) + i, empty_word<F>());
        else if (!side)
          store(segment(s) + i, load(image + i));
      }
      for (u32 i = threadIdx.x; i < buckets / 4; i += block_threads)
        mem::store<order::relaxed>(filter_words(s) + i, filter[side * (buckets / 4) + i]);
    }
    if (used) atomicAdd(&now.used_after, used);
  }
  GH_FN void split_in_place() const {  // P2
    for (u64 i = threadIdx.x; i < slots; i += block_threads) {
      const word w = load(segment(at) + i);
      const bool goes = is_live<F>(w) && side_of(t.first_hash(F::key_of(w)));
      store(segment(at + q.apart) + i, goes || is_empty<F>(w) ? w : vacant<F>());
      if (goes) store(segment(at) + i, vacant<F>());
    }
    for (u32 i = threadIdx.x; i < buckets / 4; i += block_threads)
      mem::store<order::relaxed>(filter_words(at + q.apart) + i, mem::load<order::relaxed>(filter_words(at) + i));
  }

  const table& t;
  const segment_step& q;
  const u64 at;     // this segment's number
  const u64 slots;  // of a segment
  const u32 buckets, most_listed;
  word *const image, *const list, *const list_again;
  u32 *const taken, *const filter;
  counters& now;
};

template <class F>
__global__ void __launch_bounds__(block_threads)
    step_segments(const __grid_constant__ hive_table<F> t, const __grid_constant__ segment_step q,
                  typename F::word* work, segment_result* results) {
  GH_DYNAMIC_MEMORY(u32, shared);
  GH_BLOCK_MEMORY(typename segment_block<F>::counters, now);
  segment_block<F>(t, q, work, shared, now).run(results);
}

GH_FN void add_stash_result(stash_result* to, u32 change, u32 left, u32 dead) {
  const u32 all_change = warp_sum(change), all_left = warp_sum(left), all_dead = warp_sum(dead);
  if (threadIdx.x % 32) return;
  if (all_change) atomicAdd(reinterpret_cast<u64*>(&to->change), u64(all_change));
  if (all_left) atomicAdd(reinterpret_cast<u64*>(&to->left), u64(all_left));
  if (all_dead) atomicAdd(reinterpret_cast<u64*>(&to->dead), u64(all_dead));
}

// P3, a thread for each slot of the stash. Only others like this one write.
template <class F>
__global__ void __launch_bounds__(block_threads)
    drain_stash(const __grid_constant__ hive_table<F> t, stash_result* result) {
  using word = typename F::word;
  const bool any = cuda_mem::load<order::relaxed>(t.note) != ~0u;
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const word w = any && i < t.stash_slots ? cuda_mem::load<order::relaxed>(t.stash + i) : empty_word<F>();
  u32 change = 0, left = is_live<F>(w), dead = is_dead<F>(w);
  if (left) {
    const auto k = F::key_of(w);
    const auto home = t.home(k);
    word* const bucket = t.bucket(home);
    for (u32 s = 0; s < 1u << t.slot_bits && left; ++s) {
      const word seen = cuda_mem::load<order::relaxed>(bucket + s);
      if (is_live<F>(seen) || !(cuda_mem::cas<order::relaxed>(bucket + s, seen, w) == seen)) continue;  // or is by now
      change = is_empty<F>(seen);
      left = 0;
    }
    if (left) {
      cuda_mem::fetch_and<order::relaxed>(t.filter_of(home), ~t.filter_bit(k, home));
    } else {
      cuda_mem::store<order::relaxed>(t.stash + i, vacant<F>());
      dead = 1;
    }
  }
  add_stash_result(result, change, left, dead);
}

// A thread for each slot of the old stash.
template <class F>
__global__ void __launch_bounds__(block_threads)
    refill_stash(const __grid_constant__ hive_table<F> t, const typename F::word* old, u64 n, stash_result* result) {
  using word = typename F::word;
  const u64 i = blockIdx.x * u64(block_threads) + threadIdx.x;
  const word w = i < n ? cuda_mem::load<order::relaxed>(old + i) : empty_word<F>();
  const u32 in_use = !is_empty<F>(w);
  u32 change = 0, left = is_live<F>(w);
  if (left) {
    const u32 first = t.stash_slots ? t.stash_start(F::key_of(w)) : 0;
    for (u32 s = 0, at = first; s < t.stash_path && left; ++s, ++at)
      left = !(cuda_mem::cas<order::relaxed>(t.stash + at % t.stash_slots, empty_word<F>(), w) == empty_word<F>());
    change = !left;  // the filter knows of them all
    cuda_mem::store<order::relaxed>(t.note, 0u);
  }
  add_stash_result(result, change, left, in_use);
}

template <class F>
struct segment_kernels {
  static const hive_table<F>& of(const void* table) { return *static_cast<const hive_table<F>*>(table); }
  static u64 blocks(u64 n) { return (n + block_threads - 1) / block_threads; }

  static size_t work_bytes(const void* table) {
    return segment_block<F>::work_words(of(table)) * sizeof(typename F::word);
  }
  static int step(const void* table, const segment_step& s, void* work, segment_result* results, void* stream) {
    if (s.count == 0) return 0;
    return launch_with(step_segments<F>, s.count, block_threads, segment_block<F>::block_bytes(of(table)), stream,
                       of(table), s, static_cast<typename F::word*>(work), results);
  }
  static int drain(const void* table, stash_result* result, void* stream) {
    const hive_table<F>& t = of(table);
    if (t.stash_slots == 0) return 0;
    return launch(drain_stash<F>, blocks(t.stash_slots), block_threads, stream, t, result);
  }
  static int restash(const void* table, const void* old, uint64_t slots, stash_result* result, void* stream) {
    if (slots == 0) return 0;
    return launch(refill_stash<F>, blocks(slots), block_threads, stream, of(table),
                  static_cast<const typename F::word*>(old), u64(slots), result);
  }
  static constexpr segment_engine all = {work_bytes, step, drain, restash};
};

GH_END
