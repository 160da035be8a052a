// Batches by segments (plugins/hive/parts.cuh) on emulated warps: parts_test [SEEDS [FIRST]]
//
// Batches against a model, as tests/warp has it, with what layout.hpp says of the table looked at after each. Segments are
// small, so that elements are left, evicted and stashed.
#include "plugins/hive/parts.cuh"

#include "tests/warp/rounds.hpp"

namespace warp_test {
namespace {

// One element at a time, whatever the kind: an engine takes long to compile.
template <class F>
int run_any(const void* table, const request& q, totals* sum) {
  const vector<u8> kinds(q.n, u8(q.kind));
  request each = q;
  each.kind = mixed, each.ops = kinds.data();
  return run_on_cuda<typename hive_partitions<F>::rest_op, 1>(table, each, sum);
}
template <class F>
constexpr engine engine_here() {
  engine e = {run_any<F>, collect_on_cuda<hive_table<F>>};
  e.parts = &bulk_engine_of<hive_partitions<F>>;
  return e;
}
template <class F>
inline constexpr engine engine_of = engine_here<F>();

struct geometry {
  u32 ways, stash;
  u64 base, round, split;  // segments
  double room;             // slots by keys
};

template <class F>
struct part_store final : store {
  using word = typename F::word;
  using key = typename F::key;
  using index = typename F::index;
  hive_table<F> t{};
  vector<u128> slots_, rest_;

