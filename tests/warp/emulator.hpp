// Emulated warps: kernels of this repository, compiled by the host compiler and run on fibers of the CPU, one per
// thread.
//
// A launch runs its blocks a few at a time, all their threads interleaved by a seeded scheduler, which is asked before
// every access of table memory and at every collective. So lanes of a warp do not run in lockstep, swaps are lost, and
// what relies on an order that nothing enforces goes wrong. Memory is sequentially consistent; one access is atomic.
//
// A collective (shuffle, ballot, __syncthreads ...) ends when every lane that its mask names has arrived at the same
// one. Lanes that meet at different ones, that have left the kernel, or that wait for ever end the program with their
// source lines.
#pragma once
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "libgpuhash/sched/fiber.hpp"

namespace emulated {

// Which planted mistake is switched on (noticing.py); 0: none.
inline const int mutant = getenv("GPUHASH_WARP_MUTANT") ? atoi(getenv("GPUHASH_WARP_MUTANT")) : 0;
inline uint64_t waits;      // of threads, for the kernel before theirs
inline bool came_to[1024];  // the mistakes at whose places the section has been

// Is planted mistake `number` switched on? Stands at the place of each.
[[gnu::always_inline]] constexpr bool planted(int number) {
  if (std::is_constant_evaluated()) return false;
  came_to[number] = true;
  return mutant == number;
}

struct dim {
  unsigned x;
};
enum class meeting { none, shuffle, shuffle_up, match, ballot, any, add, warp, block };
inline const char* name_of(meeting m) {
  constexpr const char* names[] = {"nothing",           "__shfl_sync",   "__shfl_up_sync",
                                   "__match_any_sync",  "__ballot_sync", "__any_sync",
                                   "__reduce_add_sync", "__syncwarp",    "__syncthreads"};
  return names[int(m)];
}

struct thread {
  gpuhash::sim::fiber fiber;
  dim index, block;
  unsigned slot;  // which of the live blocks
  meeting at = meeting::none;
  const char* file = "";
  int line = 0;
  uint64_t given = 0, answer = 0;
  unsigned from = 0, width = 32;
  bool finished = false;
};

class machine {
 public:
  static constexpr unsigned live_blocks = 3, warps_at_most = live_blocks * 8;

  // What the tests set.
  uint64_t seed = 1;
  unsigned last_blocks = ~0u;        // of a launch, only so many are run
  uint64_t steps = 0, meetings = 0;  // counted

  void run(unsigned blocks, unsigned threads, const std::function<void()>& kernel) {
    kernel_ = &kernel;
    grid = {blocks};
    per_block_ = threads;
    state_ = seed * 0x9e3779b97f4a7c15u + 1;
    sticky_ = next() % 2 ? 0 : 15;  // every other launch lets a warp run ahead of the others
    next_block_ = blocks > last_blocks ? blocks - last_blocks : 0, blocks_ = blocks, unfinished_ = 0;
    stores = 0;
    for (unsigned slot = 0; slot < live_blocks; ++slot) start_block(slot);
    uint64_t budget = remembers ? 20'000'000 : 400'000'000;
    while (unfinished_) {
      thread* t = choose();
      if (!t) stuck("all lanes that are left wait");
      if (!--budget) stuck("no end in sight");
      ++steps;
      now = t;
      gpuhash::sim::switch_context(scheduler_, t->fiber.here);
      if (t->finished && --left_[t->slot] == 0) start_block(t->slot);
    }
    now = nullptr;
  }

  // Before an access: let others go first, or not.
  void pause() {
    if (now && next() % 2) back();
  }

  uint64_t meet(meeting what, unsigned mask, uint64_t given, unsigned from, unsigned width, const char* file,
                int line) {
    thread& me = *now;
    const unsigned lane = me.index.x % 32;
    if (what != meeting::block && !(mask >> lane & 1)) fail(me, "a lane that the mask does not name", what, file, line);
    me.at = what, me.file = file, me.line = line, me.given = given, me.from = from, me.width = width;
    const unsigned first = me.slot * per_block_ + (what == meeting::block ? 0 : me.index.x / 32 * 32);
    const unsigned many = what == meeting::block ? per_block_ : 32;
    runnable_[(me.slot * per_block_ + me.index.x) / 32] &= ~(1u << lane);
    bool all = true;
    for (unsigned i = 0; i < many; ++i) {
      const thread& other = *threads_[first + i];
      if (what != meeting::block && !(mask >> i & 1)) continue;
      if (other.finished) fail(other, "a lane has left the kernel that is named by", what, file, line);
      const bool elsewhere = other.at != meeting::none && (other.at != what || other.line != line);
      all &= other.at != meeting::none && !elsewhere;
      // Other warps of a block may be at collectives of their own, on their way to this one.
      if (elsewhere && (what != meeting::block || other.at == meeting::block))
        fail(other, "lanes of a warp or block are at different collectives", what, file, line);
    }
    if (all) answer(what, mask, first, many);
    back();
    return me.answer;
  }

