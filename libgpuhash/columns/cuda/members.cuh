// Which rows of a column are among those of another one, on a CUDA device: a block makes a table of the others in a bin, and
// looks up the rows in the same bin.
//
// Others that fill the table are served in parts, each with an empty table. Repeats of a key take no room: of others that
// are all alike there is one part. Keys that are frequent in the two columns come into no bin (sample.cuh): a key that an other
// row has is marked as soon as that row is seen, when rows are divided.
#pragma once
#include "libgpuhash/columns/cuda/partition.cuh"
#include "libgpuhash/columns/cuda/table.cuh"

namespace gpuhash::columns {

template <class K>
class looking_block : bin_table<K, false> {
  using table = bin_table<K, false>;
  using table::chunk, table::hash, table::many, table::me, table::most_keys, table::taken;

 public:
  struct counters {
    u32 taken;
  };
  static constexpr size_t bytes = table::table_bytes;
  static constexpr u32 resident = table::resident(bytes);

  GH_FN looking_block(const group_work<K>& work, carver memory, counters* some)
      : table(work, memory, &some->taken),
        w(work),
        rows(work.bin_start[blockIdx.x + (1u << work.plan.bits)]),
        many_rows(work.bin_end[blockIdx.x + (1u << work.plan.bits)] - rows) {}

  GH_FN void run() const {
    if (!many_rows) return;
    u32 served = 0;
    do {
      this->clear_keys();
      __syncthreads();
      const bool first = served == 0;
      served = insert(served);
      look_up(first);
      __syncthreads();
    } while (served < many);
  }

 private:
  // Inserts others from one on, as many as the table certainly takes. Returns the next one.
  GH_FN u32 insert(u32 from) const {
    const bool all_fit = many <= most_keys;
    bool has_room = true;
    do {
      const u32 end = all_fit ? many : min(many, from + chunk);
      u32 own = 0;
      for (; from < end; from += chunk) {
        const u32 here = min(chunk, end - from);
        this->stage(hash + from, here, [] {});
        this->template insert_chunk<false, false>(here, [&](u32, bool is_new) { own += is_new; });
      }
      if (!all_fit) own = __reduce_add_sync(whole_warp, own);
      if (!all_fit && me % 32 == 0 && own) atomicAdd(taken, own);
      __syncthreads();
      has_room = *taken + chunk <= most_keys;
      if (!all_fit) __syncthreads();  // all threads have read what the first ones to go on add to
    } while (from < many && has_room);
    return from;
  }

  // first: of all parts of the others; the later ones find more.
  GH_FN void look_up(bool first) const {
    u8* const answer = w.bin_member() + rows;
    this->look_up_all(w.bin_key + rows, many_rows, [&](u32 x, u32, bool there) {
      if (first || there) answer[x] = there;
    });
  }

  const group_work<K>& w;
  const u32 rows, many_rows;
};

template <class K>
__global__ void __launch_bounds__(bin_threads, looking_block<K>::resident)
    look_up_bins(const __grid_constant__ group_work<K> w) {
  wait_for_the_one_before();
  GH_DYNAMIC_MEMORY(unsigned char, memory);
  GH_BLOCK_MEMORY(typename looking_block<K>::counters, some);
  looking_block<K>(w, carver(memory), &some).run();
}

}  // namespace gpuhash::columns
