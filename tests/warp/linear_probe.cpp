// The CUDA kernels of linear_probe on emulated warps: linear_probe [ROUNDS [FIRST SEED]]
#include <set>

#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/sketch.hpp"
#include "plugins/linear_probe/parts.cuh"
#include "plugins/linear_probe/sizes.hpp"
#include "plugins/linear_probe/structure.hpp"
#include "tests/warp/rounds.hpp"

extern "C" const gpuhash::engine* gpuhash_linear_probe_engines_cuda();
extern "C" const gpuhash::device_api* gpuhash_linear_probe_device_cuda();

namespace warp_test {
namespace {

template <class F>
struct linear_store final : store {
  linear_table<F> t{};
  vector<u128> memory;

  linear_store(format_id format, u64 keys, u32 row) {
    const u32 widest = 128 / sizeof(typename F::word);
    const u64 n = (keys + widest - 1) / widest * widest;
    memory.resize(n * sizeof(typename F::word) / 16 + 10);
    memset(memory.data(), 0xff, memory.size() * 16);
    auto* base = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory.data()) + 127) & ~uintptr_t(127));
    side_.resize(4);
    memset(side_.data(), 0xff, 64);
    t.slots = reinterpret_cast<typename F::word*>(base);
    t.side = reinterpret_cast<typename F::word*>(side_.data());
    t.seed = 12345, t.n_slots = n, t.group_bits = u32(__builtin_ctz(row));
    t.groups = typename F::index(n / row), t.widest = widest, t.probe_limit = u32(n + widest);
    run = gpuhash_linear_probe_engines_cuda() + format, layout = &t, cells = n;
    key_bytes = sizeof(typename F::key), value_bytes = F::has_value ? sizeof(typename F::value) : 0;
  }
  int64_t used() const override {
    int64_t n = 0;
    for (u64 i = 0; i < t.n_slots; ++i) n += F::key_of(t.slots[i]) != empty_key<typename F::key>;
    return n;
  }
  void beside(std::multimap<u64, u64>& found) const override {
    for (int i = 0; i < 2; ++i)
      if (F::key_of(t.side[i]) != empty_key<typename F::key>)
        found.emplace(typename F::key(empty_key<typename F::key> - typename F::key(i)), F::value_of(t.side[i]));
  }

 private:
  vector<u128> side_;
};

// Slots of 8 bytes take arrays of 4 as well: keys in the first shape, values in the second one.
template <class F>
void add(vector<shape>& to, const char* name, format_id format) {
  constexpr u32 word = sizeof(typename F::word), half = sizeof(typename F::key);
  for (const u32 bytes : {word, 64u, 128u}) {
    const u32 row = bytes / word;
    to.push_back({std::string(name) + " row " + std::to_string(row),
                  bytes == word ? 4 : half,
                  !F::has_value ? 0
                  : bytes == 64 ? 4
                                : half,
                  {insert, assign, accumulate, find, erase, count, mixed, pop, find_or_insert},
                  full,
                  [=](u64 keys) { return std::make_unique<linear_store<F>>(format, keys, row); },
                  row * sizeof(typename F::word) >= 32});
  }
}

// Every pair of `from` is in `to`, but for so many as `sum` says, and is where a find looks for it.
template <class F>
void same_pairs(const shape& s, const linear_store<F>& from, linear_store<F>& to, const model& m, int64_t failed) {
  int64_t live = 0;
  for (u64 slot = 0; slot < from.t.n_slots; ++slot) live += is_live<F>(from.t.slots[slot]);
  SAME(to.used() + failed, live);
  batch look;
  look.kind = find, look.key_bytes = s.key_bytes, look.value_bytes = s.value_bytes ? s.value_bytes : 8;
  for (const auto& [k, one] : m)
    if (one.alive && !is_side_key(typename F::key(k)))
      look.keys.push_back(k), look.values.push_back(0), look.ops.push_back(find);
  serve(to, look);
  int64_t missing = 0;
  for (size_t e = 0; e < look.n(); ++e) {
    missing += look.status[e] == no;
    if (look.status[e] == yes && s.value_bytes) SAME(look.out[e], m.at(look.keys[e]).value);
  }
  SAME(missing, failed);
  const auto there = contents(to);
  SAME(there.size(), to.used());
  for (const auto& [k, v] : there)
    if (!m.at(k).alive) wrong("key %llx was not in the old table", k);
}

