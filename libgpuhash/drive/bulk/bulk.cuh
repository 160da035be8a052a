// The CUDA driver for large batches: who serves which part of the table.
//
// One element at a time, a table is bound by random accesses of memory, and by the keys that many elements name: those all
// wait for one slot. A batch that is large beside its table is divided by parts of the table that fit into the memory of a
// block; then each block reads its part, carries out what belongs there, and writes the part back. Memory is accessed in
// long runs only. The table is held exclusively meanwhile.
//
//   pick          empties the lists, and reads a few thousand elements
//   sample        which keys are frequent among these; and does it pay to divide the batch? If not, its elements are served
//                 one after the other (request::unless), unless it was clear before (kit/parts.hpp)
//   ask           what will most elements of a told batch answer? Some of their keys are looked for
//   join_all      an untold accumulate most of whose elements are of frequent keys or of runs: nothing is divided. A block
//                 joins equal keys in a cache, and what finds no place there goes to the table itself, or is left
//   divide        elements go to bins, in one pass or two: by groups of parts, then by parts. Frequent keys, and those of
//                 the side slots, go to no bin: a block joins the elements of such a key, as one operation
//   try_joining   do the elements of a part repeat keys, all the same? A few parts are looked at, of an accumulate
//   join_parts    if so, a block for each part makes one element of those of equal keys
//   serve_parts   a block for each part: what is plain by counting, the rest by ops.hpp, on a table that lies in the
//                 block's memory
//   serve_rest    one at a time, in the table itself: frequent keys, and at last what is left
//   retry_failed  an accumulate: what found no room, and whose key is there after all
//   tell_failed   what is joined fails together. Of an accumulate, whose elements are joined in several places, those whose
//                 keys are absent
//
// Left are elements that their bin had no room for, and those whose path leaves their part. They go the same way a second
// time: among them keys are frequent that were not among all.
//
// Parts says of a structure:
//   using table, F                       its layout and slot format. t.slots: t.n_slots slots, which are cut into parts of
//                                        2^part_bits; both multiples of 16 bytes
//   op<Tile, Kind>                       its operations, for a tile of one lane; not with own_parts
//   static bool applies(t)               may this table be divided at all?
//   static constexpr bool adds_in_place  do integers that are accumulated one after the other wait for nobody?
//   static constexpr bool own_parts      are the parts not 2^part_bits slots each, and served by a kernel of its own?
//   static constexpr bool divides_skewed  are batches of parts=auto divided whose keys repeat? Else those alone of which
//                                        hardly any does, and those that join_all takes
//   static constexpr u64 least           elements of a batch of auto whose keys hardly repeat, in a table with contents, and
//   static constexpr u64 least_share     slots for each of them, at most
//   static constexpr u64 least_sums(told, contents)  of an accumulate, whatever its keys, in a table that has contents or is
//                                        nearly empty; and of (true, false) of any batch in one that is nearly empty. Where
//                                        they are fewer than `least`, there may be half as many slots for each
//   static constexpr bool empty_only(kind, told)  are these divided only where hardly any slot is in use? No element takes more
//                                        than one
//   static constexpr bool sums_if_repeating  are told sums of auto divided, in a table with contents, only if some sampled
//                                        elements repeat a key?
//   static bool pays(t, q)               is it worth while to divide such a batch of auto for this table?
//   static constexpr bool declines       is a batch of auto that adds, and has no frequent keys, better served one element after
//                                        the other where many slots are dead?
//   static index group_of(t, key)        the group where a path begins; own_parts: the part, or a bucket of it
//   static constexpr bool joins_directly  may join_all serve elements of the table itself? Else it leaves what it has joined
//   rest_op                              its operations of any kind, for a tile
// without own_parts
//   static u32 least_bits(t)             the smallest part_bits
//   static table local(t, slots, n)      a part of n slots as a table
//   static index local_home(t, group)    a home there whose group is this one
//   static bool left(op)                 did the path of a finished operation leave the part, so that nothing was done?
//   static u32 group_bits(t)             homes are the first slots of groups of 2^group_bits slots, which begin at multiples
//                                        of that, from 64 to 128 bytes. The slots in use are the first ones of a group. A
//                                        key that is not in the group of its home, of which a slot is empty, is nowhere
//   static constexpr bool goes_on        does a path go from a full group to the next one?
// with own_parts
//   static u64 slots(t), parts(t)        how many there are
//   static u32 part_bits(t)              2^part_bits of what group_of() says are a part
//   static u64 shares(t)                 no part has more than one in so many of the keys
//   static size_t serve_bytes(t, told)   of a block's memory
//   static auto server(kind)             the kernel; see serve_parts
//   static bool dead_at(t, random)       if it declines: is a slot that no other one is preferred to dead?
//   static constexpr u32 group_bits(t)   0
#pragma once
#include "libgpuhash/drive/bulk/failed.cuh"
#include "libgpuhash/drive/bulk/plan.cuh"
#include "libgpuhash/drive/bulk/rest.cuh"
#include "libgpuhash/drive/bulk/sample_table.cuh"

