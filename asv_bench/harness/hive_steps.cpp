// Inserts into a hive table, by one thread, that are counted and timed step by step: for hive_steps.py.
//   hive_steps SLOTS WAYS LOAD...
// For each load a line: inserts into the empty table until then; cycles of each step; locks, moves of keys, inserts that moved
// some, the most moves of one insert; keys in the stash; inserts without room; inserts of 1, 2, 3 and more moves.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__x86_64__)
#include <x86intrin.h>
static uint64_t ticks() { return __rdtsc(); }
#else
#include <chrono>
static uint64_t ticks() { return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()); }
#endif

// What happens inside of an insert: plugins/hive/place.hpp says when.
enum step { home_bucket, other_bucket, under_lock, eviction, to_stash, steps };
enum event { locked, evicting, moved, stashing, unlocked };
static struct {
  step now = home_bucket;
  uint64_t since = 0, cycles[steps] = {}, locks = 0, moves = 0;
  void enter(step next) {
    const uint64_t t = ticks();
    cycles[now] += t - since;
    now = next, since = t;
  }
  void on(event e) {
    if (e == locked) enter(under_lock);
    if (e == evicting) enter(eviction);
    if (e == stashing) enter(to_stash);
    locks += e == unlocked;
    moves += e == moved;
  }
} the_clock;
#define HIVE_EVENT(what) the_clock.on(what)

#include <vector>

#include "plugins/hive/host_tile.hpp"

using namespace gpuhash;

// As table.hpp and layout.hpp have them by default, in one segment.
static constexpr u32 bucket_bits = HIVE_BUCKET_BITS;
using table = hive_table<pair32>;
using tile = hive_host_tile<pair32, 1 << bucket_bits>;
using op = hive_op<tile, insert>;

int main(int argc, char** argv) {
  const u64 slots = strtoull(argv[1], nullptr, 10) >> bucket_bits << bucket_bits;
  table t{};
  t.seed = 1, t.base = 1, t.segment_buckets = u32(slots >> bucket_bits), t.slot_bits = bucket_bits;
  t.ways = u32(atoi(argv[2])), t.stash_slots = u32(slots / 64),
  t.stash_path = t.stash_slots < 128 ? t.stash_slots : 128;
  u32 n_locks = 64;
  while (n_locks < t.segment_buckets / 8) n_locks *= 2;
  t.lock_mask = n_locks - 1;
  std::vector<u64> words(slots + t.stash_slots + 16, ~u64(0));
  std::vector<u32> locks(n_locks, ~0u), filter(t.segment_buckets / 4 + 1, ~0u);
  u32 note = ~0u;
  t.slots = words.data() + (16 - reinterpret_cast<uintptr_t>(words.data()) / 8 % 16) % 16;
  t.stash = t.slots + slots, t.locks = locks.data(), t.filter = filter.data(), t.note = &note;

  u32 next = 0;
  u64 chains = 0, longest = 0, full = 0, of_length[4] = {};
  for (int a = 3; a < argc; ++a) {
    const u32 end = u32(strtod(argv[a], nullptr) * double(slots));
    for (; next < end; ++next) {
      const u32 k = mix(next + 1);
      tile here;
      op o;
      o.start(t, insert, k, next, t.home(k));
      if (next + 16 < end) __builtin_prefetch(t.bucket(t.home(mix(next + 17))), 1);
      const u64 before = the_clock.moves;
      the_clock.now = home_bucket, the_clock.since = ticks();
      for (;;) {
        verdict d = o.step(here, t, joiner{}, here.load(o.line(t)), true);
        if (d == verdict::next) {
          the_clock.enter(other_bucket);
          continue;
        }
        if (d == verdict::slow) d = o.slow(here, t, joiner{}, true);
        if (d == verdict::done) break;
      }
      the_clock.enter(home_bucket);
      const u64 n = the_clock.moves - before;
      if (n) ++of_length[n < 4 ? n - 1 : 3];
      chains += n != 0, longest = n > longest ? n : longest, full += o.res.status != yes;
    }
    u64 stashed = 0;
    for (u32 i = 0; i < t.stash_slots; ++i) stashed += is_live<pair32>(t.stash[i]);
    printf("%s %llu", argv[a], u64(end) - full);
    for (const u64 c : the_clock.cycles) printf(" %llu", c);
    printf(" %llu %llu %llu %llu %llu %llu", u64(the_clock.locks), u64(the_clock.moves), chains, longest, stashed,
           full);
    for (const u64 c : of_length) printf(" %llu", c);
    puts("");
  }
}