  part_store(u64 keys, const geometry& g) {
    t.seed = 12345, t.base = index(g.base), t.round = u32(g.round), t.split = index(g.split);
    t.slot_bits = 3, t.ways = g.ways, t.lock_mask = 15;
    t.segment_buckets = index((u64(double(keys) * g.room / 8) / t.segments() + 4) / 4 * 4);
    t.stash_slots = g.stash, t.stash_path = g.stash < 8 ? g.stash : 8;
    slots_.resize(t.cells() * sizeof(word) / 16 + 24);
    rest_.resize(t.buckets() / 16 + 24);
    memset(slots_.data(), 0xff, slots_.size() * 16);
    memset(rest_.data(), 0xff, rest_.size() * 16);
    t.slots = reinterpret_cast<word*>((reinterpret_cast<uintptr_t>(slots_.data()) + 127) & ~uintptr_t(127));
    t.stash = t.slots + t.bucket_cells();
    t.side = reinterpret_cast<word*>(rest_.data());
    t.locks = reinterpret_cast<u32*>(rest_.data() + 2);
    t.note = t.locks + 16;
    t.filter = t.note + 4;
    run = &engine_of<F>, layout = &t, cells = t.cells();
    key_bytes = sizeof(key), value_bytes = F::has_value ? sizeof(typename F::value) : 0;
    divides_beside_others = 1u << insert | 1u << accumulate;
  }
  // Asked after every batch.
  int64_t used() const override {
    int64_t n = 0;
    for (u64 i = 0; i < t.cells(); ++i) {
      n += !is_empty<F>(t.slots[i]);
      if (is_live<F>(t.slots[i])) look_at(i);
    }
    for (u64 i = t.cells(); i < t.cells() + 8; ++i)
      if (!is_empty<F>(t.slots[i])) wrong("a slot behind the table was written");
    for (u64 i = t.buckets(); i < t.buckets() + 64; ++i)
      if (reinterpret_cast<const u8*>(t.filter)[i] != 0xff) wrong("the filter was written behind its end");
    return n;
  }
  void look_at(u64 cell) const {
    const key k = F::key_of(t.slots[cell]);
    const index home = t.home(k);
    const u64 b = cell >> 3;
    const bool stashed = cell >= t.bucket_cells();
    bool own = stashed, reached = !stashed;
    u32 copies = 0;
    for (u32 way = 0; way < t.ways; ++way) {
      const index bucket = t.bucket_of(k, home, way);
      own |= u64(bucket) == b;
      for (u32 i = 0; i < 8; ++i) {
        const word w = t.bucket(bucket)[i];
        copies += F::key_of(w) == k;
        if (way) continue;
        if (F::has_value && w == tombstone<F>(k)) wrong("live key %llx has a tombstone in its home (H6)", u64(k));
        if (is_empty<F>(w) && (stashed || b != u64(home)))
          wrong("key %llx lies outside of its home, which has an empty slot (H2)", u64(k));
      }
    }
    if (!own) wrong("key %llx lies in a bucket that is not its own", u64(k));
    for (u32 i = 0, at = t.stash_slots ? t.stash_start(k) : 0; i < t.stash_path; ++i, at = (at + 1) % t.stash_slots) {
      if (is_empty<F>(t.stash[at])) break;
      copies += F::key_of(t.stash[at]) == k;
      reached |= t.stash + at == t.slots + cell;
    }
    if (copies != 1) wrong("key %llx has %u slots (H7)", u64(k), copies);
    if (!reached || (stashed && *t.note == ~0u)) wrong("key %llx of the stash cannot be found there", u64(k));
    if ((stashed || b != u64(home)) && *t.filter_of(home) & t.filter_bit(k, home))
      wrong("the filter does not know of key %llx (H3)", u64(k));
    for (u32 i = 0; i <= t.lock_mask; ++i)
      if (!(t.locks[i] & 1)) wrong("lock %u was left locked", i);
  }
  u64 dead() const {
    u64 n = 0;
    for (u64 i = 0; i < t.bucket_cells(); ++i) n += is_dead<F>(t.slots[i]);
    return n;
  }
  u64 stashed() const {
    u64 n = 0;
    for (u32 i = 0; i < t.stash_slots; ++i) n += is_live<F>(t.stash[i]);
    return n;
  }
  u64 outside() const {
    u64 n = 0;
    for (u64 i = 0; i < t.bucket_cells(); ++i)
      n += is_live<F>(t.slots[i]) && u64(t.home(F::key_of(t.slots[i]))) != i >> 3;
    return n;
  }
  void beside(std::multimap<u64, u64>& found) const override {
    for (int i = 0; i < 2; ++i)
      if (!is_empty<F>(t.side[i])) found.emplace(key(empty_key<key> - key(i)), F::value_of(t.side[i]));
  }
};

// What was seen of what these tests are about.
u64 most_outside = 0, most_stashed = 0, most_dead = 0, failed_in_all = 0;

// Full to the last slot, erased in part, and filled again: by parts, and one at a time in between.
template <class F>
void churn(const shape& s, const geometry& g, u64 seed) {
  title(s, seed, "erased and filled again");
  random_numbers random{seed};
  vector<u64> pool = key_pool(s, 500 + random.below(300));
  pool.resize(pool.size() - 4);  // no side keys: the load is what is asked for
  part_store<F> t(pool.size(), {g.ways, g.stash, g.base, g.round, g.split, 0.98});
  model m;
  for (int round = 0; round < 7; ++round) {
    const u32 kind = round % 3 == 1 ? u32(erase) : round % 3 == 2 ? u32(assign) : u32(insert);
    batch b;
    b.kind = kind, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes ? s.value_bytes : 8;
    b.with_sum = true;
    for (size_t i = 0; i < pool.size(); ++i)
      if (kind != erase || random.below(round < 4 ? 2 : 8) == 0) b.keys.push_back(pool[i]);
    if (kind == erase)  // some twice
      for (size_t i = 0, n = b.keys.size(); i < n; i += 5) b.keys.push_back(b.keys[i]);
    for (size_t i = b.keys.size() - 1; i; --i) std::swap(b.keys[i], b.keys[random.below(i + 1)]);
    for (size_t i = 0; i < b.n(); ++i) b.values.push_back(s.value_bytes ? random.below(1000) : 0);
    b.ops.assign(b.n(), 0);
    b.by_parts = round != 4;
    failed_in_all += check(t, m, b).failed;
    most_outside = std::max(most_outside, t.outside());
    most_stashed = std::max(most_stashed, t.stashed());
    most_dead = std::max(most_dead, t.dead());
  }
}

// As many keys as slots, in segments of few buckets, so that elements of a block evict side by side; and each key several
// times, so that equal ones meet again and again beyond their homes.
template <class F>
void crowd(const shape& s, u32 ways, u64 seed) {
  title(s, seed, "crowded");
  random_numbers random{seed};
  part_store<F> t(100 + random.below(300), {ways, u32(random.below(2) * 8), 4 + random.below(8), 0, 0, 1});
  const size_t slots = t.t.bucket_cells();
  const vector<u64> pool = key_pool(s, 2 * slots + 4);
  model m;
  const auto round = [&](u32 kind, size_t from, size_t to, u32 copies, bool by_parts) {
    batch b;
    b.kind = kind, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes ? s.value_bytes : 8;
    b.by_parts = by_parts, b.with_sum = true;
    b.combine = kind == accumulate ? 1 : 0;
    for (u32 n = 0; n < copies; ++n) b.keys.insert(b.keys.end(), pool.begin() + long(from), pool.begin() + long(to));
    for (size_t i = b.keys.size() - 1; i; --i) std::swap(b.keys[i], b.keys[random.below(i + 1)]);
    for (size_t i = 0; i < b.n(); ++i) b.values.push_back(s.value_bytes ? random.below(1000) : 0);
    b.ops.assign(b.n(), 0);
    failed_in_all += check(t, m, b).failed;
  };
  round(insert, 0, slots * 7 / 8, 1, false);  // evictions leave EMPTY slots before others
  round(insert, 0, slots, 1, true);
  if (s.value_bytes) round(accumulate, 0, slots, 4, true);
  round(insert, slots, slots + slots / 8, 6, true);
  round(erase, 0, slots / 4, 2, true);
  round(assign, slots, slots + slots / 2, 6, true);
}

// Without evictions, to more keys than slots: who was there stays in its bucket.
template <class F>
void stay(const shape& s, u32 ways, u64 seed) {
  title(s, seed, "without evictions");
  random_numbers random{seed};
  part_store<F> t(200 + random.below(200), {ways, 8, 4, 0, 0, 1});
  t.t.evictions = 0, t.t.commits = u32(random.below(2));
  const size_t slots = t.t.bucket_cells();
  const vector<u64> pool = key_pool(s, slots + slots / 8 + 4);
  model m;
  std::map<u64, u64> bucket_of;
  for (const bool by_parts : {false, true, false}) {
    const size_t from = m.size() ? slots / 2 : 0, to = by_parts ? slots : m.size() ? pool.size() - 4 : slots / 2;
    batch b;
    b.kind = insert, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes ? s.value_bytes : 8;
    b.by_parts = by_parts, b.with_sum = true;
    b.keys.assign(pool.begin() + long(from), pool.begin() + long(to));
    for (size_t i = 1; b.keys[0] % 4 == 0; ++i) std::swap(b.keys[0], b.keys[i]);  // parts=always
    b.values.assign(b.n(), 0), b.ops.assign(b.n(), 0);
    failed_in_all += check(t, m, b).failed;
    for (u64 i = 0; i < slots; ++i) {
      if (!is_live<F>(t.t.slots[i])) continue;
      const auto [was, fresh] = bucket_of.emplace(F::key_of(t.t.slots[i]), i >> 3);
      if (!fresh) SAME(was->second, i >> 3);
    }
  }
}

template <class F>
void some_parts(const char* name, const geometry& g, u64 seed) {
  const shape s{std::string(name) + " ways " + std::to_string(g.ways) + " segments " +
                    std::to_string((g.base << g.round) + g.split),
                sizeof(typename F::key),
                F::has_value ? u32(sizeof(typename F::value)) : 0,
                {},
                full,
                [=](u64 keys) { return std::make_unique<part_store<F>>(keys, g); },
                true};
  parts_of_tables(s, seed * 10 + 1);
  for (const bool few : {false, true}) untold_parts(s, seed * 10 + 2 + few, few);
  if (g.base << g.round == 1) full_parts(s, seed * 10 + 4);  // others may have room in some segment
  told_parts(s, seed * 10 + 9);
  churn<F>(s, g, seed * 10 + 5);
  if constexpr (F::has_value) {
    part_store<F> t(1000, {g.ways, g.stash, g.base, g.round, g.split, 2});
    declined(s, t, seed * 10 + 5);
  }
  stay<F>(s, g.ways, seed * 10 + 5);
  for (u32 i = 0; i < 4; ++i) crowd<F>(s, g.ways, seed * 10 + 6 + i);
}
}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  const u64 seeds = argc > 1 ? u64(atoll(argv[1])) : 4, first = argc > 2 ? u64(atoll(argv[2])) : 1;
  // One segment; several; in the middle of a round, of segments with half the keys; many, divided in two passes.
  const geometry all[] = {{2, 16, 1, 0, 0, 1.02}, {3, 16, 3, 0, 0, 1.1}, {2, 0, 3, 1, 2, 1.2}, {2, 32, 2, 2, 3, 1.05}};
  for (u64 seed = first; seed < first + seeds; ++seed) {
    some_parts<pair32>("pair32", all[seed % 4], seed * 1000);
#ifndef GPUHASH_ONE_FORMAT  // all of them take long to compile
    some_parts<set32>("set32", all[(seed + 1) % 4], seed * 1000 + 100);
    some_parts<pair64>("pair64", all[(seed + 2) % 4], seed * 1000 + 200);
    some_parts<set64>("set64", all[(seed + 3) % 4], seed * 1000 + 300);
#endif
  }
  if (seeds > 3 && (!most_outside || !most_stashed || !most_dead || !failed_in_all))
    wrong("at most %llu keys were outside, %llu stashed, %llu slots dead, %llu elements failed", most_outside,
          most_stashed, most_dead, failed_in_all);
  return 0;
}
