// Large batches: a block serves a partition of 2^n slots in its own memory, as a table of its own.
//
// Elements that add take slots by counting (count_slots.cuh), where there are not too many of them. All others, and
// those that counting has left, go through ops.hpp, one lane an element. An operation whose path leaves the partition
// does nothing, and its element goes to the list of the rest. A structure whose partitions have another shape brings a
// kernel instead (own_kernel.cuh).
#pragma once
#include "libgpuhash/drive/bulk/count_slots.cuh"
#include "libgpuhash/drive/bulk/image.cuh"

GH_BEGIN

inline constexpr u32 serve_threads = tunable("cuda.serve_threads", 256u);  // of a block
template <class F, u32 Kind>  // with more of them registers would be spilled
inline constexpr int serve_blocks = sizeof(typename F::word) == 16                                   ? 3
                                    : F::has_value && sizeof(typename F::key) == 4 && Kind != insert ? 5
                                                                                                     : 4;
inline constexpr u32 few_each = 4;  // elements of a thread, if there are few of them

// The memory of a block: the slots; for elements that are counted a counter for each group, what is left, and chains;
// with statuses, the element that took each slot. The counters become a list of elements for ops.hpp.
template <class Partitions>
constexpr size_t serve_bytes(const typename Partitions::table& t, u32 partition_bits, bool with_statuses) {
  if constexpr (Partitions::own_partitions) return Partitions::serve_bytes(t, with_statuses);
  const size_t slots = size_t(1) << partition_bits;
  return slots * sizeof(typename Partitions::F::word) + (slots >> Partitions::group_bits(t)) * sizeof(u32) + 16 +
         chained_at_most * (sizeof(u32) + sizeof(uint16_t)) + (with_statuses ? slots * sizeof(uint16_t) : 0);
}

// Elements for ops.hpp.
struct left_elements {
  u32 total, room;         // how many there are, and how many of them are listed at a time
  u32 own = 0;             // a bit for each of this thread's elements
  u32 before = 0;          // elements of other threads that come before this thread's
  bool in_chains = false;  // are these numbers of elements of the chains?
};

template <class Partitions, u32 Kind>
class serving_block {
  using F = typename Partitions::F;
  using word = typename F::word;
  using op_type = typename Partitions::template op<lone_tile<F, block_mem>, Kind>;
  static constexpr bool adds = Kind != erase;

 public:
  GH_FN serving_block(const typename Partitions::table& a_table, const request& a_request, const bulk_work<F>& a_work,
                      word* memory, u32 elements)
      : t(a_table),
        q(a_request),
        w(a_work),
        me(threadIdx.x),
        n(elements),
        begin(u64(blockIdx.x) << a_work.partition_bits),
        size(u32(a_table.n_slots - begin < u64(1) << a_work.partition_bits ? a_table.n_slots - begin
                                                                           : u64(1) << a_work.partition_bits)),
        mine(a_work.partition.word + u64(blockIdx.x) * a_work.partition_room),
        at(a_work.partition.at ? a_work.partition.at + u64(blockIdx.x) * a_work.partition_room : nullptr),
        j(joiner_of(a_request)),
        counts(adds && n <= size && n <= 32 * serve_threads),
        group_bits(Partitions::group_bits(a_table)),
        groups(size >> group_bits),
        first_group(u32(begin >> group_bits)),
        slots(memory),
        counters(reinterpret_cast<u32*>(slots + (u64(1) << a_work.partition_bits))),
        n_left(counters + ((u64(1) << a_work.partition_bits) >> group_bits)),
        chains(n_left + 4),
        chained(reinterpret_cast<uint16_t*>(chains + chained_at_most)),
        counted{slots,
                counters,
                chains,
                a_request.status ? chained + chained_at_most : nullptr,
                at,
                a_request.status,
                a_work.found->default_status,
                group_bits,
                groups} {}

  GH_FN void run(totals* sum) {
    copy_to_block<F, serve_threads>(slots, t.slots + begin, size, w.fresh, [&](u32 i, bool some, const word* words) {
      if (counts) counted.begin(i, some, words);
    });
    if (me < 3) n_left[me] = 0;
    __syncthreads();
    left_elements left{n, n};
    if constexpr (adds)
      if (counts) count(left);
    serve_left(left);
    copy_to_table<F, serve_threads>(t.slots + begin, slots, size);
    add_sums(sum, q.batch_sum, warp_sum(done.live), warp_sum(done.used), warp_sum(int(done.good)), 0, 0);
  }

 private:
  GH_FN u32 group_of(word e) const { return u32(Partitions::group_of(t, F::key_of(e))) - first_group; }
  GH_FN void leave(word e, u32 x) const { append(w.rest, e, at ? at[x] : 0); }

  // ---- by counting --------------------------------------------------------------------------------------------------

