// The CUDA kernels of slab_hash and of the allocator on emulated warps: slab_hash [ROUNDS [FIRST SEED]]
#include "libgpuhash/alloc/slab_engine.hpp"
#include "tests/warp/rounds.hpp"
#include "tests/warp/slab_store.hpp"

extern "C" const gpuhash::engine* gpuhash_slab_hash_engines_cuda();
extern "C" const gpuhash::slab_engine* gpuhash_slab_hash_slab_engine_cuda();

namespace warp_test {
namespace {

const engine* engine_of(format_id format) { return gpuhash_slab_hash_engines_cuda() + format; }

// Slots of 8 bytes take arrays of 4 as well: keys in the last shape, values in the second one.
template <class F>
void add(vector<shape>& to, const char* name, format_id format) {
  constexpr u32 half = sizeof(typename F::key);
  for (const u32 bytes : {128u, 64u, 256u})
    to.push_back({std::string(name) + " slab " + std::to_string(bytes),
                  bytes == 256 ? 4 : half,
                  !F::has_value ? 0
                  : bytes == 64 ? 4
                                : half,
                  {insert, assign, accumulate, find, erase, count, erase_all, mixed, pop, find_or_insert},
                  no_memory,
                  [=](u64 keys) { return std::make_unique<slab_store<F>>(engine_of(format), keys, bytes, false); }});
}

// insert_multi, count, SEARCHALL, erase_all and FLUSH with keys that have several pairs.
template <class F>
void duplicates(const char* name, format_id format, u32 slab_bytes, u64 seed) {
  const shape s{std::string(name) + " duplicates",
                sizeof(typename F::key),
                F::has_value ? u32(sizeof(typename F::value)) : 0,
                {},
                no_memory,
                {}};
  title(s, seed, "several pairs of a key");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 50);
  slab_store<F> t(engine_of(format), 300, slab_bytes, true);
  const u64 base_taken = t.heap.taken();
  std::multimap<u64, u64> expected;
  batch b = random_batch(s, random, pool, insert_multi, 600);
  b.type = 0;
  SAME(serve(t, b).live, 600);
  for (size_t i = 0; i < b.n(); ++i) {
    SAME(b.status[i], yes);
    expected.emplace(b.keys[i], s.value_bytes ? b.values[i] : 0);
  }
  const auto sorted = [](const std::multimap<u64, u64>& m) {
    vector<std::pair<u64, u64>> pairs(m.begin(), m.end());
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  };
  if (sorted(contents(t)) != sorted(expected)) wrong("the pairs are not those that were inserted");
  batch c = random_batch(s, random, pool, count, 300);
  serve(t, c);
  for (size_t i = 0; i < c.n(); ++i) SAME(c.out[i], expected.count(c.keys[i]));

  if (s.value_bytes) {  // SEARCHALL
    vector<uint64_t> offsets;
    u64 total = 0;
    for (const u64 k : pool) offsets.push_back(total), total += expected.count(k);
    offsets.push_back(total);
    const auto keys = packed(pool, s.key_bytes);
    vector<unsigned char> out((total + 1) * s.value_bytes, untouched);
    request q{};
    q.n = pool.size(), q.keys = keys.data(), q.out_values = out.data(), q.key_bytes = s.key_bytes,
    q.value_bytes = s.value_bytes;
    SAME(t.run->values_of(t.layout, q, offsets.data()), 0);
    for (size_t i = 0; i < pool.size(); ++i) {
      vector<u64> got, want;
      for (u64 v = 0; v < expected.count(pool[i]); ++v) got.push_back(unpacked(out, s.value_bytes, offsets[i] + v));
      for (auto [at, end] = expected.equal_range(pool[i]); at != end; ++at) want.push_back(at->second);
      std::sort(got.begin(), got.end()), std::sort(want.begin(), want.end());
      if (got != want) wrong("key %llx has other values", pool[i]);
    }
    SAME(out[total * s.value_bytes], untouched);
  }

  batch e;  // each key of the first half once
  e.kind = erase_all, e.key_bytes = s.key_bytes, e.value_bytes = s.value_bytes ? s.value_bytes : 8;
  int64_t gone = 0;
  for (size_t i = 0; i < pool.size() / 2; ++i) e.keys.push_back(pool[i]), gone += int64_t(expected.count(pool[i]));
  SAME(serve(t, e).live, -gone);
  for (size_t i = 0; i < e.n(); ++i) {
    SAME(e.status[i], expected.count(e.keys[i]) != 0);
    expected.erase(e.keys[i]);
  }
  if (sorted(contents(t)) != sorted(expected)) wrong("erase_all left other pairs");
  SAME(t.heap.taken() - base_taken, t.linked());