  // The same for all threads of a block; at first garbage, or what another block has left. What lies behind it is nobody's.
  void* block_memory(const void* key, size_t bytes) {
    block_words& p = shared_[{now->slot, key}];
    if (!p.in_use || p.bytes != bytes) {
      if (next() % 2) p.words.clear();
      p.words.reserve(bytes / 8 + 4 + fence / 8);
      while (p.words.size() < bytes / 8 + 4 + fence / 8) p.words.push_back(next());
      p.bytes = bytes;
      memset(p.begin() + bytes, 0xfe, fence);
    }
    p.in_use = true;
    return p.begin();
  }

  // While tests hold launches, they are noted, and then run at the same time, a block of each in turn.
  struct held_launch {
    unsigned blocks, threads;
    std::function<void()> kernel;
  };
  std::vector<held_launch>* held = nullptr;
  void run_together(const std::vector<held_launch>& all) {
    unsigned blocks = 0;
    for (const held_launch& one : all) blocks = one.blocks > blocks ? one.blocks : blocks;
    remembers = true;
    run(unsigned(all.size()) * blocks, all[0].threads, [&] {
      const held_launch& mine = all[now->block.x % all.size()];
      now->block.x /= unsigned(all.size());
      if (now->block.x < mine.blocks) mine.kernel();
    });
    remembers = false;
    before_.clear();
  }
  // Then loads that L1 may serve see words that have been written since, or as they were when the launches began.
  bool remembers = false;
  template <class T>
  void remember(const T* p) {
    if (!remembers || before_.count(p)) return;
    const uint64_t number = before_.size();
    before_[p] = {std::string(reinterpret_cast<const char*>(p), sizeof(T)), number};
  }
  template <class T>
  T maybe_old(const T* p) {
    T x = *p;
    const auto found = before_.find(p);
    // Of a word that is old to some all the time, those who cannot do without it would wait for ever.
    if (found != before_.end() && ((found->second.number + seed) * 0x9e3779b9u) >> 7 & 3)
      memcpy(&x, found->second.bytes.data(), sizeof(T));
    return x;
  }

  // The thread that comes to this store of a run, counted from 1, stands still before it for so many steps. 0: none does.
  uint64_t still_before = 0, still_for = 0;
  uint64_t stores = 0;
  void before_store() {
    if (++stores != still_before) return;
    for (const uint64_t until = steps + still_for; steps < until;) back();
  }

  // What a launch gives each block.
  size_t dynamic_bytes = 0;
  uint32_t block_bytes = 1u << 20;  // at most
  void* dynamic_memory() {
    static const char key = 0;
    return block_memory(&key, dynamic_bytes);
  }

  thread* now = nullptr;
  dim grid{};  // of the launch that runs