// What a move has counted: nothing but slots used and pairs without a place.
inline std::pair<int64_t, int64_t> used_and_failed(const vector<totals>& sum) {
  int64_t used = 0, failed = 0;
  for (const totals& one : sum) {
    used += one.used, failed += int64_t(one.failed);
    SAME(one.live || one.yes || one.bad_ops, 0);
  }
  return {used, failed};
}

// A table with some pairs and tombstones, and what is in it.
template <class F>
void fill_some(const shape& s, linear_store<F>& t, model& m, random_numbers& random, const vector<u64>& pool) {
  batch in = random_batch(s, random, pool, insert, 700, true), out = random_batch(s, random, pool, erase, 120);
  check(t, m, in);
  check(t, m, out);
}

// A table moves into another one, as it does when it grows and shrinks. What found no place is counted.
template <class F>
void move(format_id format, u64 seed) {
  const shape s{"moving", sizeof(typename F::key), F::has_value ? u32(sizeof(typename F::value)) : 0, {}, full, {}};
  title(s, seed, F::has_value ? "pairs" : "a set");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 300);
  const u32 word = sizeof(typename F::word), widths[] = {1, 64 / word, 128 / word};
  const u64 sizes[] = {1200, 330, 100, 700};
  for (u32 i = 0; i < 8; ++i) {
    linear_store<F> from(format, 420 + random.below(60), widths[random.below(3)]);
    linear_store<F> to(format, sizes[i % 4] + random.below(40), widths[random.below(3)]);
    if (i >= 4) to.t.probe_limit = to.t.widest * 2;  // paths end early
    model m;
    fill_some(s, from, m, random, pool);
    const auto before = from.memory;
    bool moves = false;
    SAME(from.run->move(from.layout, to.layout, to.sum.data(), &moves, nullptr), 0);
    SAME(moves, true);
    if (memcmp(before.data(), from.memory.data(), before.size() * 16)) wrong("moving has changed the old table");
    const auto [used, failed] = used_and_failed({to.sum.begin(), to.sum.end()});
    SAME(used, to.used());
    if (i % 4 < 2 && i < 4) SAME(failed, 0);
    if (i % 4 == 2 && !failed) wrong("all pairs found a place in a table that has none for them");
    same_pairs(s, from, to, m, failed);
    if (i) continue;
    with_failing_calls("moving",
                       [&] { return from.run->move(from.layout, to.layout, to.sum.data(), &moves, nullptr); });
  }
}

// One rebuild by parts. Where the pairs that leave their parts have room, the new table has all pairs, and each where a find
// looks for it; else false.
template <class F>
bool moves_whole(const shape& s, linear_store<F>& from, linear_store<F>& to, const model& m) {
  const rebuild_engine& by_parts = *from.run->anew;
  vector<u128> memory(by_parts.memory(from.layout, to.layout) / 16 + 1);
  memset(memory.data(), 0x5a, memory.size() * 16);
  memset(memory.data(), 0, 8);
  SAME(by_parts.run(from.layout, to.layout, to.sum.data(), memory.data(), nullptr), 0);
  const auto [used, failed] = used_and_failed({to.sum.begin(), to.sum.end()});
  if (failed) return false;
  SAME(used, to.used());
  same_pairs(s, from, to, m, 0);
  return true;
}
template <class F>
batch pairs_of(const shape& s, const vector<u64>& keys) {
  batch b;
  b.kind = insert, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes;
  for (const u64 k : keys) b.keys.push_back(k), b.values.push_back(F::has_value ? k % 1000 : 0);
  return b;
}

