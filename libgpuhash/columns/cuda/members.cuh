// Which rows of a column are among those of another one, on a CUDA device: a block makes a table of the others in a bin, and
// looks up the rows in the same bin.
//
// Others that fill the table are served in parts, each with an empty table. Repeats of a key take no room: of others that
// are all alike there is one part. Keys that are frequent in the two columns come into no bin (sample.cuh): a key that an other
// row has is marked as soon as that row is seen, when rows are divided.
#pragma once
#include "libgpuhash/columns/cuda/partition.cuh"

namespace gpuhash::columns {

template <class K>
class looking_block {
  static constexpr u32 slots = slots_of_bin(false), each = rows_of_thread(false), chunk = bin_threads * each;
  static constexpr u32 most_keys = slots - slots / 8;  // of one part
  static_assert(chunk <= most_keys);

 public:
  struct counters {
    u32 taken;
  };
  static constexpr size_t bytes = room_of(slots, sizeof(K));

  GH_FN looking_block(const group_work<K>& work, unsigned char* at, counters* some)
      : w(work),
        me(threadIdx.x),
        others(work.bin_start[blockIdx.x]),
        many_others(work.bin_end[blockIdx.x] - others),
        rows(work.bin_start[blockIdx.x + (1u << work.plan.bits)]),
        many(work.bin_end[blockIdx.x + (1u << work.plan.bits)] - rows),
        key(reinterpret_cast<K*>(at)),
        c(*some) {}

  GH_FN void run() const {
    if (!many) return;
    u32 served = 0;
    do {
      for (u32 i = me; i < slots; i += bin_threads) key[i] = no_hash<K>;
      if (me == 0) c.taken = 0;
      __syncthreads();
      const bool first = served == 0;
      served = insert(served);
      look_up(first);
      __syncthreads();
    } while (served < many_others);
  }

 private:
  // Inserts others from one on, as many as the table certainly takes. Returns the next one.
  GH_FN u32 insert(u32 from) const {
    const bool all_fit = many_others <= most_keys;
    bool has_room = true;
    do {
      const u32 end = all_fit ? many_others : min(many_others, from + chunk);
      u32 own = 0;
      for (u32 x = from + me; x < end; x += bin_threads) own += put(w.bin_key[others + x]);
      if (!all_fit) own = __reduce_add_sync(whole_warp, own);
      if (!all_fit && me % 32 == 0 && own) atomicAdd(&c.taken, own);
      __syncthreads();
      from = end;
      has_room = c.taken + chunk <= most_keys;
      if (!all_fit) __syncthreads();  // all threads have read what the first ones to go on add to
    } while (from < many_others && has_room);
    return from;
  }
  // Returns whether the key is new.
  GH_FN bool put(K h) const {
    for (u32 at = slot_in_bin<slots>(h);; at = (at + 1) % slots) {
      K there = *static_cast<volatile K*>(key + at);
      if (there == no_hash<K>) there = swap_if(key + at, no_hash<K>, h);
      if (there == h) return false;
      if (there == no_hash<K>) return true;
    }
  }

  // A thread takes its next row as soon as it is done with one. first: of all parts of the others; the later ones find more.
  GH_FN void look_up(bool first) const {
    u8* const answer = w.bin_member() + rows;
    for (u32 x = me; x < many; x += bin_threads) {
      const K h = w.bin_key[rows + x];
      u32 at = slot_in_bin<slots>(h);
      K there = key[at];
      while (there != h && there != no_hash<K>) there = key[at = (at + 1) % slots];
      if (first || there == h) answer[x] = there == h;
    }
  }

  const group_work<K>& w;
  const u32 me, others, many_others, rows, many;
  K* const key;
  counters& c;
};

template <class K>
__global__ void __launch_bounds__(bin_threads) look_up_bins(const __grid_constant__ group_work<K> w) {
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(typename looking_block<K>::counters, some);
  looking_block<K>(w, memory, &some).run();
}

}  // namespace gpuhash::columns
