// Large batches: equal keys of a partition become one element, before the partition is served.
//
// A key that is not in the list of frequent keys may still repeat: a key that ten elements name is ten elements of one
// partition. A block combines them in a table of sums in its own memory, and writes the list of its partition anew. A
// trial says whether that pays, with the first elements of a few partitions: among m elements of d distinct keys about
// m^2 / 2d repeat one. Where n elements are fewer than d, most keys have one element.
#pragma once
#include "libgpuhash/drive/bulk/combine.cuh"

GH_BEGIN

inline constexpr u32 combine_threads = tunable("cuda.combine_threads", 1024u);
inline constexpr u32 combine_bytes = tunable("cuda.combine_bytes", 96u * 1024);
inline constexpr u32 trial_slots = 4 * combine_threads;
template <class F>  // with statuses a slot also has the element that answers for its key
constexpr u32 combine_slots(bool with_statuses) {
  return combine_bytes / (sizeof(typename F::key) + sizeof(typename F::value) + (with_statuses ? sizeof(u32) : 0));
}

// The lists whose elements are combined: bins of partitions, or the partitions' own lists.
template <class F>
GH_FN const element_list<F>& lists_to_combine(const bulk_work<F>& w) {
  return w.sub_bits ? w.bin : w.partition;
}

// The trial.
inline constexpr u32 lists_tried = 64, least_combined = combine_threads / 4;
template <class F>
__global__ void __launch_bounds__(combine_threads, 1) try_combining(const __grid_constant__ bulk_work<F> w) {
  after_the_one_before();
  using key = typename F::key;
  using some_keys = key[trial_slots];
  GH_BLOCK_MEMORY(some_keys, keys);
  if (!w.found->divided) return;
  const u32 lists = w.sub_bits ? w.bins : w.partitions, room = w.sub_bits ? w.bin_room : w.partition_room,
            me = threadIdx.x;
  const u32 list = u32(u64(blockIdx.x) * lists / lists_tried);
  const bool again = blockIdx.x && list == u32(u64(blockIdx.x - 1) * lists / lists_tried);
  const u32 n = count_of(lists_to_combine(w).n + list, room);
  if (again || n < least_combined) return;  // the same for the whole block
  const u32 looked_at = n / 2 < combine_threads ? n / 2 : combine_threads;
  for (u32 i = me; i < trial_slots; i += combine_threads) keys[i] = empty_key<key>;
  __syncthreads();
  bool there = false;
  if (me < looked_at)
    place_in_block(keys, trial_slots, F::key_of(lists_to_combine(w).word[u64(list) * room + me]), &there);
  const u32 repeats = sum_of_block(there);
  if (me) return;
  atomicAdd(&w.found->combining_saves, u32(u64(2 * combining_unit) * repeats * n / (u64(looked_at) * looked_at)));
  atomicAdd(&w.found->combining_costs, combining_unit);
}

// A block of the kernel `combine_partitions`, for each list. Where combining does not pay, elements only move from the
// bins of a partition into its list.
template <class F>
class partition_combiner {
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  static constexpr u32 at_once = 2;  // with more of them registers would be spilled

 public:
  GH_FN partition_combiner(const request& a_request, const bulk_work<F>& a_work, key* memory, u32* a_counter)
      : q(a_request),
        w(a_work),
        keys(memory),
        listed(a_counter),
        partition(blockIdx.x >> a_work.sub_bits),
        me(threadIdx.x),
        from(lists_to_combine(a_work)),
        n(count_of(from.n + blockIdx.x, room())) {}

  GH_FN void run() {
    const u32 saves = w.found->combining_saves, costs = w.found->combining_costs;
    const bool combines = costs && saves >= costs / 4 * 3 && n >= least_combined;  // three elements for four keys
    if (!combines && !w.sub_bits) return;                                          // the same for the whole block
    const u32 most = combine_slots<F>(w.rest.at);
    slots = 2 * n < most ? 2 * n : most;
    sums = reinterpret_cast<value*>(keys + most);
    leaders = reinterpret_cast<u32*>(sums + most);
    j = joiner_of(q);
    default_status = w.found->default_status;
    if (combines) clear_sums(keys, sums, slots, combine_threads, j);
    if (me == 0) *listed = 0;
    __syncthreads();
    for (u32 begin = 0; begin < n; begin += at_once * combine_threads) read(begin, combines);
    __syncthreads();  // all have been read
    if (!combines) return;
    for (u32 begin = 0; begin < slots; begin += combine_threads) {
      const u32 i = begin + me < slots ? begin + me : 0;
      const bool some = begin + me < slots && keys[i] != empty_key<key>;
      list(some, F::make(keys[i], sums[i]), some && with_statuses() ? leaders[i] : 0);
    }
    __syncthreads();
    if (me == 0 && !w.sub_bits) w.partition.n[partition] = *listed;
  }

 private:
  GH_FN u32 room() const { return w.sub_bits ? w.bin_room : w.partition_room; }
  GH_FN bool with_statuses() const { return w.rest.at; }

  // Elements from number `begin` of the list on, at_once of each thread.
  GH_FN void read(u32 begin, bool combines) const {
    const u64 first_of_list = u64(blockIdx.x) * room();
    word e[at_once];
    u32 number[at_once] = {};
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const u32 x = begin + g * combine_threads + me;
      if (x < n) e[g] = from.word[first_of_list + x];
      if (x < n && with_statuses()) number[g] = from.at[first_of_list + x];
    }
#pragma unroll
    for (u32 g = 0; g < at_once; ++g) {
      const bool mine = begin + g * combine_threads + me < n;
      u32 at = none;
      bool there = false;
      if (mine && combines && may_join_first(j, F::value_of(e[g]), log_combined))
        at = place_in_block(keys, slots, F::key_of(e[g]), &there);
      if (at != none) join_in_block(sums + at, F::value_of(e[g]), j);
      if (at != none && with_statuses()) {
        if (!there) leaders[at] = number[g];
        if (there && default_status != no) q.status[number[g]] = u8(no);
      }
      if (!combines)
        list(mine, e[g], number[g]);
      else if (mine && at == none)
        append(w.rest, e[g], number[g]);
    }
  }
  // The partition's list gets the elements of a warp's lanes that have `some`; the rest gets those that find no room.
  GH_FN void list(bool some, word e, u32 number) const {
    const u64 first_of_partition = u64(partition) * w.partition_room;
    const u32 at = take_places(w.sub_bits ? w.partition.n + partition : listed, some);
    const bool fits = some && at < w.partition_room;
    if (fits) {
      w.partition.word[first_of_partition + at] = e;
      if (with_statuses()) w.partition.at[first_of_partition + at] = number;
    }
    append_some(w.rest, some && !fits, e, number);
  }

  const request& q;
  const bulk_work<F>& w;
  key* const keys;
  u32* const listed;  // elements of the new list so far
  const u32 partition, me;
  const element_list<F>& from;
  const u32 n;
  u32 slots, default_status;
  value* sums;
  u32* leaders;  // with statuses: of each key the element that answers
  joiner j;
};

template <class F>
__global__ void __launch_bounds__(combine_threads, 2)
    combine_partitions(const __grid_constant__ request q, const __grid_constant__ bulk_work<F> w) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(typename F::key, keys);
  GH_BLOCK_MEMORY(u32, listed);
  if (!w.found->divided) return;
  partition_combiner<F>(q, w, keys, &listed).run();
}

GH_END