  const int64_t before = t.used();
  const u64 linked = t.linked();
  totals sum{};
  SAME(t.run->flush(t.layout, 0, t.cells, &sum, 1, nullptr), 0);
  SAME(before + sum.used, t.used());
  SAME(t.used(), expected.size());
  if (sorted(contents(t)) != sorted(expected)) wrong("flush changed the pairs");
  if (t.linked() >= linked) wrong("flush gave no slab back");
  SAME(t.heap.taken() - base_taken, t.linked());  // S5
}

// A table moves into one of another number of buckets, as it does when it grows and shrinks. What found no place is counted.
template <class F>
void move(format_id format, u64 seed) {
  const shape s{"moving", sizeof(typename F::key), F::has_value ? u32(sizeof(typename F::value)) : 0, {}, no_memory,
                {}};
  title(s, seed, F::has_value ? "pairs" : "a set");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 300);
  struct size {
    u64 from, to, units;
  };
  const size sizes[] = {{20, 60, 400}, {40, 1, 400}, {60, 20, 400}, {1, 40, 400}, {40, 1, 1}};
  for (const size& one : sizes) {
    const bool duplicates = (u64(&one - sizes) + format + seed) % 2;
    const u32 slab_bytes = 64u << random.below(3);
    const engine* const e = engine_of(format);
    slab_store<F> from(e, one.from, slab_bytes, duplicates, 3000), to(e, one.to, slab_bytes, duplicates, one.units);
    const u64 taken = to.heap.taken();
    batch in = random_batch(s, random, pool, duplicates ? u32(insert_multi) : u32(insert), 500, true);
    batch out = random_batch(s, random, pool, erase, 60);
    serve(from, in);
    serve(from, out);
    const auto before = contents(from);
    bool moves = false;
    SAME(e->move(from.layout, to.layout, to.sum.data(), &moves, nullptr), 0);
    SAME(moves, true);
    int64_t used = 0, failed = 0;
    for (const totals& sum : to.sum) {
      used += sum.used, failed += int64_t(sum.failed);
      SAME(sum.live || sum.yes || sum.bad_ops, 0);
    }
    SAME(used, to.used());
    SAME(used + failed, before.size());
    if (one.units == 400 && failed) wrong("%lld pairs found no place", (long long)failed);
    if (one.units == 1 && !failed) wrong("all pairs found a place");
    SAME(to.heap.taken() - taken, to.linked());  // S5
    const auto after = contents(to);
    SAME(after.size(), used);
    for (auto at = after.begin(); at != after.end(); at = after.upper_bound(at->first)) {
      vector<u64> was, is;
      for (auto [i, end] = before.equal_range(at->first); i != end; ++i) was.push_back(i->second);
      for (auto [i, end] = after.equal_range(at->first); i != end; ++i) is.push_back(i->second);
      std::sort(was.begin(), was.end()), std::sort(is.begin(), is.end());
      if (!failed && was != is) wrong("key %llx has %zu pairs of %zu, or others", at->first, is.size(), was.size());
      if (!std::includes(was.begin(), was.end(), is.begin(), is.end())) wrong("key %llx has other pairs", at->first);
    }
    batch look = random_batch(s, random, pool, count, 200);  // where a search looks for them
    serve(to, look);
    for (size_t i = 0; i < look.n(); ++i) SAME(look.out[i], after.count(look.keys[i]));
    const auto not_for_it = [&](const char* what) {
      totals sum{};
      bool also = true;
      const u64 now = to.heap.taken();
      SAME(e->move(from.layout, to.layout, &sum, &also, nullptr), 0);
      if (also || sum.used || sum.failed || to.heap.taken() != now) wrong("tables with %s moved at once", what);
    };
    const slab_table<F> was = to.t;
    to.t.seed = was.seed + 1, not_for_it("other seeds");
    to.t = was, to.t.hash_kind = slab_paper, not_for_it("other hashes");
    to.t = was, from.t.hash_kind = slab_paper, not_for_it("the paper's hash");
  }
}