// Nearly full tables, whose runs of full slots reach far behind the last home of a part, and long parts, for which a block
// reads several times.
template <class F>
void move_dense(const shape& s, format_id format, random_numbers& random) {
  constexpr u32 word = sizeof(typename F::word);
  const u64 long_parts = 2 * u64(multiprocessors()) * moved_bytes / word;  // slots from which parts have moved_bytes
  u32 whole = 0;
  for (u32 i = 0; i < 6; ++i) {
    linear_store<F> from(format, long_parts + random.below(300), 64 / word);
    linear_store<F> to(format, from.t.n_slots + random.below(from.t.n_slots / 3), 64 / word);
    model m;
    batch in = pairs_of<F>(s, key_pool(s, from.t.n_slots * (88 + random.below(8)) / 100));
    check(from, m, in);
    whole += moves_whole(s, from, to, m);
  }
  if (whole < 2) wrong("%u of 6 tables had room for the pairs that leave their parts", whole);
}

// One part has all homes, and exactly as many more than slots as there is room for.
template <class F>
void move_more_than_parts_hold(const shape& s, format_id format) {
  using key = typename F::key;
  constexpr u32 word = sizeof(typename F::word);
  linear_store<F> from(format, 450, 64 / word), to(format, 480, 64 / word);
  u64 bytes = moved_bytes;
  while (bytes > least_moved_bytes && to.t.n_slots * word / bytes < 2 * u64(multiprocessors())) bytes /= 2;
  const u64 slots = bytes / word, room = to.t.n_slots / left_room_share;
  vector<u64> keys;
  for (u64 k = 1; keys.size() < slots + room; ++k)
    if (u64(to.t.home(key(k))) << to.t.group_bits < slots) keys.push_back(k);
  model m;
  batch in = pairs_of<F>(s, keys);
  check(from, m, in);
  if (!moves_whole(s, from, to, m)) wrong("%llu pairs that leave their part have no room", (unsigned long long)room);
}

