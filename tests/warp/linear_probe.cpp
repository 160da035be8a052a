// The CUDA kernels of linear_probe on emulated warps: linear_probe [ROUNDS [FIRST SEED]]
#include <set>

#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/distinct.hpp"
#include "plugins/linear_probe/layout.hpp"
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
                  {insert, assign, accumulate, find, erase, count, mixed},
                  full,
                  [=](u64 keys) { return std::make_unique<linear_store<F>>(format, keys, row); },
                  row * sizeof(typename F::word) >= 32});
  }
}

// A table moves into another one, as it does when it grows and shrinks. What found no place is counted.
template <class F>
void move(format_id format, u64 seed) {
  using key = typename F::key;
  const shape s{"moving", sizeof(key), F::has_value ? u32(sizeof(typename F::value)) : 0, {}, full, {}};
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
    batch in = random_batch(s, random, pool, insert, 700, true), out = random_batch(s, random, pool, erase, 120);
    check(from, m, in);
    check(from, m, out);
    u64 live = 0;
    for (u64 slot = 0; slot < from.t.n_slots; ++slot) live += is_live<F>(from.t.slots[slot]);
    const auto before = from.memory;
    bool moves = false;
    SAME(from.run->move(from.layout, to.layout, to.sum.data(), &moves, nullptr), 0);
    SAME(moves, true);
    if (memcmp(before.data(), from.memory.data(), before.size() * 16)) wrong("moving has changed the old table");
    int64_t used = 0, failed = 0;
    for (const totals& one : to.sum) {
      used += one.used, failed += int64_t(one.failed);
      SAME(one.live || one.yes || one.bad_ops, 0);
    }
    SAME(used, to.used());
    SAME(used + failed, live);
    if (i % 4 < 2 && i < 4) SAME(failed, 0);
    if (i % 4 == 2 && !failed) wrong("all pairs found a place in a table that has none for them");
    // Each is where a find looks for it; those that are nowhere are as many as failed.
    batch look;
    look.kind = find, look.key_bytes = s.key_bytes, look.value_bytes = s.value_bytes ? s.value_bytes : 8;
    for (const auto& [k, one] : m)
      if (one.alive && !is_side_key(key(k))) look.keys.push_back(k), look.values.push_back(0), look.ops.push_back(find);
    serve(to, look);
    int64_t missing = 0;
    for (size_t e = 0; e < look.n(); ++e) {
      missing += look.status[e] == no;
      if (look.status[e] == yes && s.value_bytes) SAME(look.out[e], m[look.keys[e]].value);
    }
    SAME(missing, failed);
    const auto there = contents(to);
    SAME(there.size(), used);
    for (const auto& [k, v] : there)
      if (!m[k].alive) wrong("key %llx was not in the old table", k);
    if (i) continue;
    with_failing_calls("moving",
                       [&] { return from.run->move(from.layout, to.layout, to.sum.data(), &moves, nullptr); });
  }
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
  SAME(s.run->collect(&t, {}, far, far + t.n_slots, keys.data(), values.data(), 4, 4, &n, 1, nullptr), 0);
  SAME(n, 300);
  for (size_t i = 0; i < n; ++i) SAME(keys[i], values[i] * 7);
}

// What a growing table asks about a mixed batch.
void count_codes(u64 seed) {
  random_numbers draw{seed};
  vector<u8> ops(draw.below(draw.below(4) ? 600 : 12000) + 1);
  uint64_t expected = draw.below(100), sum = expected;
  for (u8& op : ops) {
    op = u8(draw.below(11));
    expected += op == insert || op == assign || op == accumulate;
  }
  if (gpuhash_linear_probe_device_cuda()->count_adding(ops.data(), ops.size(), &sum, nullptr)) wrong("codes: a fault");
  SAME(sum, expected);
}

// What it asks about the keys of a large one.
template <class Key>
void pick_keys(u64 seed) {
  random_numbers draw{seed};
  const size_t many = picked_run * (2 + draw.below(30)), n = many + draw.below(100000);
  vector<Key> numbers(n);
  for (size_t i = 0; i < n; ++i) numbers[i] = Key(i);
  const up_to_the_end all(numbers.data(), n * sizeof(Key), n * sizeof(Key));
  vector<Key> picked(many + 1, ~Key(0));
  if (gpuhash_linear_probe_device_cuda()->pick_keys(all.data(), n, sizeof(Key), picked.data(), many, nullptr))
    wrong("a fault");
  SAME(picked[0], 0);
  SAME(picked[many - 1], n - 1);
  SAME(picked[many], ~Key(0));
  const size_t apart = (n - picked_run) / (many / picked_run - 1);
  for (size_t i = 1; i < many; ++i) {
    const size_t from_last = picked[i] - picked[i - 1];
    if (i % picked_run) SAME(from_last, 1);
    if (i % picked_run == 0 && (from_last + picked_run < apart + 1 || from_last + picked_run > apart + 2))
      wrong("runs are %zu apart, of %zu", from_last, apart);
  }
}

// And what it makes of that.
template <class Key>
void guess_distinct(u64 seed) {
  random_numbers draw{seed};
  constexpr size_t n = 1 << 20, s = most_picked;
  vector<Key> keys(n);
  const auto guess = [&](u64 about_least, u64 about_most, u64 most_most) {
    vector<Key> picked(s);
    for (size_t i = 0; i < s; ++i) picked[i] = keys[picked_from(i, n, s)];
    const u64 there = std::set<Key>(keys.begin(), keys.end()).size();
    const picked_keys found = compare_picked(picked.data(), s, picked_run);
    SAME(found.repeats, s - std::set<Key>(picked.begin(), picked.end()).size());
    const u64 about = distinct_by_sample(n, s, found), most = most_by_sample(n, s, found, picked_run);
    if (about < about_least || about > about_most) wrong("%llu keys are taken for about %llu", there, about);
    if (most < there || most > most_most) wrong("%llu keys are taken for at most %llu", there, most);
  };
  const u64 gap = n / s * picked_run;
  for (size_t i = 0; i < n; ++i) keys[i] = Key(i);
  guess(n, n, n);
  for (Key& k : keys) k = 0;
  guess(1, 1, 1 + gap);
  for (const u64 few : {u64(100), u64(3000)}) {
    for (Key& k : keys) k = Key(draw.below(few) * 0x9e3779b97f4a7c15);
    guess(few / 2, few * 2, few * 2 + gap + n / 50);
  }
  for (const u64 few : {u64(1) << 16, u64(1) << 19}) {
    for (Key& k : keys) k = Key(draw.below(few) * 0x9e3779b97f4a7c15);
    guess(few / 2, few + few / 2, n);
  }
  for (const size_t run : {2, 30, 1000, 100000}) {
    for (size_t i = 0; i < n; ++i) keys[i] = Key(i / run + 7);
    guess(0, n / run + 50, run < 30 ? n : n / run + n / picked_run + 2 * gap + s / 8);
  }
  for (Key& k : keys) {  // some keys are much more frequent than others
    const u64 far = draw.below(20);
    k = Key(draw.below(u64(1) << far));
  }
  guess(0, n / 4, n);
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
    count_codes(seed);
    pick_keys<u32>(seed);
    pick_keys<u64>(seed);
    guess_distinct<u32>(seed);
    guess_distinct<u64>(seed);
    far_cells(seed);
    move<pair32>(format_pair32, seed);
    move<set32>(format_set32, seed);
    move<pair64>(format_pair64, seed);
    move<set64>(format_set64, seed);
  });
}