// Fresh super blocks get their share of what is drawn, spread evenly over their blocks, and the others the rest.
void draws(u64 seed) {
  constexpr u32 supers = 5, blocks = 8, fresh = 3;
  constexpr double n = 1 << 18;
  slab_heap h{};
  h.supers = supers, h.blocks = blocks, h.seed = seed;
  for (const double share : {0.0, 0.25, 0.75, 1.0}) {
    h.fresh = share > 0 ? fresh : 0, h.share = share < 1 ? u32(share * 4294967296.0) : ~0u;
    vector<double> drawn(supers * blocks);
    for (u64 hint = 0; hint < u64(n / hashed_tries); ++hint)
      for (u32 i = 0; i < hashed_tries; ++i) ++drawn[h.block_to_try(hint * 16, i)];
    for (u32 b = 0; b < supers * blocks; ++b) {
      const bool old = b < fresh * blocks;
      const double of_block = share > 0 ? (old ? (1 - share) / fresh : share / (supers - fresh)) : 1.0 / supers;
      const double expected = n * of_block / blocks;
      const double off = drawn[b] - expected;
      if (off * off > 36 * expected) wrong("block %u was drawn %.0f times, not about %.0f", b, drawn[b], expected);
    }
  }
}

void allocator(u64 seed) {
  const shape s{"the allocator", 4, 0, {}, no_memory, {}};
  title(s, seed, "");
  random_numbers random{seed};
  const slab_engine& e = *gpuhash_slab_hash_slab_engine_cuda();
  for (const u64 room : {u64(700), u64(4096)}) {
    heap_memory heap(2, 2, 64, room);
    const u64 before = heap.taken();
    std::set<u32> mine;
    for (const u64 n : {u64(1), u64(33), u64(257), u64(31) + random.below(300), u64(400)}) {
      vector<uint32_t> units(n + 8, 7);
      uint64_t missing = 0;
      SAME(e.allocate(&heap.h, n, units.data(), random.next(), &missing, 1, nullptr), 0);
      u64 none = 0;
      for (u64 i = 0; i < n; ++i) {
        none += units[i] == no_unit;
        if (units[i] != no_unit && (!heap.h.owns(units[i]) || !mine.insert(units[i]).second))
          wrong("unit %x was handed out twice, or is none", units[i]);
      }
      for (u64 i = n; i < units.size(); ++i) SAME(units[i], 7);
      SAME(none, missing);
      SAME(heap.taken() - before, mine.size());
      if (missing) SAME(mine.size(), room);
    }
    if (room == 700) SAME(mine.size(), 700);

    vector<uint32_t> back(mine.begin(), mine.end());
    back.resize(back.size() - 20);
    back.push_back(back[3]), back.push_back(0xfe000000), back.push_back(no_unit);
    const size_t n = back.size();
    vector<void*> addresses(n + 1, &heap);
    SAME(e.translate(&heap.h, n, back.data(), addresses.data(), 1, nullptr), 0);
    SAME(uintptr_t(addresses[n]), uintptr_t(&heap));
    for (size_t i = 0; i < n; ++i) {
      const uintptr_t at = heap.h.owns(back[i]) ? uintptr_t(heap.h.address(back[i])) : 0;
      SAME(uintptr_t(addresses[i]), at);
      if (at) memset(addresses[i], 5, 64);
    }
    vector<uint8_t> status(n + 1, untouched);
    uint64_t refused = 0, first = ~uint64_t(0);
    SAME(e.release(&heap.h, n, back.data(), status.data(), 1, &refused, &first, 1, nullptr), 0);
    SAME(refused, 3);
    SAME(status[n], untouched);
    SAME(status[n - 1] + status[n - 2], 0);
    SAME(status[3] + status[n - 3], 1);  // freed once
    SAME(first, status[3] ? n - 3 : 3);
    SAME(heap.taken() - before, 20);
    for (size_t i = 0; i + 3 < n; ++i)
      for (int byte = 0; byte < 64; ++byte)
        if (heap.h.address(back[i])[byte] != 0xff) wrong("unit %x was not wiped (A2)", back[i]);
  }
}

}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  vector<shape> shapes;
  add<pair32>(shapes, "pair32", format_pair32);
  add<set32>(shapes, "set32", format_set32);
  add<pair64>(shapes, "pair64", format_pair64);
  add<set64>(shapes, "set64", format_set64);
  return run_all(shapes, argc, argv, [](u64 seed) {
    if (section()) duplicates<pair32>("pair32", format_pair32, 64, seed);
    if (section()) duplicates<pair64>("pair64", format_pair64, 128, seed);
    if (section()) duplicates<set64>("set64", format_set64, 64, seed);
    if (section()) duplicates<set32>("set32", format_set32, 64, seed);
    if (section()) move<pair32>(format_pair32, seed);
    if (section()) move<set32>(format_set32, seed);
    if (section()) move<pair64>(format_pair64, seed);
    if (section()) move<set64>(format_set64, seed);
    if (section()) draws(seed);
    if (section()) allocator(seed);
  });
}