 private:
  uint64_t next() {  // splitmix64
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
  }
  void back() {
    thread* const me = now;
    gpuhash::sim::switch_context(me->fiber.here, scheduler_);
  }
  static void enter() {
    machine& m = the();
    (*m.kernel_)();
    m.now->finished = true;
    m.runnable_[(m.now->slot * m.per_block_ + m.now->index.x) / 32] &= ~(1u << m.now->index.x % 32);
    --m.unfinished_;
    m.back();
  }
  void start_block(unsigned slot) {
    left_[slot] = 0;
    for (auto& [of, p] : shared_) {
      if (of.first != slot) continue;
      for (size_t i = 0; i < fence && p.in_use; ++i)
        if (p.begin()[p.bytes + i] != 0xfe) stuck("a block has written behind its memory");
      p.in_use = false;
    }
    if (next_block_ == blocks_) return;
    const unsigned block = next_block_++;
    threads_.resize(live_blocks * per_block_);
    for (unsigned i = 0; i < per_block_; ++i) {
      auto& t = threads_[slot * per_block_ + i];
      if (!t) t = std::make_unique<thread>();
      t->index = {i}, t->block = {block}, t->slot = slot;
      t->at = meeting::none, t->finished = false;
      t->fiber.restart(enter);
    }
    for (unsigned w = 0; w < per_block_ / 32; ++w) runnable_[slot * per_block_ / 32 + w] = ~0u;
    left_[slot] = per_block_, unfinished_ += per_block_;
  }
  thread* choose() {
    const unsigned warps = live_blocks * per_block_ / 32;
    unsigned w = warp_;
    if (!sticky_ || next() % (sticky_ + 1) == 0 || !runnable_[w]) {
      w = unsigned(next() % warps);
      for (unsigned i = 0; i < warps && !runnable_[w]; ++i) w = (w + 1) % warps;
    }
    if (!runnable_[w]) return nullptr;
    warp_ = w;
    unsigned bits = runnable_[w];
    for (unsigned skip = unsigned(next() % unsigned(__builtin_popcount(bits))); skip; --skip) bits &= bits - 1;
    return threads_[w * 32 + unsigned(__builtin_ctz(bits))].get();
  }
  void answer(meeting what, unsigned mask, unsigned first, unsigned many) {
    ++meetings;
    unsigned ballot = 0;
    uint64_t sum = 0;
    bool some = false;
    for (unsigned i = 0; i < many; ++i) some |= threads_[first + i]->given != 0;
    for (unsigned i = 0; i < many && many == 32; ++i)
      if (mask >> i & 1) ballot |= unsigned(threads_[first + i]->given != 0) << i, sum += threads_[first + i]->given;
    for (unsigned i = 0; i < many; ++i) {
      thread& t = *threads_[first + i];
      if (many == 32 && !(mask >> i & 1)) continue;
      t.at = meeting::none;
      runnable_[(first + i) / 32] |= 1u << i % 32;
      switch (what) {
        case meeting::shuffle: t.answer = threads_[first + i / t.width * t.width + t.from % t.width]->given; break;
        case meeting::shuffle_up: t.answer = i < t.from ? t.given : threads_[first + i - t.from]->given; break;
        case meeting::match: t.answer = alike(mask, first, t.given); break;
        case meeting::ballot: t.answer = ballot; break;
        case meeting::any: t.answer = ballot != 0; break;
        case meeting::add: t.answer = sum; break;
        case meeting::block: t.answer = some; break;
        default: break;
      }
    }
  }
  // The lanes that have given the same.
  unsigned alike(unsigned mask, unsigned first, uint64_t given) const {
    unsigned lanes = 0;
    for (unsigned i = 0; i < 32; ++i) lanes |= unsigned((mask >> i & 1) && threads_[first + i]->given == given) << i;
    return lanes;
  }
  [[noreturn]] void fail(const thread& other, const char* why, meeting what, const char* file, int line) {
    fprintf(stderr, "emulated warp: %s: thread %u of block %u at %s (%s:%d), thread %u at %s (%s:%d); seed %llu\n", why,
            now->index.x, now->block.x, name_of(what), file, line, other.index.x,
            other.finished ? "the end" : name_of(other.at), other.file, other.line, (unsigned long long)seed);
    fflush(nullptr);
    _Exit(3);
  }
  [[noreturn]] void stuck(const char* why) {
    fprintf(stderr, "emulated warp: %s; seed %llu\n", why, (unsigned long long)seed);
    int shown = 0;
    for (const auto& t : threads_)
      if (t && !t->finished && left_[t->slot] && shown++ < 8)
        fprintf(stderr, "  thread %u of block %u waits at %s (%s:%d)\n", t->index.x, t->block.x, name_of(t->at),
                t->file, t->line);
    fflush(nullptr);
    _Exit(3);
  }

  struct old_word {
    std::string bytes;
    uint64_t number;  // of the words that were written; addresses differ from run to run
  };
  static constexpr size_t fence = 64;
  struct block_words {
    size_t bytes = 0;
    bool in_use = false;
    std::vector<uint64_t> words;
    unsigned char* begin() const {
      return reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(words.data()) + 15) & ~uintptr_t(15));
    }
  };
  std::map<const void*, old_word> before_;
  const std::function<void()>* kernel_ = nullptr;
  gpuhash::sim::context scheduler_;
  std::vector<std::unique_ptr<thread>> threads_;
  std::map<std::pair<unsigned, const void*>, block_words> shared_;
  unsigned runnable_[warps_at_most] = {}, left_[live_blocks] = {};
  unsigned per_block_ = 0, next_block_ = 0, blocks_ = 0, unfinished_ = 0, warp_ = 0, sticky_ = 0;
  uint64_t state_ = 1;

 public:
  static machine& the() {
    static machine one;
    return one;
  }
};

