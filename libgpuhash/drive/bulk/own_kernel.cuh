// Large batches: a structure whose partitions have a shape of their own, and are served by a kernel of its own.
//
// A block copies its partition into its memory, serves the partition's elements there, and writes the partition back.
// What lies in a partition, and how elements are added and erased, is the structure's; that elements come in windows,
// one partition a block, and how a slot is read, written, swapped and changed, is here.
#pragma once
#include "libgpuhash/drive/bulk/image.cuh"
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

inline constexpr u32 own_threads = tunable("cuda.own_threads", 384u);  // of a block

// Self is the structure's block, and has
//   blocks, window_each                 blocks of a multiprocessor; elements of a thread in a window
//   load(), store()                     of the partition
//   add(window, more), erase_all_of(window)    the elements of a window; `more`: others follow
template <class Self, class Table, class Format, u32 Kind>
class own_partition {
 public:
  using F = Format;
  using table = Table;

  // The block is a copy of its own here: through `this` the compiler takes more registers.
  GH_FN static void run(Self block, totals* sum) {
    const bulk_work<F>& w = block.w;
    const u32 n = count_of(w.partition.n + blockIdx.x, w.partition_room);
    if (n == 0) return;  // the whole block
    block.load();
    constexpr u32 at_once = Self::window_each * own_threads;
    for (u32 from = 0; from < n; from += at_once) {
      const u32 many = n - from < at_once ? n - from : at_once;
      const u64 first = u64(blockIdx.x) * w.partition_room + from;
      const window these{w.partition.word + first, w.partition.at ? w.partition.at + first : nullptr, many};
      if constexpr (adds)
        block.add(these, from + many < n);
      else
        block.erase_all_of(these);
    }
    __syncthreads();
    block.store();
    add_sums(sum, block.q.batch_sum, warp_sum(block.done.live), warp_sum(block.done.used),
             warp_sum(int(block.done.good)), 0, 0);
  }

 protected:
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  static constexpr bool adds = Kind != erase;
  static constexpr u32 wide = wide_words<F>;

  // Elements that are served at a time.
  struct window {
    const word* mine;
    const u32* at;  // their numbers in the batch, or NULL
    u32 many;
  };

  GH_FN own_partition(const table& a_table, const request& a_request, const bulk_work<F>& a_work, word* image)
      : t(a_table), q(a_request), w(a_work), j(joiner_of(a_request)), slots(image) {}

  GH_FN word at(u32 slot) const { return block_mem::load<order::relaxed>(slots + slot); }
  GH_FN void put(u32 slot, word e) const { block_mem::store<order::relaxed>(slots + slot, e); }
  GH_FN bool swap(u32 slot, word from, word to) const {
    return block_mem::cas<order::relaxed>(slots + slot, from, to) == from;
  }
  // The pair in this slot, whose key is e's.
  GH_FN void change(u32 slot, word e) const {
    if constexpr (Kind == assign) put(slot, e);
    if constexpr (Kind == accumulate) {
      if (adds_integers(j)) return block_mem::add_value<F>(slots + slot, F::value_of(e), j.narrow);
      for (;;) {
        const word seen = at(slot);
        const word want = wanted<F>(Kind, j, true, F::value_of(seen), F::key_of(e), F::value_of(e));
        if (want == seen || swap(slot, seen, want)) return;
      }
    }
  }
  // Let the slot of key k, if there is one, be k's tombstone. False: another element of k was first, or there is none.
  GH_FN bool erase_in(u32 slot, key k) {
    const word seen = slot == none ? empty_word<F>() : at(slot);
    const bool erased = F::key_of(seen) == k && swap(slot, seen, tombstone<F>(k));  // or an equal one did
    done.live -= erased;
    done.good += erased;
    return erased;
  }
  // Calls take(element, number) for each element of the window. Returns a bit for each of this thread's for which it
  // was false.
  template <class Take>
  GH_FN u32 take_each(const window& these, const Take& take) {
    constexpr u32 at_once = loads_at_once;
    u32 left = 0;
    for (u32 from = 0, turn = 0; from < these.many; from += at_once * own_threads, turn += at_once) {
      word e[at_once];
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 x = from + g * own_threads + threadIdx.x;
        if (x < these.many) e[g] = these.mine[x];
      }
#pragma unroll
      for (u32 g = 0; g < at_once; ++g) {
        const u32 x = from + g * own_threads + threadIdx.x;
        if (x < these.many && !take(e[g], x)) left |= 1u << (turn + g);
      }
    }
    return left;
  }
  // The element of a bit.
  GH_FN static u32 number_of(u32 bit) { return u32(__ffs(bit) - 1) * own_threads + threadIdx.x; }
  // Element x goes to the table itself.
  GH_FN void leave(const window& these, u32 x) const { append(w.rest, these.mine[x], these.at ? these.at[x] : 0); }

  const table& t;
  const request& q;
  const bulk_work<F>& w;
  const joiner j;
  word* const slots;
  done_here done;
};

template <class Block>
__global__ void __launch_bounds__(own_threads, Block::blocks)
    serve_own(const __grid_constant__ typename Block::table t, const __grid_constant__ request q,
              const __grid_constant__ bulk_work<typename Block::F> w, totals* sum) {
  after_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  if (!w.found->divided) return;
  Block::run(Block(t, q, w, memory), sum);
}

// What such a structure says of its partitions, in part.
template <class F, class Table, template <class, u32> class Block>
struct own_partitions_of {
  using table = Table;
  using index = typename F::index;
  using word = typename F::word;
  static constexpr bool own_partitions = true;
  static constexpr u32 group_bits(const table&) { return 0; }
  static auto server(u32 kind) {
    return kind == erase        ? serve_own<Block<F, erase>>
           : kind == assign     ? serve_own<Block<F, assigns<F>>>
           : kind == accumulate ? serve_own<Block<F, joins<F>>>
                                : serve_own<Block<F, insert>>;
  }
  // Words of the image of so many slots in the memory of a block, which permutes what lies in a row (block_mem).
  static constexpr u32 image_of(u32 n) {
    constexpr u32 of_row = 128 / sizeof(word);
    return (n + of_row - 1) / of_row * of_row;
  }
};

GH_END