// The same by parts of the new table, of which every slot is written, whatever was there.
template <class F>
void move_by_parts(format_id format, u64 seed) {
  using key = typename F::key;
  const shape s{"by parts", sizeof(key), F::has_value ? u32(sizeof(typename F::value)) : 0, {}, full, {}};
  title(s, seed, F::has_value ? "pairs" : "a set");
  random_numbers random{seed};
  const u32 word = sizeof(typename F::word), widths[] = {1, 64 / word, 128 / word};
  const u64 old_slots[] = {450, 900, 450, 1400, 450}, sizes[] = {1300, 1700, 450, 480, 340};
  u32 failures = 0;
  for (u32 i = 0; i < 10; ++i) {
    linear_store<F> from(format, old_slots[i % 5] + random.below(60), widths[random.below(3)]);
    linear_store<F> to(format, sizes[i % 5] + random.below(40), widths[random.below(3)]);
    const bool crowded = i >= 8;  // most homes are in one part, and more keys than places to keep them
    vector<u64> pool = key_pool(s, 300);
    if (crowded) {
      pool.clear();
      for (u64 k = 1; pool.size() < 330; k += 1 + random.below(5))
        if (u64(to.t.home(key(k))) < to.t.groups / 8) pool.push_back(k);
    }
    model m;
    fill_some(s, from, m, random, pool);
    for (u64 slot = 0; slot < to.t.n_slots; ++slot)
      to.t.slots[slot] = F::make(key(1 + random.below(1u << 20)), typename F::value(7));
    const auto before = from.memory;
    const rebuild_engine& by_parts = *from.run->anew;
    const uint64_t bytes = by_parts.memory(from.layout, to.layout);
    if (bytes < 264) wrong("%llu bytes for a rebuild by parts", (unsigned long long)bytes);
    vector<u128> memory(bytes / 16 + 3);
    memset(memory.data(), 0x5a, memory.size() * 16);
    memset(memory.data(), 0, 8);
    SAME(by_parts.run(from.layout, to.layout, to.sum.data(), memory.data(), nullptr), 0);
    for (u64 at = bytes; at < memory.size() * 16; ++at) SAME(reinterpret_cast<u8*>(memory.data())[at], 0x5a);
    if (memcmp(before.data(), from.memory.data(), before.size() * 16)) wrong("moving has changed the old table");
    const auto [used, failed] = used_and_failed({to.sum.begin(), to.sum.end()});
    failures += failed != 0;
    if (crowded && !failed) wrong("all pairs found a place in too small a part");
    if (i % 5 < 2 && i < 8) SAME(failed, 0);
    if (failed) continue;  // all of them move one by one then
    SAME(used, to.used());
    same_pairs(s, from, to, m, 0);
    uint64_t cell = 0;
    if (const char* const what = linear_structure<F>::broken(to.t, &cell))
      wrong("%s, cell %llu", what, (unsigned long long)cell);
    if (i) continue;
    with_failing_calls("moving by parts",
                       [&] { return by_parts.run(from.layout, to.layout, to.sum.data(), memory.data(), nullptr); });
  }
  move_dense<F>(s, format, random);
  move_more_than_parts_hold<F>(s, format);
  // Those that are not for it.
  linear_store<F> from(format, 500, 16 / word), to(format, 1000, 16 / word);
  const auto applies = [&] { return from.run->anew->memory(from.layout, to.layout) != 0; };
  SAME(applies(), true);
  const auto not_with = [&](auto& member, auto other) {
    const auto was = member;
    member = other;
    SAME(applies(), false);
    member = was;
  };
  not_with(from.t.by_mask, 1u);
  not_with(to.t.by_mask, 1u);
  not_with(to.t.seed, u64(1));
  not_with(to.t.n_slots, u64(127));
  not_with(to.t.probe_limit, 1024 / word - 1);
  not_with(to.t.group_bits, u32(__builtin_ctz(256 / word)));
  if constexpr (sizeof(key) == 8) {
    not_with(from.t.groups, u64(1) << 32);
    not_with(to.t.groups, u64(1) << 32);
  }
  SAME(applies(), true);
}

// Operations of an accumulate that found no room, as the last step of a batch has them (drive/bulk/failed.cuh). A key that is
// there by now gets its operands, and its elements say so; an absent one stays absent, and its elements say what they said.
template <class F>
void retried(format_id format, u64 seed) {
  using key = typename F::key;
  using value = typename F::value;
  const shape s{"retried", sizeof(key), u32(sizeof(value)), {}, full, {}};
  title(s, seed, "at last");
  random_numbers random{seed};
  linear_store<F> t(format, 600, 64 / sizeof(typename F::word));
  batch in;
  in.kind = insert, in.key_bytes = s.key_bytes, in.value_bytes = s.value_bytes;
  for (u64 k = 0; k < 200; ++k) in.keys.push_back(k * 7 + 1), in.values.push_back(10);
  SAME(serve(t, in).live, 200);
  const u32 n = 301 + 2 * u32(random.below(50));  // the last warp has lanes without an operation
  vector<typename F::word> operations;
  vector<u32> at;
  for (u32 i = 0; i < n; ++i) {
    const u64 which = random.below(i + 1 == n ? 200 : 400);  // from 200 on they are absent
    operations.push_back(F::make(key(which * 7 + 1), value(1 + random.below(50))));
    at.push_back(n - 1 - i);
  }
  vector<u8> status(n, full);
  sample_result found{};
  found.failed_ops = n;
  bulk_work<F> w{};
  w.found = &found, w.blocks = 3, w.partition.word = operations.data(), w.partition.at = at.data();
  request q{};
  q.kind = accumulate, q.value_type = GPUHASH_UINT, q.n = n, q.status = status.data();
  q.key_bytes = s.key_bytes, q.value_bytes = s.value_bytes;
  SAME(launch(retry_failed<linear_partitions<F>>, w.blocks, block_threads, nullptr, t.t, q, w), 0);
  std::map<u64, u64> expected;
  for (const u64 k : in.keys) expected[k] = 10;
  for (u32 i = 0; i < n; ++i) {
    const auto there = expected.find(F::key_of(operations[i]));
    SAME(status[at[i]], there == expected.end() ? full : no);
    if (there != expected.end()) there->second += F::value_of(operations[i]);
  }
  const std::multimap<u64, u64> after = contents(t);
  SAME(after.size(), expected.size());
  for (const auto& [k, v] : after)
    if (!expected.count(k) || v != expected[k]) wrong("key %llx has the value %llx", k, v);
}

