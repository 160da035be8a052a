// Inserts into a hive table that are counted and timed step by step: for hive_steps.py. c++ compiles it for one thread of a CPU,
// nvcc (-x cu) for all warps of a GPU, of which each has one element at a time.
//   hive_steps SLOTS WAYS LOAD...
// For each load a line: inserts into the empty table until then; cycles of each step, added up over warps; locks, moves of
// keys, inserts that moved some, the most moves of one insert; keys in the stash; inserts without room; inserts of 1, 2, 3 and
// more moves. In the end every key is looked for: status 1 if one is not where it should be, or twice.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__CUDACC__) || defined(GPUHASH_EMULATED_WARP)  // tests emulate warps
#define ON_WARPS
#endif
#if defined(__CUDACC__)
#define STEPS_FN __device__ __forceinline__
#else
#define STEPS_FN inline
#endif
#if defined(__CUDA_ARCH__)
STEPS_FN uint64_t ticks() { return uint64_t(clock64()); }
#elif defined(__x86_64__) && !defined(__CUDACC__)
#include <x86intrin.h>
STEPS_FN uint64_t ticks() { return __rdtsc(); }
#else
#include <chrono>
STEPS_FN uint64_t ticks() { return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()); }
#endif

// What happens inside of an insert: plugins/hive/place.hpp and ops.hpp say when.
enum step { home_bucket, other_bucket, under_lock, eviction, to_stash, steps };
enum event { locked, evicting, moved, stashing, unlocked };
enum counter { evicted, of_length, no_place = of_length + 4, counters };
using count64 = unsigned long long;
struct step_clock {
  step now;
  count64 since, cycles[steps], locks, moves, counts[counters], longest;

  STEPS_FN void enter(step next) {
    const count64 t = ticks();
    cycles[now] += t - since;
    now = next, since = t;
  }
  STEPS_FN void on(event e) {
    if (e == locked) enter(under_lock);
    if (e == evicting) enter(eviction);
    if (e == stashing) enter(to_stash);
    locks += e == unlocked;
    moves += e == moved;
  }
  STEPS_FN void ended(count64 moves_before, bool without_room) {
    enter(home_bucket);
    const count64 n = moves - moves_before;
    if (n) ++counts[of_length + (n < 4 ? n - 1 : 3)];
    counts[evicted] += n != 0, longest = n > longest ? n : longest, counts[no_place] += without_room;
  }
};
STEPS_FN step_clock& the_clock();  // of the warp, or of the thread
#define HIVE_EVENT(what) the_clock().on(what)

#include <vector>

#if defined(ON_WARPS)
#include <cuda_runtime.h>

#include "plugins/hive/ops.hpp"
#include "plugins/hive/tile.cuh"
#else
#include "plugins/hive/host_tile.hpp"
#endif

using namespace gpuhash;

// As table.hpp and layout.hpp have them by default, in one segment.
static constexpr u32 bucket_bits = HIVE_BUCKET_BITS;
using table = hive_table<pair32>;

// Key number i: different ones, random to the eye.
constexpr u32 key_number(u32 i) {
  u32 k = i + 1;
  k = (k ^ k >> 16) * 0x85ebca6bu;
  k = (k ^ k >> 13) * 0xc2b2ae35u;
  return k ^ k >> 16;
}

// The table's memory, all 0xff at first.
struct parts {
  u64 *slots, *stash;
  u32 *locks, *filter, *note;
};

#if defined(ON_WARPS)

struct clocks {
  step_clock of[block_threads / 32];
};
STEPS_FN step_clock& the_clock() {
  GH_BLOCK_MEMORY(clocks, all);
  return all.of[threadIdx.x / 32];
}

// Keys begin .. end-1 of all warps, one at a time in each. All tiles of a warp look at its key's buckets, the first one writes.
__global__ void __launch_bounds__(block_threads)
    fill(const __grid_constant__ table t, u32 begin, u32 end, step_clock* sum) {
  using tile = hive_cuda_tile<pair32, 1 << bucket_bits, order::relaxed>;
  using op = hive_op<tile, insert>;
  tile here;
  op o;
  step_clock& c = the_clock();
  const bool serves = here.shift == 0, counts = threadIdx.x % 32 == 0;
  if (counts) memset(&c, 0, sizeof c);
  __syncwarp();
  const u32 warps = gridDim.x * (block_threads / 32);
  for (u32 i = begin + (blockIdx.x * block_threads + threadIdx.x) / 32; i < end; i += warps) {
    const u32 k = key_number(i);
    o.start(t, insert, k, i, t.home(k));
    const u64 before = c.moves;
    if (counts) c.now = home_bucket, c.since = ticks();
    for (bool done = false; !done;) {
      if (counts && c.now != (o.way ? other_bucket : home_bucket)) c.enter(o.way ? other_bucket : home_bucket);
      __syncwarp();
      verdict d = o.step(here, t, joiner{}, here.load(o.line(t)), serves);
      d = verdict(shuffle(u32(d), 0, 32));
      if (d == verdict::slow) d = verdict(shuffle(u32(o.slow(here, t, joiner{}, serves)), 0, 32));
      done = d == verdict::done;
    }
    __syncwarp();
    if (counts) c.ended(before, o.res.status != yes);
    __syncwarp();
  }
  if (!counts) return;
  for (int s = 0; s < steps; ++s) atomicAdd(&sum->cycles[s], c.cycles[s]);
  atomicAdd(&sum->locks, c.locks), atomicAdd(&sum->moves, c.moves);
  for (int i = 0; i < counters; ++i) atomicAdd(&sum->counts[i], c.counts[i]);
  atomicMax(&sum->longest, c.longest);
}

