// Finds, neighbours and ranges on the CPU beside one write by another thread: all of the write before each load of the query in turn,
// and all of the query before each load and store of the write.
//
// Rows are loaded word by word here, and each access first asks whether it is time for the other. What is answered has to be
// what was true before the write or after it; of a range, what the write does not touch has to be there, in order. A query
// that waits for the write is given up. And a part of the write before each load, while the chunk is locked: some of it before
// the query, and more before a load.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

namespace {
long accesses_left = -1;
std::function<void()> other;
bool within = false, gives_up = false;
struct waits {};

// The write in parts: as a fiber, which goes on for so many accesses and then lets the query run.
bool in_write = false;
long write_left = -1;
ucontext_t of_write, of_query;

void before_access() {
  if (in_write) {
    if (write_left-- > 0) return;
    in_write = false;
    swapcontext(&of_write, &of_query);
    return;
  }
  if (accesses_left < 0 || accesses_left-- > 0) return;
  within = true;
  other();
  within = false;
}
void on_pause() {
  if (within || gives_up) throw waits();
}
}  // namespace
#define __atomic_load_n(...) (before_access(), __atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...) (before_access(), __atomic_store_n(__VA_ARGS__))
#define __builtin_ia32_pause on_pause

#define GPUHASH_ISA one_write
#include "plugins/skiplist/check.hpp"
#include "plugins/skiplist/host_find.hpp"
#include "plugins/skiplist/host_range.hpp"
#include "plugins/skiplist/ops.hpp"

namespace gpuhash {
constinit host_services host_team = {nullptr, nullptr, host_services::as_needed};  // threads = 1
}  // namespace gpuhash

namespace {

using namespace gpuhash;
using F = pair32;
using table = skip_table<F>;
using model = std::map<u32, u32>;
constexpr u32 R = 8, n_chunks = 200, n_levels = 5;

struct memory {
  alignas(64) u64 words[n_chunks * R];
  u64 side[2];
  u32 top, taken;
};
memory now, saved;
table t;

template <u32 Kind>
void apply(u32 k) {
  using tile_type = host_tile<F, int(R)>;
  tile_type tile;
  skip_op<tile_type, Kind> op;
  op.start(t, Kind, k, ~k, 0);
  for (;;) {
    verdict d = op.step(tile, t, {}, tile.load(op.line(t)), true);
    if (d == verdict::slow) d = op.slow(tile, t, {}, true);
    if (d == verdict::done) return;
  }
}

u32 key_to_write;
bool erases;
void write() { erases ? apply<erase>(key_to_write) : apply<insert>(key_to_write); }

void build(u32 shape) {
  memset(&now, 0xff, sizeof(now));
  t = {};
  t.side = now.side;
  t.top = &now.top;
  t.taken = &now.taken;
  t.slots = R;
  t.levels = n_levels;
  t.capacity = n_chunks;
  t.merge_below = shape ? 3 : 1;
  t.raise_below = shape == 2 ? 1u << 15 : 1u << 16;
  t.segments = 1;
  t.segment[0] = now.words;
  now.top = 0;
  now.taken = n_levels;
  write_heads(t, now.words);
}

[[noreturn]] void wrong(const char* what, u32 which, u32 key, long at) {
  printf("%s %u of %u is wrong with %s of %u before access %ld\n", what, which, key,
         erases ? "an erasure" : "an insert", key_to_write, at);
  exit(1);
}

// (found, key) of a neighbour.
std::pair<bool, u32> nearest(const model& m, u32 which, u32 k) {
  if (which <= above) {
    const auto at = which == at_least ? m.lower_bound(k) : m.upper_bound(k);
    return at == m.end() ? std::pair{false, 0u} : std::pair{true, at->first};
  }
  const auto at = which == at_most ? m.upper_bound(k) : m.lower_bound(k);
  return at == m.begin() ? std::pair{false, 0u} : std::pair{true, std::prev(at)->first};
}

void ask_neighbors(const model& before, const model& after, u32 which, const std::vector<u32>& keys, long at) {
  std::vector<u32> got(keys.size()), values(keys.size());
  std::vector<u8> found(keys.size());
  ordered_request q{};
  q.which = which, q.n = keys.size(), q.low = keys.data(), q.key_bytes = q.value_bytes = 4, q.threads = 1;
  q.out_keys = got.data(), q.out_values = values.data(), q.found = found.data();
  host_neighbors<F, R>(t, q).serve();
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::pair answer{found[i] != 0, got[i]};
    if (answer != nearest(before, which, keys[i]) && answer != nearest(after, which, keys[i]))
      wrong("neighbour", which, keys[i], at);
    if (found[i] && values[i] != ~got[i]) wrong("the value of neighbour", which, keys[i], at);
  }
}