// Cells beyond 2^32.
void far_cells(u64 seed) {
  where = "far cells, seed " + std::to_string(seed);
  constexpr u64 far = u64(1) << 32;
  linear_store<pair32> s(format_pair32, 600, 8);
  batch b;
  b.kind = insert, b.key_bytes = b.value_bytes = 4;
  for (u64 k = 0; k < 300; ++k) b.keys.push_back(k * 7), b.values.push_back(k);
  SAME(serve(s, b).live, 300);
  linear_table<pair32> t = s.t;
  t.slots = reinterpret_cast<u64*>(reinterpret_cast<uintptr_t>(t.slots) - far * sizeof(u64));
  vector<u32> keys(700), values(700);
  uint64_t n = 0;
  SAME(s.run->collect(&t, {}, far, far + t.n_slots, {keys.data(), values.data(), 4, 4, &n}), 0);
  SAME(n, 300);
  for (size_t i = 0; i < n; ++i) SAME(keys[i], values[i] * 7);
}

// Sums of keys that crowd one part of the table, each named so many times: bins and lists overflow, what is left is
// joined or divided anew, and of a part more keys are joined than a block has places for.
template <class F>
void crowd(format_id format, bool told, u64 slots, size_t keys, u32 times, u64 seed) {
  using key = typename F::key;
  const shape s{sizeof(key) == 4 ? "a crowd, 4 bytes" : "a crowd, 8 bytes",
                sizeof(key),
                u32(sizeof(typename F::value)),
                {},
                full,
                {}};
  title(s, seed, told ? "told" : "untold");
  random_numbers random{seed};
  linear_store<F> t(format, slots, 64 / sizeof(typename F::word));
  constexpr u64 of_part = 128;  // slots
  vector<u64> crowded;
  for (u64 k = 1; crowded.size() < keys; k += 1 + random.below(9))
    if (t.t.home(key(k)) << t.t.group_bits < of_part) crowded.push_back(k);
  batch b;
  b.kind = accumulate, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes;
  b.by_parts = true, b.parts = parts_always, b.told = told;
  for (const u64 k : crowded) b.keys.insert(b.keys.end(), times, k);
  for (u64 k = 1; k <= 40; ++k) b.keys.push_back(k << 20 | 1);  // somewhere
  for (size_t i = b.n() - 1; i; --i) std::swap(b.keys[i], b.keys[random.below(i + 1)]);
  for (size_t i = 0; i < b.n(); ++i) b.values.push_back(1 + random.below(50));
  std::map<u64, u64> expected;
  for (u32 round = 0; round < 2; ++round) {  // an empty table, and one with contents
    b.status.clear();
    const totals sum = serve(t, b);
    for (size_t i = 0; i < b.n(); ++i) expected[b.keys[i]] += b.values[i];
    const auto there = contents(t);
    for (const auto& [k, v] : there) SAME(v, expected[k]);
    int64_t absent = 0;
    for (const u64 k : b.keys) absent += !there.count(k);
    SAME(sum.failed, absent);
    std::map<u64, u32> added;
    for (size_t i = 0; told && i < b.n(); ++i) {
      added[b.keys[i]] += b.status[i] == yes;
      SAME(b.status[i] == full, !there.count(b.keys[i]));
    }
    for (const auto& [k, times_added] : added) SAME(times_added, round == 0 && there.count(k));
    SAME(there.size(), std::min<u64>(expected.size(), t.t.n_slots));
    SAME(t.live(), there.size());
  }
}
template <class F>
void crowds(format_id format, u64 seed) {
  for (const bool told : {false, true}) {
    crowd<F>(format, told, 6400, 240, 3, seed);
    crowd<F>(format, told, 1280, 40, 20, seed);
    crowd<F>(format, told, 1280, 110, 2, seed);
    crowd<F>(format, told, 480, 600, 1, seed);
    crowd<F>(format, told, 480, 150, 5, seed);
  }
}

