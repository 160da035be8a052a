// Batches by parts (plugins/slab_hash/parts.cuh) on emulated warps: parts_test [SEEDS [FIRST]]
//
// Batches against a model, as tests/warp has it, with what layout.hpp says of the table looked at after each. Parts are small,
// so that chains do not fit into them, and heaps are, so that units run out.
#include "plugins/slab_hash/parts.cuh"

#include "tests/warp/rounds.hpp"
#include "tests/warp/slab_store.hpp"

namespace warp_test {
namespace {

// One element at a time, whatever the kind: an engine takes long to compile.
template <class F>
int run_any(const void* table, const request& q, totals* sum) {
  const vector<u8> kinds(q.n, u8(q.kind));
  request each = q;
  each.kind = mixed, each.ops = kinds.data();
  return run_on_cuda<typename slab_partitions<F>::rest_op, 1>(table, each, sum);
}
template <class F>
constexpr engine engine_here() {
  engine e = {run_any<F>, collect_on_cuda<slab_table<F>>};
  e.parts = &bulk_engine_of<slab_partitions<F>>;
  return e;
}
template <class F>
inline constexpr engine engine_of = engine_here<F>();

struct geometry {
  u32 slab_bytes;
  double load;   // keys by slots of the base slabs
  double units;  // by the base slabs
};

template <class F>
struct part_store final : slab_store<F> {
  using base = slab_store<F>;
  using word = typename F::word;
  using key = typename F::key;
  using base::heap, base::t;
  u64 taken_at_first;

  static u64 buckets_for(u64 keys, const geometry& g) {
    return u64(double(keys) / (double(g.slab_bytes / sizeof(word) - 1) * g.load)) + 1;
  }
  part_store(u64 keys, const geometry& g)
      : base(&engine_of<F>, buckets_for(keys, g), g.slab_bytes, false,
             keys < 100 ? 3 : u64(double(buckets_for(keys, g)) * g.units) + 4) {
    taken_at_first = heap.taken();
    base::divides_skewed = false, base::divides_beside_others = 0;
  }
  // Asked after every batch.
  int64_t used() const override {
    SAME(heap.taken() - taken_at_first, base::linked());  // S5
    const u64 unit_bytes = u64(t.slab_slots) * sizeof(word);
    for (u32 s = 0; s < heap.h.supers; ++s)
      for (u64 unit = 0; unit < u64(heap.h.blocks) * block_units; ++unit)
        if (!(heap.bitmaps[s][unit / 32] >> unit % 32 & 1))
          for (u64 i = 0; i < unit_bytes; ++i)
            if ((heap.h.units[s] + unit * unit_bytes)[i] != 0xff) wrong("unit %llu was not wiped (A2)", unit);
    for (u64 b = 0; b < base::cells; ++b) look_at(b);
    const auto* behind = reinterpret_cast<const unsigned char*>(t.base + base::cells * t.slab_slots);
    for (int i = 0; i < 16; ++i)
      if (behind[i] != 0xff) wrong("a slab behind the table was written");
    return base::used();
  }
  void look_at(u64 b) const {
    std::multiset<key> live, dead;
    const word* at = t.bucket(typename F::index(b));
    for (bool full = true;;) {
      u32 here = 0;
      for (u32 i = 0; i + 1 < t.slab_slots; ++i) {
        const word e = at[i];
        if (F::key_of(e) == empty_key<key>) continue;
        ++here;
        if (b < t.buckets && is_live<F>(e) && u64(t.home(F::key_of(e))) != b)
          wrong("key %llx lies in bucket %llu", u64(F::key_of(e)), b);
        if (is_live<F>(e))
          live.insert(F::key_of(e));
        else if (F::has_value)
          dead.insert(key(F::value_of(e)));
      }
      if (!full) wrong("bucket %llu: a slab follows an empty slot (S2)", b);
      full = here + 1 == t.slab_slots;
      if (here == 0 && at != t.bucket(typename F::index(b))) wrong("bucket %llu ends with an empty slab", b);
      const u32 next = t.next_of(at[t.slab_slots - 1]);
      if (next == no_unit) break;
      at = t.slab(next);
    }
    for (const key k : live)
      if (live.count(k) + dead.count(k) != 1) wrong("key %llx has two slots (S3)", u64(k));
    for (const key k : dead)
      if (dead.count(k) != 1) wrong("key %llx has two tombstones (S3)", u64(k));
  }
};

// What was seen of what these tests are about.
u64 most_linked = 0, failed_in_all = 0;

batch batch_of(const shape& s, random_numbers& random, u32 kind, vector<u64> keys) {
  batch b;
  b.kind = kind, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes ? s.value_bytes : 8;
  b.with_sum = true;
  b.keys = std::move(keys);
  for (size_t i = b.keys.size() - 1; i; --i) std::swap(b.keys[i], b.keys[random.below(i + 1)]);
  for (size_t i = 0; i < b.n(); ++i) b.values.push_back(s.value_bytes ? random.below(1000) : 0);
  b.ops.assign(b.n(), 0);
  return b;
}

// Chains that grow batch by batch, erased in part, and filled again: by parts, and one at a time in between.
template <class F>
void churn(const shape& s, const geometry& g, u64 seed) {
  title(s, seed, "erased and filled again");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 300 + random.below(500));
  part_store<F> t(pool.size(), g);
  model m;
  for (int round = 0; round < 7; ++round) {
    const u32 kind = round % 3 == 1 ? u32(erase) : round == 2 || round == 5 ? u32(assign) : u32(insert);
    const u64 first = round == 0 ? 2 : 1;  // half of them at first
    vector<u64> keys;
    for (const u64 k : pool)
      if (kind == erase ? random.below(3) == 0 : random.below(2) < 2 / first) keys.push_back(k);
    if (kind == erase || round == 3)  // some twice
      for (size_t i = 0, n = keys.size(); i < n; i += 3) keys.push_back(keys[i]);
    batch b = batch_of(s, random, kind, keys);
    b.by_parts = round != 3;
    failed_in_all += check(t, m, b).failed;
    most_linked = std::max(most_linked, t.linked());
  }
}

// Each key several times, in a table of few slabs.
template <class F>
void crowd(const shape& s, const geometry& g, u64 seed) {
  title(s, seed, "crowded");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 150 + random.below(200));
  part_store<F> t(pool.size(), {g.slab_bytes, 2, random.below(2) ? 0.5 : 1.5});
  model m;
  const auto round = [&](u32 kind, size_t from, size_t to, u32 copies) {
    vector<u64> keys;
    for (u32 n = 0; n < copies; ++n) keys.insert(keys.end(), pool.begin() + long(from), pool.begin() + long(to));
    batch b = batch_of(s, random, kind, keys);
    b.combine = kind == accumulate ? 1 : 0;
    b.by_parts = true;
    failed_in_all += check(t, m, b).failed;
  };
  const size_t n = pool.size();
  round(insert, 0, n / 2, 1);
  if (s.value_bytes) round(accumulate, 0, n / 2 + n / 8, 4);
  round(erase, 0, n / 4, 2);
  round(assign, 0, n, 3);
  round(insert, 0, n, 6);
}

