// Updates on the CPU, visit by visit: which chunks they ask for to write, and in which order keys of a block that ascend arrive.
//
// A chunk that is asked for to write leaves the caches of all other threads. Above level 0 all updates visit the same chunks, so
// that only those that name a chunk there, or forget one, may do that.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace {
unsigned long long loads;
}  // namespace
#define __atomic_load_n(...) (++loads, __atomic_load_n(__VA_ARGS__))

#define GPUHASH_ISA updates
#include "plugins/skiplist/check.hpp"
#include "plugins/skiplist/host_find.hpp"
#include "plugins/skiplist/host_update.hpp"

namespace gpuhash {
constinit host_services host_team = {nullptr, nullptr, host_services::as_needed};  // threads = 1
}  // namespace gpuhash

namespace {

using namespace gpuhash;
using F = pair32;
using table = skip_table<F>;
using op_type = host_update<host_tile<F, 8>, mixed>;
using pass = host_pass<op_type>;
using find_type = host_update<host_tile<F, 8>, find>;
constexpr u32 R = 8, n_chunks = 4000, n_levels = 8, n_keys = 6000;

struct memory {
  alignas(64) u64 words[n_chunks * R];
  u64 side[2];
  u32 top, taken;
};
memory now;
table t;
unsigned seed;

void make() {
  memset(&now, 0xff, sizeof(now));
  t = {};
  t.side = now.side, t.top = &now.top, t.taken = &now.taken;
  t.slots = R, t.levels = n_levels, t.capacity = n_chunks, t.merge_below = 2, t.raise_below = 1u << 16, t.segments = 1;
  t.segment[0] = now.words;
  now.top = 0, now.taken = n_levels;
  write_heads(t, now.words);
}

[[noreturn]] void wrong(const char* what, u64 got) {
  printf("%s: %llu (seed %u)\n", what, (unsigned long long)got, seed);
  exit(1);
}
void check() {
  const std::string said = skip_check<F>(t).run();
  if (!said.empty()) wrong(said.c_str(), 0);
}

struct seen {
  u64 visits = 0, above = 0, above_to_write = 0, changes_above = 0, yes = 0;
};

// One operation from its home on.
void serve(op_type& op, u32 kind, u32 k, u32 home, seen& s) {
  host_tile<F, int(R)> tile;
  op.start(t, kind, k, ~k, home);
  for (bool first = true;; first = false) {
    const u32 level = table::level_of(op.line(t)[R - 1]);
    ++s.visits, s.above += level > 0;
    if (pass::asks_to_write(op) != (level == op.goal)) wrong("a chunk is asked for in the wrong way on level", level);
    s.above_to_write += level > 0 && pass::asks_to_write(op);
    if (first && level != 0) wrong("an update begins on level", level);
    verdict d = op.step(tile, t, {}, tile.load(op.line(t)), true);
    const u8 before = op.routes;
    if (d == verdict::slow) d = op.slow(tile, t, {}, true);
    s.changes_above += op.routes && !before;
    if (d != verdict::done) continue;
    s.yes += op.res.status == yes;
    return;
  }
}

// Elements in blocks, as the driver has them: homes first.
seen serve_all(u32 kind, const std::vector<u32>& keys) {
  seen s;
  for (size_t b = 0; b < keys.size(); b += block_size) {
    const u32 n = u32(std::min<size_t>(block_size, keys.size() - b));
    u32 homes[block_size];
    const void* lines[block_size];
    op_type::find_homes(t, &keys[b], homes, lines, n);
    for (u32 i = 0; i < n; ++i)
      if (lines[i] != t.chunk(homes[i])) wrong("a home's line is not its chunk's", i);
    op_type op;
    for (u32 i = 0; i < n; ++i) serve(op, kind, keys[b + i], homes[i], s);
  }
  return s;
}

u64 chunks_with_entries() {
  u64 n = 0;
  for (u32 at = 0; at != none; at = table::link_of(t.chunk(at)[R - 2])) n += F::key_of(t.chunk(at)[0]) != table::no_key;
  return n;
}

void in_no_order() {
  make();
  std::vector<u32> keys(n_keys);
  std::iota(keys.begin(), keys.end(), 0);
  std::shuffle(keys.begin(), keys.end(), std::mt19937(seed));
  const seen in = serve_all(insert, keys);
  check();
  if (in.yes != n_keys) wrong("keys inserted", in.yes);
  if (in.above_to_write > 2 * in.changes_above || in.above_to_write == 0)
    wrong("above level 0, to write", in.above_to_write);
  find_type search;
  search.start(t, find, keys[0], 0, table::head(0));
  if (host_pass<find_type>::asks_to_write(search)) wrong("a find asks for a chunk to write", keys[0]);
  for (const u32 kind : {u32(insert), u32(find)}) {  // which change nothing
    const seen again = serve_all(kind, keys);
    if (again.yes != (kind == find ? n_keys : 0)) wrong("keys found", again.yes);
    if (again.above != 0) wrong("visits above level 0", again.above);
    if (again.visits > 2 * n_keys) wrong("visits", again.visits);
  }
  std::shuffle(keys.begin(), keys.end(), std::mt19937(seed + 1));
  const seen out = serve_all(erase, keys);
  check();
  if (out.above_to_write > 3 * out.changes_above) wrong("above level 0, to write", out.above_to_write);
  if (out.yes != n_keys || serve_all(find, keys).yes != 0) wrong("keys erased", out.yes);
}

// Each fills the last chunk, where it begins: no search, no way to the right, and no more loads for that.
void ascending() {
  make();
  std::vector<u32> keys(n_keys);
  std::iota(keys.begin(), keys.end(), 7);
  loads = 0;
  const seen s = serve_all(insert, keys);
  if (loads > 29 * n_keys) wrong("loads", loads);  // 27, or 32 where each goes right from its home
  check();
  const u64 full = (n_keys + R - 3) / (R - 2);
  if (chunks_with_entries() != full) wrong("chunks of keys that ascend", chunks_with_entries());
  if (s.visits - s.above > n_keys + n_keys / 64) wrong("visits of level 0", s.visits - s.above);
}

}  // namespace

int main(int, char** argv) {
  seed = unsigned(strtoul(argv[1], nullptr, 10));
  in_no_order();
  ascending();
  puts("done");
}