// What a growing table asks about a mixed batch.
void count_codes(u64 seed) {
  random_numbers draw{seed};
  const size_t n = draw.below(draw.below(4) ? 600 : 12000) + 1;
  vector<u8> ops(n), there(n);
  const uint64_t before = draw.below(100);
  uint64_t sum = before, adding = before, taking = before;
  for (size_t i = 0; i < n; ++i) {
    const u8 op = ops[i] = u8(draw.below(11));
    there[i] = u8(draw.below(2));
    const bool adds = op == insert || op == assign || op == accumulate;
    adding += adds;
    taking += there[i] ? op == erase : adds;
  }
  const device_api& cuda = *gpuhash_linear_probe_device_cuda();
  if (cuda.count_adding(ops.data(), nullptr, n, &sum, nullptr)) wrong("codes: a fault");
  SAME(sum, adding);
  sum = before;
  if (cuda.count_adding(ops.data(), there.data(), n, &sum, nullptr)) wrong("codes: a fault");
  SAME(sum, taking);
}

// What it asks about the keys of a large one.
template <class Key>
void pick_keys(u64 seed) {
  random_numbers draw{seed};
  const size_t many = 2 + draw.below(1000), n = many + draw.below(100000);
  vector<Key> numbers(n);
  for (size_t i = 0; i < n; ++i) numbers[i] = Key(i);
  const up_to_the_end all(numbers.data(), n * sizeof(Key), n * sizeof(Key));
  vector<Key> picked(many + 1, ~Key(0));
  vector<u8> ops(n);
  for (u8& op : ops) op = draw.below(4) ? u8(find) : u8(assign);
  for (size_t i = n / 2; i < n / 2 + n / 8; ++i) ops[i] = insert;
  const up_to_the_end all_ops(ops.data(), n, n);
  const auto pick = [&](const u8* of) {
    const device_api& cuda = *gpuhash_linear_probe_device_cuda();
    if (cuda.pick_keys(all.data(), of, n, sizeof(Key), picked.data(), many, nullptr)) wrong("a fault");
  };
  pick(all_ops.data());
  for (size_t i = 0; i < many; ++i)
    if (const size_t at = picked[i]; at >= n || !adds_in_mix(ops[at])) wrong("element %zu of %zu was picked", at, n);
  if (std::set<Key>(picked.begin(), picked.end()).size() < many / 8) wrong("the same keys were picked again and again");
  pick(nullptr);
  SAME(picked[0], 0);
  SAME(picked[many - 1], n - 1);
  SAME(picked[many], ~Key(0));
  const size_t apart = (n - 1) / (many - 1);
  for (size_t i = 1; i < many; ++i)
    if (const size_t from_last = picked[i] - picked[i - 1]; from_last != apart && from_last != apart + 1)
      wrong("keys are %zu apart, of %zu", from_last, apart);
}
template <class Key>
void sketch_keys(u64 seed) {
  random_numbers draw{seed};
  const size_t n = 1 + draw.below(20000);
  const u64 distinct = 1 + draw.below(draw.below(2) ? n : 10);
  vector<Key> numbers(n);
  for (Key& k : numbers) k = Key(draw.below(distinct) * 0x9e3779b97f4a7c15 >> 7);
  const up_to_the_end all(numbers.data(), n * sizeof(Key), n * sizeof(Key));
  vector<u8> ops(n);
  for (u8& op : ops) op = u8(draw.below(10));
  const up_to_the_end all_ops(ops.data(), n, n);
  const bool mixed = draw.below(2);
  vector<u32> ranks(ranks_of_sketch + 1), expected(ranks_of_sketch + 1);
  for (u32 i = 0; i < ranks_of_sketch; i += 3) ranks[i] = expected[i] = 1;  // it adds to what is there
  for (size_t i = 0; i < n; ++i) {
    const sketched_key s = sketch_of(numbers[i]);
    if (!mixed || adds_in_mix(ops[i])) expected[s.place] = std::max(expected[s.place], s.rank);
  }
  const u8* const of = mixed ? static_cast<const u8*>(all_ops.data()) : nullptr;
  if (gpuhash_linear_probe_device_cuda()->sketch_keys(all.data(), of, n, sizeof(Key), ranks.data(), nullptr))
    wrong("a fault");
  for (size_t i = 0; i < ranks.size(); ++i) SAME(ranks[i], expected[i]);
}