GH_BEGIN

template <class Parts>
auto serve_parts_of(u32 kind) {
  if constexpr (Parts::own_parts)
    return Parts::server(kind);
  else
    return kind == insert       ? serve_parts<Parts, insert>
           : kind == assign     ? serve_parts<Parts, assign>
           : kind == accumulate ? serve_parts<Parts, accumulate>
                                : serve_parts<Parts, erase>;
}

// The batch in chunks, each of which has the memory to itself.
template <class Parts>
int run_by_parts(const void* table, const request& given, totals* sum, void* memory,
                 int (*otherwise)(const void* table, const request& q, totals* sum)) {
  using F = typename Parts::F;
  const auto& t = *static_cast<const typename Parts::table*>(table);
  parts_work<F> w{};
  u64 bytes = 0;
  plan_parts<Parts>(t, given, memory, &w, &bytes);
  const bool told = given.status != nullptr;
  const bool may_decline = Parts::declines && given.parts != parts_always && given.kind != erase;
  const size_t bytes_of_part = serve_bytes<Parts>(t, w.part_bits, told);
  for (u64 done = 0; done < given.n; done += w.chunk) {
    request q = part_of(given, done, given.n - done < w.chunk ? given.n - done : w.chunk);
    w.n = q.n;
    // Kernels that find nothing to do end at once.
    for (const bool again : {false, true}) {
      w.again = again;
      w.fresh = given.added == 0 && done == 0 && !again;
      std::swap(w.source, w.rest);  // what the first time leaves is the source of the second
      int e = again ? launch_next(pick<F>, pick_blocks, block_threads, 0, q.stream, q, w)
                    : launch(pick<F>, pick_blocks, block_threads, q.stream, q, w);
      if (!e) e = launch_next(sample<F>, 1, sample_threads, sample_bytes<F>(), q.stream, q, w);
      if constexpr (Parts::declines)
        if (!e && may_decline && !again) e = launch_next(decline_for_dead<Parts>, 1, part_threads, 0, q.stream, t, w);
      if (!e && told && q.kind != erase && !again) e = launch_next(ask<Parts>, 1, block_threads, 0, q.stream, t, q, w);
      if constexpr (F::has_value)
        if (!e && (again ? w.may_join_left : w.may_join))
          e = launch_next(join_all<Parts>, w.blocks, part_threads, joined_bytes, q.stream, t, q, w, sum);
      if (!e)
        e = launch_next(divide<Parts, false>, w.blocks, part_threads, divide_bytes<F>(false, w.tile[0], told), q.stream,
                        t, q, w);
      if (!e && w.bin_bits)
        e = launch_next(divide<Parts, true>, w.blocks, part_threads, divide_bytes<F>(true, w.tile[1], told), q.stream,
                        t, q, w);
      if constexpr (F::has_value)
        if (!e && w.may_join_parts && (!again || w.sub_bits)) {
          e = launch_next(try_joining<F>, lists_tried, join_threads, 0, q.stream, w);
          if (!e)
            e = launch_next(join_parts<F>, w.sub_bits ? w.bins : w.parts, join_threads, part_joined_bytes, q.stream, q,
                            w);
        }
      if (!e && w.part_room)
        e = launch_next(serve_parts_of<Parts>(q.kind), w.parts, Parts::own_parts ? serve_threads : part_servers,
                        bytes_of_part, q.stream, t, q, w, sum);
      if (!e)
        e = launch_next(serve_rest<Parts>, w.blocks / 2 * rest_blocks<Parts>, block_threads, 0, q.stream, t, q, w, sum);
      if constexpr (F::has_value)
        if (!e && w.sums && again) e = launch_next(retry_failed<Parts>, w.blocks, block_threads, 0, q.stream, t, q, w);
      if (!e) e = launch_next(tell_failed<Parts>, w.blocks, block_threads, 0, q.stream, t, q, w, sum);
      if (e) return e;
    }
    if (w.divides & whatever_they_are && !may_decline) continue;
    q.unless = &w.found->divided_first;
    if (const int e = otherwise(table, q, sum)) return e;
  }
  return 0;
}

template <class Parts>
inline constexpr parts_engine parts_of = {memory_for_parts<Parts>, run_by_parts<Parts>};

GH_END
