// Columns on a CUDA device: the table of a bin, in the memory of the block that serves the bin.
//
// A bin has about 2,000 rows, but may have any number, and any number of keys. Rows come in chunks, each row to one thread. While
// the table has room, a new key enters it; a row whose key is not there when the table is full waits for another round over
// the bin, with an empty table. All rows of a key are served in one round: a row that found no room is looked up again when
// all threads have stopped inserting. So each round serves as many keys as the table holds, and the last one ends.
#pragma once
#include "libgpuhash/columns/cuda/work.cuh"

namespace gpuhash::columns {

// Values: slots have aggregates, too, so that there are fewer of them.
template <class K, bool Values>
class bin_table {
 public:
  static constexpr u32 slots = slots_of_bin(Values), each = rows_of_thread(Values), chunk = bin_threads * each;
  // Keys that a table takes; then each thread may have one more on its way, and there is an empty slot after that.
  static constexpr u32 most_keys = slots - 2 * bin_threads;
  static_assert(most_keys + bin_threads < slots && chunk <= most_keys);
  static constexpr size_t table_bytes = room_of(slots, sizeof(K)) + room_of(chunk, sizeof(K));

  // Blocks that a multiprocessor has memory for, where each takes so many bytes.
  static constexpr u32 resident(size_t bytes) {
    constexpr u32 most = threads_of_processor / bin_threads;
    const u32 room = u32(bytes_of_processor / (bytes + reserved_of_block));
    return room < most ? room : most;
  }

 protected:
  // keys_taken: memory of the block.
  GH_FN bin_table(const group_work<K>& work, carver& memory, u32* keys_taken, u32 bin = blockIdx.x)
      : me(threadIdx.x),
        from(work.bin_start[bin]),
        many(work.bin_end[bin] - from),
        may_be_full(many > most_keys),
        hash(work.bin_key + from),
        key(memory.take<K>(slots)),
        staged(memory.take<K>(chunk)),
        taken(keys_taken) {}

  static GH_FN u32 slot_of(K h) { return slot_in_bin<slots>(h); }

  // Sets all words of an array in the memory of the block.
  template <class Word>
  GH_FN void fill(Word* array, u32 many_words, u32 word) const {
    constexpr u32 at_once = sizeof(neighbouring_words) / sizeof(Word);
    for (u32 i = me; i < many_words / at_once; i += bin_threads)
      reinterpret_cast<neighbouring_words*>(array)[i] = {{word, word, word, word}};
  }
  GH_FN void clear_keys() const {
    fill(key, slots, ~0u);
    if (me == 0) *taken = 0;
  }

  // A thread stages, inserts and looks up rows of its own: those at its number, and every bin_threads-th from there on. The
  // hashes of a chunk are on their way while `meanwhile` is done.
  template <class Meanwhile>
  GH_FN void stage(const K* hashes, u32 here, Meanwhile meanwhile) const {
    K h[each];
#pragma unroll
    for (u32 i = 0; i < each; ++i) h[i] = i * bin_threads + me < here ? hashes[i * bin_threads + me] : 0;
    meanwhile();
#pragma unroll
    for (u32 i = 0; i < each; ++i) staged[i * bin_threads + me] = h[i];
  }

  // What is staged for a row becomes the slot of its key, if Keeps; `slots` where it has none. hit(slot, is the key new): of each
  // row that has one. A thread takes its next row as soon as it is done with one: so a warp takes as long as the longest sum of
  // probes of a lane, and not as the sum of the longest probes. MayBeFull: keys may be more than the table takes. Returns
  // whether a row of this thread found no room.
  template <bool MayBeFull, bool Keeps, class Hit>
  GH_FN bool insert_chunk(u32 here, Hit hit) const {
    bool failed = false;
    u32 x = me, at = 0;
    K h = no_hash<K>;
    if (x < here) at = slot_of(h = staged[x]);
    while (x < here) {
      const bool served_before = MayBeFull && h == no_hash<K>;
      K there = *static_cast<volatile K*>(key + at);
      bool is_new = false;
      if (there == no_hash<K> && !served_before && (!MayBeFull || has_room())) {
        there = swap_if(key + at, no_hash<K>, h);
        is_new = there == no_hash<K>;
        if (is_new) {
          there = h;
          if (MayBeFull) atomicAdd(taken, 1u);
        }
      }
      const bool is_there = there == h && !served_before;
      if (!is_there && (!MayBeFull || (there != no_hash<K> && !served_before))) {
        at = (at + 1) % slots;
        continue;
      }
      if constexpr (MayBeFull || Keeps) staged[x] = is_there ? at : slots;
      failed |= !is_there && !served_before;
      if (is_there) hit(at, is_new);
      x += bin_threads;
      if (x < here) at = slot_of(h = staged[x]);
    }
    return failed;
  }
  // Rows of a chunk that found no room, once no thread inserts: their keys may have come into the table meanwhile.
  template <class Hit>
  GH_FN bool look_again(u32 at, u32 here, Hit hit) const {
    bool failed = false;
    for (u32 x = me; x < here; x += bin_threads) {
      if (u32(staged[x]) != slots) continue;
      const K h = hash[at + x];
      const u32 slot = find(h);
      staged[x] = slot;
      failed |= slot == slots && h != no_hash<K>;
      if (slot != slots) hit(slot, false);
    }
    return failed;
  }

  // The slot of a row of the bin, when a round has served all keys of the round.
  GH_FN u32 slot_at(u32 x) const { return many <= chunk ? u32(staged[x]) : find(hash[x]); }

  // Looks others up, whose hashes are not those that mark empty slots: give(which, its slot, is it there). What is staged is
  // lost. A thread takes its next one as soon as it is done with one, as in insert_chunk.
  template <class Give>
  GH_FN void look_up_all(const K* hashes, u32 others, Give give) const {
    for (u32 begin = 0; begin < others; begin += chunk) {
      const u32 here = min(chunk, others - begin);
      stage(hashes + begin, here, [] {});
      u32 x = me, at = 0;
      K h = no_hash<K>;
      if (x < here) at = slot_of(h = staged[x]);
      while (x < here) {
        const K there = key[at];
        if (there != h && there != no_hash<K>) {
          at = (at + 1) % slots;
          continue;
        }
        give(begin + x, at, there == h);
        x += bin_threads;
        if (x < here) at = slot_of(h = staged[x]);
      }
    }
  }

  const u32 me, from, many;  // from: where the rows of the bin begin
  const bool may_be_full;
  K *const hash, *const key, *const staged;
  u32* const taken;  // keys in the table, where it may be full

 private:
  GH_FN bool has_room() const { return *static_cast<volatile u32*>(taken) < most_keys; }

  GH_FN u32 find(K h) const {
    if (h == no_hash<K>) return slots;
    for (u32 at = slot_of(h);; at = (at + 1) % slots) {
      const K there = key[at];
      if (there == h) return at;
      if (there == no_hash<K>) return slots;
    }
  }
};

}  // namespace gpuhash::columns