template <u32 Kind>
void ask_finds(const model& before, const model& after, const std::vector<u32>& keys, long at) {
  std::vector<std::conditional_t<Kind == find, u32, uint64_t>> got(keys.size());
  std::vector<u8> found(keys.size());
  request q{};
  q.kind = Kind, q.n = keys.size(), q.keys = keys.data(), q.key_bytes = 4, q.value_bytes = 4, q.threads = 1;
  q.out_values = got.data(), q.status = found.data();
  totals sum{};
  host_finds<F, R, Kind>(t, q).serve(&sum);
  for (size_t i = 0; i < keys.size(); ++i) {
    const bool there = found[i] != 0;
    if (there != before.contains(keys[i]) && there != after.contains(keys[i])) wrong("find", Kind, keys[i], at);
    const u32 value = Kind == count ? 1 : ~keys[i];
    if (got[i] != (there ? value : 0)) wrong("the value of find", Kind, keys[i], at);
  }
}

void ask_ranges(const model& before, const model& after, u32 length, const std::vector<u32>& keys, long at) {
  std::vector<u32> high, got(keys.size() * 64), values(keys.size() * 64);
  std::vector<uint64_t> counts(keys.size());
  for (const u32 k : keys) high.push_back(k + length);
  ordered_request q{};
  q.n = keys.size(), q.low = keys.data(), q.high = high.data(), q.most = 64, q.key_bytes = q.value_bytes = 4;
  q.threads = 1, q.out_keys = got.data(), q.out_values = values.data(), q.counts = counts.data();
  host_ranges<F, R>(t, q).serve();
  for (size_t i = 0; i < keys.size(); ++i) {
    std::vector<u32> mine(got.begin() + long(i) * 64, got.begin() + long(i) * 64 + long(counts[i]));
    std::erase(mine, key_to_write);
    std::vector<u32> wanted;
    for (auto p = before.lower_bound(keys[i]); p != before.end() && p->first < high[i]; ++p)
      if (p->first != key_to_write) wanted.push_back(p->first);
    if (mine != wanted || counts[i] > wanted.size() + (before != after)) wrong("range", length, keys[i], at);
    for (u64 j = 0; j < counts[i]; ++j)
      if (values[i * 64 + j] != ~got[i * 64 + j]) wrong("a value of range", length, keys[i], at);
  }
}

// first(at), with second() before each of its accesses in turn, until it has no more of them.
template <class First>
long each_place(First first, std::function<void()> second) {
  other = std::move(second);
  for (long at = 0;; ++at) {
    accesses_left = at;
    first(at);
    const bool over = accesses_left >= 0;
    accesses_left = -1;
    now = saved;
    if (over) return at;
  }
}
// ask(at) beside the write, in both ways.
template <class Ask>
long beside_write(Ask ask) {
  long place = 0;
  return each_place(ask, write) + each_place(
                                      [&](long at) {
                                        place = at;
                                        write();
                                      },
                                      [&] {
                                        try {
                                          ask(place);
                                        } catch (const waits&) {
                                        }
                                      });
}