// A run is made of sections, checks of which none needs what another one has left. They are numbered from 1 on.
// GPUHASH_WARP_RECORD: at the end of each one, a line says its number, its steps and the mistakes whose places it came to.
// GPUHASH_WARP_SECTIONS, as in ",3,17,": only these are run.
class sections {
 public:
  // Ends a section, if one is under way, and begins the next one. False: it is not to be run.
  bool begin() {
    end();
    ++number_;
    steps_ = machine::the().steps;
    memset(came_to, 0, sizeof(came_to));
    const std::string mine = ',' + std::to_string(number_) + ',';
    return runs_ = !only_ || strstr(only_, mine.c_str());
  }
  void end() {
    if (!records_ || !runs_ || !number_) return;
    printf("section %u: %llu steps, came to", number_, (unsigned long long)(machine::the().steps - steps_));
    for (unsigned i = 0; i < sizeof(came_to); ++i)
      if (came_to[i]) printf(" %u", i);
    printf("\n");
    runs_ = false;
  }
  static sections& the() {
    static sections all;
    return all;
  }

 private:
  const bool records_ = getenv("GPUHASH_WARP_RECORD") != nullptr;
  const char* const only_ = getenv("GPUHASH_WARP_SECTIONS");
  unsigned number_ = 0;
  uint64_t steps_ = 0;
  bool runs_ = false;
};
inline bool section() { return sections::the().begin(); }

}  // namespace emulated

#define threadIdx (emulated::machine::the().now->index)
#define blockIdx (emulated::machine::the().now->block)
inline const emulated::dim& gridDim =
    emulated::machine::the().grid;  // no macro: CUDA's structs have members of this name

// ---- what CUDA C++ has and kernels of this repository use -----------------------------------------------------------

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(...)

namespace emulated {
inline uint64_t meet(meeting what, unsigned mask, uint64_t given, unsigned from, unsigned width, const char* file,
                     int line) {
  return machine::the().meet(what, mask, given, from, width, file, line);
}
}  // namespace emulated

#define GH_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

template <class T>
T __shfl_sync(unsigned mask, T v, int lane, int width = 32, GH_HERE) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof(T));
  bits = emulated::meet(emulated::meeting::shuffle, mask, bits, unsigned(lane), unsigned(width), file, line);
  memcpy(&v, &bits, sizeof(T));
  return v;
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, GH_HERE) {
  return T(emulated::meet(emulated::meeting::shuffle_up, mask, uint64_t(v), delta, 32, file, line));
}
template <class T>
unsigned __match_any_sync(unsigned mask, T v, GH_HERE) {
  return unsigned(emulated::meet(emulated::meeting::match, mask, uint64_t(v), 0, 32, file, line));
}
inline unsigned __ballot_sync(unsigned mask, int b, GH_HERE) {
  return unsigned(emulated::meet(emulated::meeting::ballot, mask, b != 0, 0, 32, file, line));
}
inline int __any_sync(unsigned mask, int b, GH_HERE) {
  return int(emulated::meet(emulated::meeting::any, mask, b != 0, 0, 32, file, line));
}
inline int __reduce_add_sync(unsigned mask, int v, GH_HERE) {
  return int(emulated::meet(emulated::meeting::add, mask, uint64_t(int64_t(v)), 0, 32, file, line));
}
inline void __syncwarp(unsigned mask = ~0u, GH_HERE) {
  emulated::meet(emulated::meeting::warp, mask, 0, 0, 32, file, line);
}
inline void __syncthreads(GH_HERE) { emulated::meet(emulated::meeting::block, ~0u, 0, 0, 32, file, line); }
inline int __syncthreads_or(int b, GH_HERE) {
  return int(emulated::meet(emulated::meeting::block, ~0u, b != 0, 0, 32, file, line));
}

inline int __ffs(unsigned v) { return __builtin_ffs(int(v)); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __clz(unsigned v) { return v ? __builtin_clz(v) : 32; }

template <class T>
T atomicAdd(T* p, T v) {
  emulated::machine::the().pause();
  const T before = *p;
  *p = before + v;
  return before;
}
template <class T>
T atomicAnd(T* p, T v) {
  emulated::machine::the().pause();
  const T before = *p;
  *p = before & v;
  return before;
}
template <class T>
void __stcs(T* p, T v) {
  *p = v;
}
template <class T>
T atomicOr(T* p, T v) {
  emulated::machine::the().pause();
  const T before = *p;
  *p = before | v;
  return before;
}
template <class T>
T atomicMin(T* p, T v) {
  emulated::machine::the().pause();
  const T before = *p;
  *p = v < before ? v : before;
  return before;
}
template <class T>
T atomicMax(T* p, T v) {
  emulated::machine::the().pause();
  const T before = *p;
  *p = before < v ? v : before;
  return before;
}
template <class T>
T atomicCAS(T* p, T expected, T desired) {
  emulated::machine::the().pause();
  const T before = *p;
  if (before == expected) *p = desired;
  return before;
}
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}
