// The CUDA kernels of hive on emulated warps: hive [ROUNDS [FIRST SEED]]
#include "plugins/hive/layout.hpp"
#include "tests/warp/rounds.hpp"

extern "C" const gpuhash::engine* gpuhash_hive_engines_cuda();

namespace warp_test {
namespace {

template <class F>
struct hive_store final : store {
  using word = typename F::word;
  hive_table<F> t{};
  vector<u128> slots_, rest_;

  hive_store(format_id format, u64 keys, u32 bucket, u32 ways, u32 locks = 16, bool one_segment = false) {
    const u64 n = keys / bucket < least_buckets ? u64(least_buckets) : keys / bucket;
    t.seed = 12345, t.base = 1;
    if (n >= 48 && !one_segment) t.base = typename F::index(n / 48), t.round = 1;  // at least two segments,
    t.split = n >= 96 && !one_segment ? t.base / 2 : 0;                            // of which some are split
    t.segment_buckets = typename F::index((n + t.segments() - 1) / t.segments());
    if (t.segments() > 1) t.segment_buckets = (t.segment_buckets + 3) & ~typename F::index(3);
    t.slot_bits = u32(__builtin_ctz(bucket)), t.ways = ways, t.lock_mask = locks - 1;
    t.stash_slots = 16, t.stash_path = 16;
    slots_.resize(t.cells() * sizeof(word) / 16 + 10);
    rest_.resize(t.buckets() / 16 + locks / 4 + 12);
    memset(slots_.data(), 0xff, slots_.size() * 16);
    memset(rest_.data(), 0xff, rest_.size() * 16);
    t.slots = reinterpret_cast<word*>((reinterpret_cast<uintptr_t>(slots_.data()) + 127) & ~uintptr_t(127));
    t.stash = t.slots + t.bucket_cells();
    t.side = reinterpret_cast<word*>(rest_.data());
    t.locks = reinterpret_cast<u32*>(rest_.data() + 2);
    t.note = t.locks + locks;
    t.filter = t.note + 4;
    run = gpuhash_hive_engines_cuda() + format, layout = &t, cells = t.cells();
    key_bytes = sizeof(typename F::key), value_bytes = F::has_value ? sizeof(typename F::value) : 0;
    divides_beside_others = 1u << insert | 1u << accumulate, reads_alone = true;
  }
  int64_t used() const override {
    int64_t n = 0;
    for (u64 i = 0; i < t.cells(); ++i) n += !is_empty<F>(t.slots[i]);
    return n;
  }
  void beside(std::multimap<u64, u64>& found) const override {
    for (int i = 0; i < 2; ++i)
      if (!is_empty<F>(t.side[i]))
        found.emplace(typename F::key(empty_key<typename F::key> - typename F::key(i)), F::value_of(t.side[i]));
  }
};

// By the paper's steps: slots are claimed and then written, and there are no evictions.
std::unique_ptr<store> by_other_steps(u64 keys, bool commits) {
  auto s = std::make_unique<hive_store<pair32>>(format_pair32, keys, 8, 2);
  if (commits)
    s->t.commits = 1;
  else
    s->t.evictions = 0;
  return s;
}

// Many keys at once where slots are claimed first. Most buckets are locked then, which is no reason to fill the stash: it is
// for keys that find no place.
void crowd(u64 seed) {
  where = "claims in a crowd, seed " + std::to_string(seed);
  random_numbers random{seed};
  u32 stashed = 0;
  for (int tables = 0; tables < 8; ++tables) {
    hive_store<pair32> s(format_pair32, 1000, 8, 2, 128);
    s.t.commits = 1;
    batch b;
    b.kind = insert, b.key_bytes = b.value_bytes = 4;
    while (b.n() < 700) b.keys.push_back(u64(b.n()) << 20 | random.below(1u << 20));
    b.values.assign(b.n(), 1), b.ops.assign(b.n(), 0);
    SAME(serve(s, b).failed, 0);
    for (u32 i = 0; i < s.t.stash_slots; ++i) stashed += !is_empty<pair32>(s.t.stash[i]);
  }
  if (stashed > 6) wrong("%u of 5600 keys went to the stash", stashed);
}

// Finds that have a full table to themselves: keys lie in their home, in another bucket, in the stash, and nowhere.
template <class F>
void alone(format_id format, u32 ways, u64 seed) {
  const shape s{"alone", sizeof(typename F::key), F::has_value ? u32(sizeof(typename F::value)) : 0, {}, full, {}};
  title(s, seed, ways == 2 ? "two ways" : "three ways");
  random_numbers random{seed};
  hive_store<F> t(format, 640, 8, ways);
  model m;
  const vector<u64> pool = key_pool(s, 1100);
  batch in = random_batch(s, random, {pool.begin(), pool.begin() + 700}, insert, 2500, true);
  in.type = in.combine = 0, in.by_pointer = false;
  check(t, m, in);
  u32 stashed = 0;
  for (u32 i = 0; i < t.t.stash_slots; ++i) stashed += is_live<F>(t.t.stash[i]);
  if (!stashed) wrong("nothing went to the stash");
  for (const u32 kind : {u32(find), u32(count)}) {
    batch b = random_batch(s, random, pool, kind, 1501, true);
    for (size_t i = 0; i < b.n(); ++i) b.keys[i] = pool[i % pool.size()];
    check(t, m, b);
  }
}

// Untold sums of runs: all elements are joined first, and what is left of them is listed, and served by parts.
template <class F>
void runs(format_id format, u64 seed) {
  const shape s{"runs", sizeof(typename F::key), u32(sizeof(typename F::value)), {}, full, {}};
  title(s, seed, "joined");
  random_numbers random{seed};
  hive_store<F> t(format, 1000, 8, 2);
  batch b;
  b.kind = accumulate, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes;
  b.by_parts = true, b.parts = parts_always, b.told = false;
  std::map<u64, u64> expected;
  for (u64 run = 0; run < 180; ++run)
    for (u32 i = 0; i < 10; ++i) {
      b.keys.push_back(run * 7919 + 2);
      b.values.push_back(1 + random.below(50));
      expected[b.keys.back()] += 2 * b.values.back();
    }
  for (u32 round = 0; round < 2; ++round) {
    b.status.clear();
    SAME(serve(t, b).failed, 0);
  }
  const auto there = contents(t);
  SAME(there.size(), expected.size());
  for (const auto& [k, v] : there) SAME(v, expected[k]);
}

// Sums where the only segment has no room in a block: equal keys are joined all the same, and then served in the table.
template <class F>
void one_large_segment(format_id format, u64 seed) {
  const shape s{"one large segment", sizeof(typename F::key), u32(sizeof(typename F::value)), {}, full, {}};
  title(s, seed, "sums");
  emulated::machine& machine = emulated::machine::the();
  const u32 before = machine.block_bytes;
  machine.block_bytes = 60 * 1024;
  random_numbers random{seed};
  constexpr size_t slots = 66 * 1024 / sizeof(typename F::word);
  hive_store<F> t(format, slots, 8, 2, 16, true);
  model m;
  const vector<u64> pool = key_pool(s, slots + 300);
  vector<u64> some(pool.end() - 300, pool.end() - 150);
  const auto sums = [&](bool told) {
    // Untold, elements of one chunk: where a key found no room, it may find some among those of the next one.
    batch b = random_batch(s, random, some, accumulate, told ? 2500 : 440, true);
    b.type = b.combine = 0, b.by_pointer = false, b.by_parts = true, b.parts = parts_always, b.with_sum = true;
    b.told = told;
    if (told) return check(t, m, b);
    const std::multimap<u64, u64> there = contents(t);
    const totals sum = serve(t, b);
    std::map<u64, u64> expected(there.begin(), there.end());
    int64_t lost = 0, fresh = 0;
    const std::multimap<u64, u64> now = contents(t);
    for (size_t i = 0; i < b.n(); ++i) {
      const bool is = now.count(b.keys[i]);
      lost += !is;
      if (!is) continue;
      fresh += !expected.count(b.keys[i]);
      expected[b.keys[i]] += operand(b, i);
    }
    SAME(sum.failed, lost);
    SAME(sum.yes, fresh);
    SAME(now.size(), expected.size());
    for (const auto& [k, v] : now) {
      if (v != (b.value_bytes == 4 ? u32(expected[k]) : expected[k])) wrong("key %llx has the sum %llx", k, v);
    }
    return sum;
  };
  SAME(sums(true).failed, 0);
  batch fill = random_batch(s, random, {pool.begin(), pool.end() - 300}, insert, pool.size() - 300, true);
  fill.keys.assign(pool.begin(), pool.end() - 300);
  fill.type = fill.combine = 0, fill.by_pointer = false;
  check(t, m, fill);
  some.insert(some.end(), pool.end() - 150, pool.end());
  if (sums(true).failed == 0) wrong("all found room");
  sums(false);
  machine.block_bytes = before;
}

template <class F>
void add(vector<shape>& to, const char* name, format_id format) {
  for (const u32 bucket : {8u, 16u, 32u}) {
    const u32 ways = bucket == 16 ? 3 : 2;
    to.push_back({std::string(name) + " bucket " + std::to_string(bucket),
                  bucket == 32 ? 4 : u32(sizeof(typename F::key)),  // slots of 8 bytes take arrays of 4 as well
                  !F::has_value  ? 0
                  : bucket == 16 ? 4
                                 : u32(sizeof(typename F::value)),
                  {insert, assign, accumulate, find, erase, count, mixed, pop, find_or_insert},
                  full,
                  [=](u64 keys) { return std::make_unique<hive_store<F>>(format, keys, bucket, ways); },
                  bucket == 8});
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
  const vector<u32> kinds = {insert, assign, accumulate, find, erase, count, mixed, pop, find_or_insert};
  for (const bool commits : {false, true})
    shapes.push_back({commits ? "pair32 claims" : "pair32 without evictions", 4, 4, kinds, full,
                      [=](u64 keys) { return by_other_steps(keys, commits); }, true});
  return run_all(shapes, argc, argv, [](u64 seed) {
    if (section()) crowd(seed);
    if (section()) runs<pair32>(format_pair32, seed);
    if (section()) runs<pair64>(format_pair64, seed);
    if (section()) one_large_segment<pair32>(format_pair32, seed);
    if (section()) one_large_segment<pair64>(format_pair64, seed);
    for (const u32 ways : {2u, 3u}) {
      if (section()) alone<pair32>(format_pair32, ways, seed);
      if (section()) alone<set32>(format_set32, ways, seed);
      if (section()) alone<pair64>(format_pair64, ways, seed);
      if (section()) alone<set64>(format_set64, ways, seed);
    }
  });
}