// Some of the write, then the query, and more of the write before one of its loads. Returns how many such places there are.
bool write_is_over;
char stack_of_write[1 << 16];
void write_all() {
  write();
  write_is_over = true;
  in_write = false;
  swapcontext(&of_write, &of_query);
}
[[gnu::noinline]] void begin_writing() {
  getcontext(&of_write);
  of_write.uc_stack.ss_sp = stack_of_write;
  of_write.uc_stack.ss_size = sizeof stack_of_write;
  makecontext(&of_write, write_all, 0);
  write_is_over = false;
}
void go_on_writing(long accesses) {
  if (write_is_over) return;
  write_left = accesses;
  in_write = true;
  swapcontext(&of_query, &of_write);
}
template <class Ask>
long beside_parts(Ask ask) {
  long places = 0;
  for (long first = 1;; ++first) {
    bool over = false;
    for (const long more : {3, 8}) {
      bool asked_all = false;
      for (long at = 0; !asked_all; ++at, ++places) {
        begin_writing();
        go_on_writing(first);
        over = write_is_over;
        other = [&] { go_on_writing(more); };
        accesses_left = at;
        gives_up = true;
        try {
          ask(at);
          asked_all = accesses_left >= 0;
        } catch (const waits&) {
          asked_all = accesses_left >= 0;
        }
        gives_up = false;
        accesses_left = -1;
        now = saved;
      }
    }
    if (over) return places;
  }
}

}  // namespace

int main() {
  long runs = 0;
  for (u32 shape = 0; shape < 3; ++shape) {
    build(shape);
    model before;
    for (u32 i = 1; i <= 45; ++i) {
      const u32 k = i * 7 % 46 * 10;
      apply<insert>(k);
      before[k] = 0;
    }
    for (u32 k = 130; k <= 230; k += 10) {  // chunks with few entries, empty ones, zombies
      if (k == 170) continue;
      apply<erase>(k);
      before.erase(k);
    }
    saved = now;
    for (u32 k = 10; k <= 450; k += 10)
      for (const bool erased : {false, true}) {
        erases = erased;
        key_to_write = erased ? k : k + 5;
        model after = before;
        if (erased)
          after.erase(k);
        else
          after[k + 5] = 0;
        const u32 near[] = {k - 10, k, k + 5, k + 6, k + 20, k + 60};
        for (u32 which = 0; which < 4; ++which)
          for (const u32 asked : near)
            runs += beside_write([&](long at) { ask_neighbors(before, after, which, {asked}, at); });
        for (const u32 asked : near)
          runs += beside_write([&](long at) { ask_ranges(before, after, 100, {asked}, at); });
        for (const u32 asked : near) {
          runs += beside_write([&](long at) { ask_finds<find>(before, after, {asked}, at); });
          runs += beside_write([&](long at) { ask_finds<gpuhash::count>(before, after, {asked, k}, at); });
        }
        runs += beside_write([&](long at) { ask_finds<find>(before, after, {460, k, 1, k + 5, k - 5, ~0u}, at); });
        runs += beside_write([&](long at) { ask_neighbors(before, after, k / 10 % 4, {460, k, 1, k + 5, k - 5}, at); });
        runs += beside_write([&](long at) { ask_ranges(before, after, 30, {440, k, 1, k + 5, k - 5}, at); });
        if (shape == 0) {
          for (u32 which = 0; which < 4; ++which)
            for (const u32 asked : {k, k + 10})
              runs += beside_parts([&](long at) { ask_neighbors(before, after, which, {asked}, at); });
          runs += beside_parts([&](long at) { ask_finds<find>(before, after, {k, k + 10}, at); });
          runs += beside_parts([&](long at) { ask_ranges(before, after, 30, {k}, at); });
        }
        const std::string said = skip_check<F>(t).run();
        if (!said.empty()) wrong(said.c_str(), 0, 0, 0);
      }
  }
  printf("%ld places\n", runs);
}