  GH_FN void count(left_elements& left) {
    left.own = take_slots();
    __syncthreads();
    for (u32 g = me; g < groups; g += serve_threads) counted.finish_group(g, j, done);
    if (left.own) left.before = atomicAdd(n_left, u32(__popc(left.own)));
    __syncthreads();
    left.total = *n_left;
    if (Partitions::goes_on && left.total && left.total <= chained_at_most) place_overflow(left);  // of the whole block
    left.room = 2 * groups;
  }
  // A bit for each of this thread's elements that took no slot.
  GH_FN u32 take_slots() {
    constexpr u32 at_once = loads_at_once;
    u32 left = 0;
    bool pays = true;
    for (u32 from = 0, turn = 0; from < n; from += at_once * serve_threads, turn += at_once) {
      word e[at_once];
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 x = from + g * serve_threads + me;
        if (x < n && pays) e[g] = mine[x];
      }
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 x = from + g * serve_threads + me;
        if (x < n && !(pays && counted.take(e[g], x, group_of(e[g]), j))) left |= 1u << (turn + g);
      }
      if (from == 0 && n > at_once * serve_threads) {  // many elements of few keys are left, all of them
        if (left) atomicAdd(n_left + 1, u32(__popc(left)));
        __syncthreads();
        pays = n_left[1] < at_once * serve_threads / 4;
      }
    }
    return left;
  }
  GH_FN void place_overflow(left_elements& left) {
    for (u32 bits = left.own, to = left.before; bits; bits &= bits - 1, ++to)
      chained[to] = uint16_t(u32(__ffs(bits) - 1) * serve_threads + me);
    __syncthreads();
    for (u32 i = me; i < left.total; i += serve_threads) {
      const word e = mine[chained[i]];
      counted.chain(e, group_of(e), i + 1);
    }
    __syncthreads();
    left.own = 0;
    left.in_chains = true;
    for (u32 i = me, bit = 1; i < left.total; i += serve_threads, bit *= 2) {
      const u32 x = chained[i];
      const word e = mine[x];
      const u32 end = counted.place_overflow(e, x, group_of(e), i + 1, done);
      if (end == overflow_left) leave(e, x);
      if (end == overflow_unclear) left.own |= bit;
    }
    if (left.own) left.before = atomicAdd(n_left + 2, u32(__popc(left.own)));
    __syncthreads();
    left.total = n_left[2];
  }

  // ---- by ops.hpp ---------------------------------------------------------------------------------------------------

  GH_FN void serve_left(const left_elements& left) {
    uint16_t* const list = reinterpret_cast<uint16_t*>(counters);
    for (u32 served = 0; served < left.total; served += left.room) {
      if (counts) {
        u32 to = left.before - served;
        for (u32 bits = left.own; bits; bits &= bits - 1, ++to) {
          const u32 own = u32(__ffs(bits) - 1) * serve_threads + me;
          if (to < left.room) list[to] = left.in_chains ? chained[own] : uint16_t(own);
        }
        __syncthreads();
      }
      const u32 many = left.total - served < left.room ? left.total - served : left.room;
      serve_list(many, [&](u32 i) { return counts ? u32(list[i]) : i; });
      __syncthreads();
    }
  }
  // Element i of the list has number(i) in the partition. A thread goes from one element to its next while others of
  // its warp are still on their way, since paths differ in length. The next but one comes from memory meanwhile.
  template <class Number>
  GH_FN void serve_list(u32 many, Number number) {
    const auto local = Partitions::local(t, slots, size);
    typename op_type::tile_type tile;
    op_type op;
    const auto start = [&](word e) {
      op.start(local, Kind, F::key_of(e), F::value_of(e), Partitions::local_home(t, group_of(e)));
    };
    // Few elements by few warps: a warp takes as long as its longest path, unless its threads have several each.
    const u32 wanted = (many / few_each + 31) & ~31u;
    const u32 threads = wanted < 32 ? 32 : wanted < serve_threads ? wanted : serve_threads;
    u32 i = me < threads ? me : many, x = 0, x_ahead = 0;
    word e{}, ahead{};
    if (i < many) {
      x = number(i);
      e = mine[x];
      start(e);
    }
    if (i + threads < many) {
      x_ahead = number(i + threads);
      ahead = mine[x_ahead];
    }
    while (__any_sync(full_warp, i < many)) {  // a vote, so that the lanes of a warp meet again
      if (i >= many || op.step(tile, local, j, tile.load(op.line(local)), true) != verdict::done) continue;
      if (Partitions::left(op)) {
        leave(e, x);
      } else {
        done.live += op.res.live;
        done.used += op.res.used;
        done.good += op.res.status == yes;
        counted.report(x, op.res.status);
      }
      i += threads;
      x = x_ahead;
      e = ahead;
      if (i < many) start(e);
      if (i + threads < many) {
        x_ahead = number(i + threads);
        ahead = mine[x_ahead];
      }
    }
  }

  const typename Partitions::table& t;
  const request& q;
  const bulk_work<F>& w;
  const u32 me, n;  // n: elements of the partition
  const u64 begin;  // slots of other partitions before it
  const u32 size;
  const word* const mine;
  const u32* const at;  // the elements' numbers in the batch, or NULL
  const joiner j;
  const bool counts;  // if there are more elements than slots, most elements have a key that others have, too
  const u32 group_bits, groups, first_group;
  word* const slots;
  u32* const counters;
  u32* const n_left;  // elements that took no slot; of the first ones; that chains have left
  u32* const chains;
  uint16_t* const chained;  // numbers of the elements of the chains
  const counted_partition<Partitions, Kind> counted;
  done_here done;
};

template <class Partitions, u32 Kind>
__global__ void __launch_bounds__(serve_threads, serve_blocks<typename Partitions::F, Kind>)
    serve_partitions(const __grid_constant__ typename Partitions::table t, const __grid_constant__ request q,
                     const __grid_constant__ bulk_work<typename Partitions::F> w, totals* sum) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(typename Partitions::F::word, slots);
  if (!w.found->divided) return;
  const u32 n = count_of(w.partition.n + blockIdx.x, w.partition_room);
  if (n) serving_block<Partitions, Kind>(t, q, w, slots, n).run(sum);  // the same for the whole block
}

GH_END