static void must(int error, const char* what) {
  if (!error) return;
  fprintf(stderr, "%s: CUDA error %d\n", what, error);
  exit(2);
}
template <class T>
static T* memory(u64 n, int byte) {
  void* p = nullptr;
  must(cudaMallocAsync(&p, n * sizeof(T), nullptr), "memory");
  must(cudaMemsetAsync(p, byte, n * sizeof(T), nullptr), "memory");
  return static_cast<T*>(p);
}
static void read_back(void* to, const void* from, size_t bytes) {
  must(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, nullptr), "reading");
  must(cudaStreamSynchronize(nullptr), "reading");
}

struct filler {
  step_clock* sum = memory<step_clock>(1, 0);
  u64 blocks = 8 * multiprocessors();

  static parts make(u64 slots, u64 stash, u64 locks, u64 buckets) {
    return {memory<u64>(slots, 0xff), memory<u64>(stash, 0xff), memory<u32>(locks, 0xff),
            memory<u32>(buckets / 4 + 1, 0xff), memory<u32>(1, 0xff)};
  }
  step_clock add(const table& t, u32 begin, u32 end) const {
    must(launch(fill, blocks, block_threads, nullptr, t, begin, end, sum), "inserts");
    step_clock c;
    read_back(&c, sum, sizeof c);
    return c;
  }
};

#else

static step_clock of_thread;
step_clock& the_clock() { return of_thread; }
static void read_back(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }

struct filler {
  static u64* aligned(u64 n) {
    const size_t bytes = (n * 8 + 127) / 128 * 128;
    void* const p = aligned_alloc(128, bytes);
    if (!p) exit(2);
    return static_cast<u64*>(memset(p, 0xff, bytes));
  }
  static u32* words(u64 n) { return reinterpret_cast<u32*>(aligned(n / 2 + 1)); }
  static parts make(u64 slots, u64 stash, u64 locks, u64 buckets) {
    return {aligned(slots), aligned(stash), words(locks), words(buckets / 4 + 1), words(1)};
  }
  step_clock add(const table& t, u32 begin, u32 end) const {
    using tile = hive_host_tile<pair32, 1 << bucket_bits>;
    step_clock& c = the_clock();
    for (u32 i = begin; i < end; ++i) {
      const u32 k = key_number(i);
      tile here;
      hive_op<tile, insert> o;
      o.start(t, insert, k, i, t.home(k));
      if (i + 16 < end) __builtin_prefetch(t.bucket(t.home(key_number(i + 16))), 1);
      const u64 before = c.moves;
      c.now = home_bucket, c.since = ticks();
      for (;;) {
        verdict d = o.step(here, t, joiner{}, here.load(o.line(t)), true);
        if (d == verdict::next) {
          c.enter(other_bucket);
          continue;
        }
        if (d == verdict::slow) d = o.slow(here, t, joiner{}, true);
        if (d == verdict::done) break;
      }
      c.ended(before, o.res.status != yes);
    }
    return c;
  }
};

#endif

// Is every pair that found room there, once and where it may lie?
static bool all_there(const table& t, const u64* slots, const u64* stash, u64 n, u64 full) {
  std::vector<uint8_t> seen(n, 0);
  u64 live = 0;
  const u64 n_slots = t.bucket_cells();
  for (u64 i = 0; i < n_slots + t.stash_slots; ++i) {
    const u64 w = i < n_slots ? slots[i] : stash[i - n_slots];
    if (!is_live<pair32>(w)) continue;
    const u32 v = pair32::value_of(w);
    if (v >= n || pair32::key_of(w) != key_number(v) || seen[v]++) return false;
    ++live;
  }
  return live == n - full;
}

int main(int argc, char** argv) {
  const u64 slots = strtoull(argv[1], nullptr, 10) >> bucket_bits << bucket_bits;
  table t{};
  t.seed = 1, t.base = 1, t.segment_buckets = u32(slots >> bucket_bits), t.slot_bits = bucket_bits;
  t.ways = u32(atoi(argv[2])), t.stash_slots = u32(slots / 64),
  t.stash_path = t.stash_slots < 128 ? t.stash_slots : 128;
  u32 n_locks = 64;
  while (n_locks < t.segment_buckets / 8) n_locks *= 2;
  t.lock_mask = n_locks - 1;
  const filler filling;
  const parts p = filler::make(slots, t.stash_slots, n_locks, t.segment_buckets);
  t.slots = p.slots, t.stash = p.stash, t.locks = p.locks, t.filter = p.filter, t.note = p.note;

  u32 next = 0;
  step_clock c{};
  std::vector<u64> stash(t.stash_slots), all(slots);
  for (int a = 3; a < argc; ++a) {
    const u32 end = u32(strtod(argv[a], nullptr) * double(slots));
    c = filling.add(t, next, end);
    next = end;
    u64 stashed = 0;
    read_back(stash.data(), t.stash, stash.size() * 8);
    for (const u64 w : stash) stashed += is_live<pair32>(w);
    printf("%s %llu", argv[a], u64(end) - c.counts[no_place]);
    for (const u64 cycles : c.cycles) printf(" %llu", cycles);
    printf(" %llu %llu %llu %llu %llu %llu", u64(c.locks), u64(c.moves), u64(c.counts[evicted]), u64(c.longest),
           stashed, u64(c.counts[no_place]));
    for (int i = 0; i < 4; ++i) printf(" %llu", u64(c.counts[of_length + i]));
    puts("");
  }
  read_back(all.data(), t.slots, slots * 8);
  if (all_there(t, all.data(), stash.data(), next, c.counts[no_place])) return 0;
  fprintf(stderr, "a key is not where it should be, or twice\n");
  return 1;
}
