// The tile: one source of every structure for CUDA, CPU and the explorer.
//
// A tile is W lanes that serve one operation together and read one row of R slots with one load. On CUDA it is W
// threads of a warp, 16 bytes a lane (cuda.cuh); on the CPU one thread that holds the row in vector registers
// (host.hpp); under the explorer a fiber that asks the scheduler before each access of each lane (sim.hpp).
//
// A structure's ops.hpp is written against two things only:
//
//   Mem                                           scalar accesses, one lane on its own
//     T    load<order>(const T* p)                T is u32, u64 or u128; order is relaxed or acquire
//     void store<order>(T* p, T v)                relaxed or release
//     T    cas<order>(T* p, T expected, T desired)  what was seen; equal to expected when it won
//     T    exchange<order>(T* p, T v)             u32, u64
//     T    fetch_add|fetch_or|fetch_and<order>(T* p, T v)    u32, u64
//     void relax(u32 turns = 0)                   in every loop that waits for another tile; longer after many turns in vain
//     void fence()                                acquire and release, for relaxed accesses before and after it
//     bool allocation_fails()                     false; the explorer says true where an allocation is to fail
//
//   Tile (for a slot format F and a row of R slots: Tile::format, Tile::slots == R, Tile::mem)
//     row   load(const word* line)                the whole row, relaxed; each slot is read once, atomically, but
//                                                 the row is NOT a snapshot: slots may be of different moments
//     hits  with_key(row, key, first, end = R)    slots first..end-1 whose key half is key
//     hits  with_word(row, word, first, end = R)  slots first..end-1 that equal word
//     hits  at_most(row, key, first, end = R)     slots first..end-1 whose key half is no larger than key
//     word  last_word(row, hits)                  the last hit, whole, in every lane
//     bool  any(hits)                             tile-uniform
//     u32   number(hits)                          how many
//     hits  choose(bool, hits a, hits b)          a or b
//     value value_at(row, hits)                   value of the first hit as the row shows it, in every lane
//     word  word_at(row, hits)                    the same, whole
//     word  slot(row, i)                          slot i as the row shows it, in every lane
//     bool  cas(bool go, word* line, row, hits, word desired)
//                                                 if go, one lane swaps the first hit from the word that the row shows
//                                                 to desired; every lane learns whether it won (relaxed)
//     void  add(bool go, word* line, row, hits, value, bool narrow)
//     void  replace(bool go, word* line, row, hits, word)
//                                                 if go, one lane adds to the value of the first hit, or stores a word there.
//                                                 Only where no key can leave its slot meanwhile, and if
//                                                 Mem::only_values_change exists (kit/meaning.hpp)
//     T     once(bool go, act)                    if go, act() by one lane: scalar accesses, loops allowed; every lane
//                                                 learns what it returned. For slow parts only
//
// Rules, each of which an ops.hpp has to keep:
//   1. All memory of a table is touched through these calls, never directly.
//   2. One access size per location.
//   3. A step is straight-line code: every call above but any and choose, which exchange nothing between lanes, is made
//      unconditionally, and only its `go` says whether memory
//      is written. On CUDA all tiles of a warp take their steps together (lockstep), with full-warp masks.
//   4. All control flow is tile-uniform. Lane-varying data hides in row and hits; neither converts to bool.
//   5. What cannot be straight-line (allocation, eviction, splitting) returns verdict::slow. Then all tiles of a warp call
//      slow() together; those with go = false change nothing.
//   6. Every loop is bounded or calls relax() while it waits for a tile that can always finish.
//
// An operation is a state machine, so that a driver may keep many in flight, prefetch, refill and interleave:
//
//   struct op {                                   // trivially copyable, small: it lives in registers
//     void start(const table&, u32 kind, key, value, home)   // home = table.home(key), computed lane by lane
//     const word* line(const table&) const        // the row to visit now
//     verdict step(Tile&, const table&, joiner, const row&, bool go)
//     verdict slow(Tile&, const table&, joiner, bool go)      static constexpr bool has_slow says whether it is ever asked for
//     result res;                                 // {status, value, live, used}, valid once done
//   };
//
// And, for the driver of the CPU, if it likes:
//     static void find_homes(const table&, const key*, home*, const void** lines, u32 n)     // of a block, in place of table.home
//     bool may_write_here() const                 // else the row is asked for to read; without it that is done if the kind reads
//
// The driver (drive/*.hpp) does the loads, so that it can start those of several operations before it resolves one.
#pragma once
#include "libgpuhash/tile/kinds.hpp"

GH_BEGIN

// live, used: what the operation adds to the table's counters (-1, 0 or 1).
template <class F>
struct result {
  u32 status;
  int live, used;
  typename F::value value;
};

GH_END