template <class F>
void some_parts(const char* name, const geometry& g, u64 seed) {
  const shape s{std::string(name) + " slab " + std::to_string(g.slab_bytes) + " load " + std::to_string(g.load),
                sizeof(typename F::key),
                F::has_value ? u32(sizeof(typename F::value)) : 0,
                {},
                no_memory,
                [=](u64 keys) { return std::make_unique<part_store<F>>(keys, g); },
                true};
  for (u32 i = 0; i < 3; ++i) parts_of_tables(s, seed * 20 + i);
  if (g.units >= 4)
    for (const bool few : {false, true}) untold_parts(s, seed * 20 + 3 + few, few);
  full_parts(s, seed * 20 + 5);
  told_parts(s, seed * 20 + 12);
  if constexpr (F::has_value) {
    part_store<F> t(1000, {g.slab_bytes, g.load, g.units + 8});
    declined(s, t, seed * 20 + 7);
  }
  for (u32 i = 0; i < 2; ++i) churn<F>(s, g, seed * 20 + 6 + i);
  for (u32 i = 0; i < 3; ++i) crowd<F>(s, g, seed * 20 + 8 + i);
}
}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  const u64 seeds = argc > 1 ? u64(atoll(argv[1])) : 4, first = argc > 2 ? u64(atoll(argv[2])) : 1;
  // As a table is as a rule; with chains for which a part has no room; with slabs of several lines; and no unit to spare.
  const geometry all[] = {{64, 0.7, 4}, {64, 2, 8}, {128, 0.9, 4}, {64, 1, 0.2}, {64, 5, 9}};
  for (u64 seed = first; seed < first + seeds; ++seed) {
    some_parts<pair32>("pair32", all[seed % 5], seed * 1000);
#ifndef GPUHASH_ONE_FORMAT  // all of them take long to compile
    some_parts<set32>("set32", all[(seed + 1) % 5], seed * 1000 + 100);
    some_parts<pair64>("pair64", all[(seed + 2) % 5], seed * 1000 + 200);
    some_parts<set64>("set64", all[(seed + 3) % 5], seed * 1000 + 300);
#endif
  }
  if (seeds > 3 && (most_linked < 20 || !failed_in_all))
    wrong("at most %llu slabs were linked, and %llu elements failed", most_linked, failed_in_all);
  return 0;
}