// And what it makes of that.
void count_by_sketch(u64 seed) {
  random_numbers draw{seed};
  vector<u32> ranks(ranks_of_sketch);
  SAME(distinct_by_ranks(ranks.data()), 0);
  const u64 first = draw.below(u64(1) << 40), step = 1 + draw.below(1000);
  const double margin = sketch_margin();
  if (margin < .12 || margin > .14) wrong("a margin of %g", margin);
  u64 n = 0;
  for (const u64 checked : {1, 2, 3, 10, 100, 1000, 3000, 10000, 30000, 100000, 300000, 1000000}) {
    for (; n < checked; ++n) {
      const sketched_key s = sketch_of(first + n * step);
      if (s.place >= ranks_of_sketch || s.rank < 1 || s.rank > highest_rank) wrong("a rank of %u", s.rank);
      ranks[s.place] = std::max(ranks[s.place], s.rank);
    }
    const double about = distinct_by_ranks(ranks.data());
    if (about < double(n) * (1 - margin) - 1 || about > double(n) * (1 + margin) + 1)
      wrong("%llu keys are taken for %g", n, about);
  }
  for (u32& r : ranks) r = highest_rank;  // as many as there can be
  if (distinct_by_ranks(ranks.data()) < 1e18) wrong("full ranks are %g", distinct_by_ranks(ranks.data()));
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
    if (section()) count_codes(seed);
    if (section()) pick_keys<u32>(seed);
    if (section()) pick_keys<u64>(seed);
    if (section()) sketch_keys<u32>(seed);
    if (section()) sketch_keys<u64>(seed);
    if (section()) count_by_sketch(seed);
    if (section()) far_cells(seed);
    if (section()) retried<pair32>(format_pair32, seed);
    if (section()) retried<pair64>(format_pair64, seed);
    if (section()) crowds<pair32>(format_pair32, seed);
    if (section()) crowds<pair64>(format_pair64, seed);
    if (section()) move<pair32>(format_pair32, seed);
    if (section()) move<set32>(format_set32, seed);
    if (section()) move<pair64>(format_pair64, seed);
    if (section()) move<set64>(format_set64, seed);
    if (section()) move_by_parts<pair32>(format_pair32, seed);
    if (section()) move_by_parts<set32>(format_set32, seed);
    if (section()) move_by_parts<pair64>(format_pair64, seed);
    if (section()) move_by_parts<set64>(format_set64, seed);
  });
}
