// Rounds of random batches on one store after the other, for every structure.
#pragma once
#include <cuda_runtime.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "tests/warp/batches.hpp"

namespace warp_test {

// How to make stores of a structure in one shape.
struct shape {
  std::string name;
  u32 key_bytes, value_bytes;  // of the arrays; slots may be wider
  vector<u32> kinds;
  u32 failure;                                           // what elements answer that find no room
  std::function<std::unique_ptr<store>(u64 keys)> make;  // with room for so many, and few more
  bool parts = false;                                    // can it take a batch by parts?
};

inline const vector<u32> all_sizes = {1, 31, 32, 33, 64, 255, 256, 257, 300, 511, 513, 700};

// Keys that meet, the two that structures use themselves among them.
inline vector<u64> key_pool(const shape& s, size_t n) {
  vector<u64> keys;
  const u64 top = s.key_bytes == 4 ? 0xffffffffu : ~u64(0);
  for (size_t i = 0; i + 4 < n; ++i)
    keys.push_back(s.key_bytes == 4 ? (i * 0x9e3779b1u) & 0x7fffffff : i * 0x9e3779b97f4a7c15u >> 1);
  keys.insert(keys.end(), {top, top - 1, top - 2, 1});
  return keys;
}

inline u64 number_bits(const batch& b, int64_t n) {
  u64 bits = 0;
  if (b.type == 2 && b.value_bytes == 4) {
    const float f = float(n);
    memcpy(&bits, &f, 4);
  } else if (b.type == 2) {
    const double d = double(n);
    memcpy(&bits, &d, 8);
  } else {
    bits = b.value_bytes == 4 ? u64(uint32_t(n)) : u64(n);
  }
  return bits;
}

// `spread`: its keys are of the whole pool; else some batches have five of them.
inline batch random_batch(const shape& s, random_numbers& random, const vector<u64>& pool, u32 kind, size_t n,
                          bool spread = false) {
  batch b;
  b.kind = kind, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes ? s.value_bytes : 8;
  b.with_sum = random.below(4) != 0, b.by_pointer = random.below(4) == 0;
  b.tile = random.below(2) ? 32 : 0;
  b.combine = u32(random.below(3)), b.type = s.value_bytes ? u32(random.below(3)) : 0;
  // Many equal keys where any order of them can be told from the result, few where orders have to be searched.
  const bool few = kind == assign || kind == mixed || kind == find_or_insert;
  const size_t hot = random.below(3) || spread ? pool.size() : std::min<size_t>(pool.size(), 5);
  std::map<u64, int> times;
  while (b.keys.size() < n) {
    const u64 k = pool[random.below(few ? pool.size() : hot)];
    if (few && ++times[k] > 3) {
      if (times.size() == pool.size()) break;
      continue;
    }
    b.keys.push_back(k);
  }
  if (s.value_bytes && random.below(8))
    for (size_t i = 0; i < b.n(); ++i) {
      const bool none = kind == accumulate && b.type == 2 && b.combine && random.below(6) == 0;
      u64 v = number_bits(b, int64_t(random.below(1000)) - 300);
      if (none) {
        const float f = NAN;
        const double d = NAN;
        v = 0;
        b.value_bytes == 4 ? memcpy(&v, &f, 4) : memcpy(&v, &d, 8);
      }
      b.values.push_back(v);
    }
  else if (s.value_bytes)
    b.values.assign(b.n(), 0);
  constexpr u8 no_ops[] = {insert_multi, count, erase_all, mixed, 200, 255};  // of a mixed batch
  for (size_t i = 0; i < b.n(); ++i)
    b.ops.push_back(random.below(7) == 6 ? no_ops[random.below(6)] : u8(random.below(6)));
  return b;
}

inline void title(const shape& s, u64 seed, const char* what) {
  where = s.name + " seed " + std::to_string(seed) + " " + what;
  emulated::machine::the().seed = seed;
}

// Anything goes, in a table that has room.
inline void any_batches(const shape& s, u64 seed) {
  title(s, seed, "any batches");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 60 + random.below(400));
  auto t = s.make(pool.size() * 3);
  model m;
  for (int round = 0; round < 8; ++round) {
    const u32 kind = s.kinds[random.below(s.kinds.size())];
    batch b = random_batch(s, random, pool, kind, all_sizes[random.below(all_sizes.size())]);
    if (kind == mixed && s.value_bytes) b.type = 0, b.combine = 0;
    // Floats and integers do not mix in one table; a NaN that is stored by an insert would stay.
    if (kind == accumulate && b.type == 2) {
      m.clear();
      t = s.make(pool.size() * 3);
    }
    check(*t, m, b);
    if (kind == accumulate && b.type == 2) {
      m.clear();
      t = s.make(pool.size() * 3);
    }
  }
}

// More than fits, then the failed ones again in a larger table: they and only they are carried out.
inline void no_room(const shape& s, u64 seed) {
  title(s, seed, "no room");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 700);
  for (const u32 kind : {u32(insert), u32(assign), u32(accumulate)}) {
    auto t = s.make(60);
    model m;
    batch b = random_batch(s, random, pool, kind, 600, true);
    b.type = b.combine = 0, b.with_sum = true, b.by_pointer = false;
    const totals first = check(*t, m, b);
    if (!first.failed) wrong("kind %u: everything found room", kind);
    for (const u8 status : b.status)
      if (status > yes) SAME(status, s.failure);
    // A full table still finds what it has, and says no where no empty slot does.
    for (const u32 reads : {u32(find), u32(count)}) {
      if (std::find(s.kinds.begin(), s.kinds.end(), reads) == s.kinds.end()) continue;
      batch look = random_batch(s, random, pool, reads, 400);
      look.type = look.combine = 0;
      check(*t, m, look);
    }
    // The same pairs in a table with room, as after growth.
    auto larger = s.make(3000);
    batch copy;
    copy.kind = insert, copy.key_bytes = b.key_bytes, copy.value_bytes = b.value_bytes;
    for (const auto& [k, one] : m)
      if (one.alive) copy.keys.push_back(k), copy.values.push_back(one.value);
    model same;
    if (copy.n()) check(*larger, same, copy);
    batch again = b;
    again.only_failed = true;
    const totals second = serve(*larger, again);
    SAME(second.failed, 0);
    // All elements together are what one batch would have done.
    model end;
    for (const auto& [k, v] : contents(*larger)) end[k] = {true, s.value_bytes ? v : 0};
    std::map<u64, vector<size_t>> by_key;
    for (size_t i = 0; i < b.n(); ++i) by_key[b.keys[i]].push_back(i);
    for (const auto& [k, elements] : by_key) {
      const bool good = kind == accumulate && elements.size() > 3
                            ? explains_sum(again, *larger, elements, {}, end[k])
                            : (again.out.assign(b.n(), 0), explains(again, *larger, elements, {}, end[k]));
      if (!good) wrong("kind %u: after the retry no order explains key %llx", kind, k);
    }
    SAME(larger->live(), end.size());
  }
}

// Equal keys in every lane of every warp, and enough blocks that stripes are used again.
inline void hot_keys(const shape& s, u64 seed) {
  title(s, seed, "hot keys");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 4 + random.below(3));
  auto t = s.make(1000);
  model m;
  for (const u32 kind : {u32(accumulate), u32(insert), u32(find), u32(erase)}) {
    batch b = random_batch(s, random, pool, kind, kind == accumulate ? 900 : 500);
    b.type = b.combine = 0;
    check(*t, m, b);
  }
}

// Batches that run at the same time on few keys, none of which erases. What is added arrives, whoever swaps words and
// whoever changes values in place; and a key never loses its value.
inline void beside_each_other(const shape& s, u64 seed) {
  title(s, seed, "beside each other");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 5 + random.below(20));
  auto t = s.make(1000);
  const u64 cut = s.value_bytes == 4 ? 0xffffffff : ~u64(0);
  struct other {
    batch b;
    vector<unsigned char> keys, values;
    vector<u8> status;
    request q{};
  };
  const bool assigns = random.below(3) == 0;
  vector<other> all(4);
  const u32 kinds[] = {accumulate, assigns ? u32(assign) : u32(accumulate), insert, accumulate};
  vector<emulated::machine::held_launch> launches;
  emulated::machine& machine = emulated::machine::the();
  machine.held = &launches;
  for (size_t i = 0; i < all.size(); ++i) {
    other& o = all[i];
    o.b.key_bytes = s.key_bytes, o.b.value_bytes = s.value_bytes;
    for (size_t n = 40 + random.below(300); n; --n) {
      o.b.keys.push_back(pool[random.below(pool.size())]);
      o.b.values.push_back((random.below(1u << 20) << (random.below(2) ? 13 : 0)) + 1);
    }
    o.keys = packed(o.b.keys, s.key_bytes), o.values = packed(o.b.values, s.value_bytes);
    o.status.resize(o.b.n(), untouched);
    o.q.kind = kinds[i], o.q.n = o.b.n(), o.q.keys = o.keys.data(), o.q.values = o.values.data();
    o.q.status = o.status.data(), o.q.key_bytes = s.key_bytes, o.q.value_bytes = s.value_bytes;
    o.q.keys_stay = i != 3;
    SAME(t->run->run(t->layout, o.q, t->sum.data()), 0);
  }
  machine.held = nullptr;
  machine.run_together(launches);
  std::map<u64, u64> sums;
  std::map<u64, size_t> fresh;
  for (const other& o : all)
    for (size_t e = 0; e < o.b.n(); ++e) {
      if (o.status[e] > yes) wrong("element %zu has status %u", e, o.status[e]);
      fresh[o.b.keys[e]] += o.status[e] == yes;
      if (o.q.kind == accumulate || (o.q.kind == insert && o.status[e] == yes)) sums[o.b.keys[e]] += o.b.values[e];
    }
  const auto after = contents(*t);
  SAME(after.size(), fresh.size());
  for (const auto& [k, n] : fresh) {
    if (n != 1 || after.count(k) != 1) wrong("key %llx was new %zu times, and has %zu pairs", k, n, after.count(k));
    if (!assigns && after.find(k)->second != (sums[k] & cut))
      wrong("key %llx has the sum %llx, expected %llx", k, after.find(k)->second, sums[k] & cut);
  }
}

// Batches of one element each, which add 1 to a key or take it away, at the same time: its value comes back to what a tile
// has read of it, between that tile's addition in place and what the tile does next.
inline void sums_that_come_back(const shape& s, u64 seed) {
  title(s, seed, "sums that come back");
  random_numbers random{seed};
  auto t = s.make(100);
  model m;
  batch b;
  b.kind = insert, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes;
  b.keys = {key_pool(s, 1)[0]}, b.values = {random.below(1000) + 1000};
  check(*t, m, b);
  constexpr size_t turns = 12;
  const vector<unsigned char> key = packed(b.keys, s.key_bytes);
  const vector<unsigned char> values[] = {packed({~u64(0)}, s.value_bytes), packed({1}, s.value_bytes)};
  vector<u8> status(turns, untouched);
  vector<emulated::machine::held_launch> launches;
  emulated::machine& machine = emulated::machine::the();
  machine.held = &launches;
  for (size_t i = 0; i < turns; ++i) {
    request q{};
    q.kind = accumulate, q.n = 1, q.keys = key.data(), q.values = values[i % 2].data(), q.status = &status[i];
    q.key_bytes = s.key_bytes, q.value_bytes = s.value_bytes, q.keys_stay = true;
    SAME(t->run->run(t->layout, q, t->sum.data()), 0);
  }
  machine.held = nullptr;
  machine.run_together(launches);
  for (const u8 one : status) SAME(one, no);
  const auto after = contents(*t);
  SAME(after.size(), 1);
  SAME(after.begin()->second, b.values[0]);
}

// Mixed batches of one block that name each key two or three times.
inline void mixed_crowds(const shape& s, u64 seed) {
  title(s, seed, "mixed crowds");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 40);
  auto t = s.make(100);
  model m;
  for (int round = 0; round < 12; ++round) {
    batch b = random_batch(s, random, pool, mixed, 90);
    check(*t, m, b);
  }
}

inline void many_blocks(const shape& s, u64 seed) {
  title(s, seed, "many blocks");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 3000);
  auto t = s.make(4000);
  model m;
  for (const u32 kind : {u32(insert), u32(erase), u32(count)}) {
    batch b = random_batch(s, random, pool, kind, 256 * 34 + 17);
    b.with_sum = true;
    check(*t, m, b);
  }
}

// Batches by parts of the table, among others.
inline void parts_of_tables(const shape& s, u64 seed) {
  title(s, seed, "by parts");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 60 + random.below(1500));
  const bool tight = random.below(3) == 0;
  auto t = s.make(tight ? pool.size() : pool.size() * 2);
  model m;
  const auto renew = [&] {
    m.clear();
    t = s.make(tight ? pool.size() : pool.size() * 2);
  };
  for (int round = 0; round < 6; ++round) {
    constexpr u32 kinds[] = {insert, assign, accumulate, erase};
    const u32 kind = kinds[random.below(4)];
    batch b = random_batch(s, random, pool, kind, 1 + random.below(2200));
    if (kind == accumulate && !s.value_bytes) continue;
    b.by_parts = random.below(4) != 0;
    b.by_pointer = false;
    const bool floats = kind == accumulate && b.type == 2;
    if (floats) renew();
    check(*t, m, b);
    if (floats) renew();
  }
}

// Keys that many elements name, in a table that is full: all of them say so, and are counted.
inline void full_parts(const shape& s, u64 seed) {
  title(s, seed, "by parts, full");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 700);
  auto t = s.make(60);
  model m;
  batch fill = random_batch(s, random, {pool.begin() + 10, pool.end()}, insert, 700, true);
  fill.type = fill.combine = 0, fill.by_pointer = false, fill.by_parts = true;
  check(*t, m, fill);
  for (const u32 kind : {u32(insert), u32(assign), u32(accumulate)}) {
    if (kind == accumulate && !s.value_bytes) continue;
    batch b = random_batch(s, random, {pool.begin(), pool.begin() + 10}, insert, 500);
    b.kind = kind, b.type = b.combine = 0;
    b.by_pointer = false, b.by_parts = true, b.with_sum = random.below(2);
    const totals sum = check(*t, m, b);
    SAME(sum.failed, 500);
    if (kind != accumulate) continue;
    b.told = false, b.with_sum = true;
    SAME(serve(*t, b).failed, 500);
    vector<u64> some(pool.begin(), pool.begin() + 3);
    for (const auto& [k, one] : m)
      if (one.alive && some.size() < 6) some.push_back(k);
    int64_t absent = 0;
    for (u64& k : b.keys) {
      k = some[random.below(some.size())];
      absent += k == some[0] || k == some[1] || k == some[2];
    }
    SAME(serve(*t, b).failed, absent);
    // Keys that are not frequent, and yet named several times: what was joined in a part counts for all of its elements.
    for (u64& k : b.keys) k = pool[10 + random.below(300)];
    absent = 0;
    for (const u64 k : b.keys) absent += !m.count(k) || !m[k].alive;
    SAME(serve(*t, b).failed, absent);
  }
}

// Told batches of keys that are not repeated: divided if the table is nearly empty, or whatever is there. Of repeated ones sums
// are.
inline void told_parts(const shape& s, u64 seed) {
  title(s, seed, "by parts, told");
  constexpr u32 divided_first = 5;
  constexpr size_t n = 880;
  random_numbers random{seed};
  for (const u32 kind : {u32(insert), u32(accumulate)})
    for (const size_t there : {size_t(0), size_t(4), n / 8, n / 2, n}) {
      if (kind == accumulate && !s.value_bytes) continue;
      auto t = s.make(n);
      model m;
      batch fill;
      fill.kind = insert, fill.key_bytes = s.key_bytes, fill.value_bytes = s.value_bytes;
      fill.keys = key_pool(s, n);
      if (s.value_bytes) fill.values.assign(n, 7);
      batch b = fill;
      fill.keys.resize(there);
      if (s.value_bytes) fill.values.resize(there);
      if (there) check(*t, m, fill);
      b.kind = kind, b.by_parts = true, b.parts = parts_auto;
      for (size_t i = n - 1; i; --i) std::swap(b.keys[i], b.keys[random.below(i + 1)]);
      check(*t, m, b);
      const bool divided = b.sampled.size() && b.sampled[divided_first];
      SAME(divided, there <= 4 || (t->divides_beside_others >> kind & 1));
      if (kind == insert && there) continue;
      for (size_t i = 0; i < n; ++i) b.keys[i] = b.keys[i % 20];
      b.status.clear();
      check(*t, m, b);
      if (b.sampled.size()) SAME(b.sampled[divided_first], kind == accumulate);
    }
}

// Without a status array: what is in the table then, and the sums.
// few: of so few keys that all are frequent, and are joined.
inline void untold_parts(const shape& s, u64 seed, bool few) {
  title(s, seed, few ? "by parts, untold, few keys" : "by parts, untold");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, few ? 12 : 60 + random.below(1500));
  auto t = s.make(pool.size() * 2);
  std::map<u64, u64> before;
  const u32 first = few ? u32(accumulate) : u32(insert);
  for (const u32 kind : {first, u32(assign), u32(accumulate), u32(insert), u32(erase)}) {
    if (kind == accumulate && !s.value_bytes) continue;
    batch b = random_batch(s, random, pool, kind, 1 + random.below(2200));
    b.type = b.combine = 0;
    b.by_parts = true, b.told = false, b.by_pointer = false, b.with_sum = true;
    const int64_t used = t->used();
    const totals sum = serve(*t, b);
    SAME(sum.used, t->used() - used);
    std::map<u64, u64> after;
    for (const auto& [k, v] : contents(*t))
      if (!after.emplace(k, v).second) wrong("key %llx has two pairs", k);
    std::map<u64, std::multiset<u64>> given;
    for (size_t i = 0; i < b.n(); ++i) given[b.keys[i]].insert(operand(b, i));
    int64_t fresh = 0;
    for (const auto& [k, values] : given) {
      const bool was = before.count(k), is = after.count(k);
      fresh += kind == erase ? was : !was;
      if (is != (kind != erase)) wrong("kind %u: key %llx is %s", kind, k, is ? "there" : "absent");
      if (kind == erase || !s.value_bytes) continue;
      u64 total = was ? before[k] : 0;
      for (const u64 v : values) total += v;
      if (b.value_bytes == 4) total &= 0xffffffff;
      const bool right = kind == accumulate      ? after[k] == total
                         : kind == insert && was ? after[k] == before[k]
                                                 : values.count(after[k]) != 0;
      if (!right) wrong("kind %u: key %llx has the value %llx", kind, k, after[k]);
    }
    for (const auto& [k, v] : before)
      if (!given.count(k) && (!after.count(k) || after[k] != v)) wrong("key %llx, which nobody named, changed", k);
    SAME(sum.yes, fresh);
    SAME(sum.failed, 0);
    SAME(sum.live, kind == erase ? -fresh : fresh);
    SAME(t->live(), after.size());
    before = after;
  }
}

// Distinct keys, untold, as parts=auto has it, into a table of which half was erased: the sample may decline them, and each is
// served once all the same.
inline void declined(const shape& s, store& t, u64 seed) {
  title(s, seed, "declined");
  random_numbers random{seed};
  const vector<u64> pool = key_pool(s, 904);
  const auto round = [&](u32 kind, size_t to) {
    batch b;
    b.kind = kind, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes;
    b.by_parts = true, b.told = false;
    b.keys.assign(pool.begin(), pool.begin() + long(to));  // the first one is 0: auto
    for (size_t i = b.keys.size() - 1; i > 1; --i) std::swap(b.keys[i], b.keys[1 + random.below(i)]);
    b.values.assign(to, 5);
    b.ops.assign(to, 0);
    SAME(serve(t, b).failed, 0);
  };
  const size_t n = 700 + random.below(200);  // on which depends whether a key is frequent in the sample
  round(accumulate, n);
  round(erase, 450);
  round(accumulate, n);
  const std::multimap<u64, u64> there = contents(t);
  SAME(there.size(), n);
  for (size_t i = 0; i < n; ++i) {
    const auto pair = there.find(pool[i]);
    SAME(pair == there.end() ? 0 : pair->second, i < 450 ? 5 : 10);
  }
}

// ---- what any batch has to mind ---------------------------------------------------------------------------------------

// Whichever call of CUDA fails, a batch says so, and gives back what it has allocated.
inline void with_failing_calls(const char* what, const std::function<int()>& batch) {
  for (int n = 1;; ++n) {
    const size_t before = allocations.size();
    failing_call = n;
    const int e = batch();
    const bool some_failed = failing_call == 0;
    failing_call = 0;
    SAME(allocations.size(), before);
    if (some_failed && !e) wrong("call %d of %s failed, and it says that all is well", n, what);
    if (some_failed) continue;
    SAME(e, 0);
    return;
  }
}

// Some elements as a request has them.
struct plain_request {
  request q{};
  up_to_the_end keys, values;
  vector<u8> status, ops;
  vector<u64> out;
  plain_request(const shape& s, const vector<u64>& pool)
      : keys(pool, s.key_bytes, pool.size()),
        values(pool, s.value_bytes ? s.value_bytes : 4, pool.size()),
        status(pool.size() + 64, untouched),
        ops(pool.size(), insert),
        out(pool.size()) {
    q.n = pool.size(), q.keys = keys.data(), q.status = status.data(), q.ops = ops.data();
    q.values = s.value_bytes ? values.data() : nullptr, q.out_values = s.value_bytes ? out.data() : nullptr;
    q.key_bytes = s.key_bytes, q.value_bytes = s.value_bytes ? s.value_bytes : 8, q.is_set = s.value_bytes == 0;
  }
};
inline bool has_kind(const shape& s, u32 kind) {
  return std::find(s.kinds.begin(), s.kinds.end(), kind) != s.kinds.end();
}

inline void failing_calls(const shape& s, u64 seed) {
  title(s, seed, "calls that fail");
  auto t = s.make(300);
  plain_request p(s, key_pool(s, 40));
  const void* const out = p.q.out_values;
  for (const u32 kind : s.kinds) {
    p.q.kind = kind, p.q.out_values = kind == count ? p.out.data() : const_cast<void*>(out);
    with_failing_calls("a batch", [&] { return t->run->run(t->layout, p.q, t->sum.data()); });
  }
  vector<u64> keys(t->cells * 64), values(keys.size());
  with_failing_calls("collecting", [&] {
    uint64_t n = 0;
    return t->run->collect(t->layout, {}, 0, t->cells,
                           {keys.data(), values.data(), t->key_bytes, t->value_bytes ? t->value_bytes : 8, &n});
  });
  p.q.out_values = nullptr, p.q.parts = parts_always;
  for (const bool told : {true, false}) {
    p.q.kind = told ? u32(assign) : s.value_bytes ? u32(accumulate) : u32(insert);
    p.q.status = told ? p.status.data() : nullptr;
    if (!s.parts) continue;
    vector<u128> memory(t->run->parts->memory(t->layout, p.q) / 16 + 1);
    with_failing_calls("a batch by parts",
                       [&] { return t->run->parts->run(t->layout, p.q, t->sum.data(), memory.data(), t->run->run); });
  }
}

// Batches that are not for parts, whatever they ask for.
inline void not_by_parts(const shape& s) {
  title(s, 1, "not by parts");
  auto t = s.make(300);
  plain_request p(s, key_pool(s, 40));
  p.q.kind = insert, p.q.out_values = nullptr, p.q.parts = parts_always;
  const auto asks = [&](const request& q) { return t->run->parts->memory(t->layout, q) != 0; };
  if (s.parts) SAME(asks(p.q), true);
  const uint64_t n = p.q.n;
  for (int i = 0; i < 4; ++i) {
    request q = p.q;
    if (i == 0) q.only_failed = 1;
    if (i == 1) q.n_there = &n;
    if (i == 2) q.out_values = p.out.data();
    if (i == 3) q.n = 0;
    if (asks(q)) wrong("a batch that is not for parts asks for memory (%d)", i);
  }
  for (const u32 kind : {u32(nop), u32(find), u32(insert_multi), u32(count), u32(erase_all), u32(mixed)}) {
    request q = p.q;
    q.kind = kind;
    if (asks(q)) wrong("batches of kind %u are not for parts", kind);
  }
  if (!s.parts) return;
  p.q.parts = parts_auto;  // an element for every fourth slot
  auto small = s.make(40), large = s.make(4000);
  SAME(small->run->parts->memory(small->layout, p.q) != 0, true);
  SAME(large->run->parts->memory(large->layout, p.q), 0);
  p.q.kind = erase;
  SAME(small->run->parts->memory(small->layout, p.q), 0);
}

// A batch of more than 2^32 elements, the last blocks of it.
inline void far_elements(const shape& s, u64 seed) {
  title(s, seed, "far elements");
  constexpr u64 far = u64(1) << 32;
  constexpr size_t n = 512;
  auto t = s.make(3 * n);
  const vector<u64> all = key_pool(s, n);
  plain_request p(s, all);
  emulated::machine& machine = emulated::machine::the();
  request q = p.q;
  const auto back = [](auto* at, u64 bytes) {
    using pointer = decltype(at);
    return pointer(reinterpret_cast<uintptr_t>(at) - far * bytes);
  };
  q.n = far + n, q.keys = back(q.keys, q.key_bytes), q.status = back(q.status, 1), q.ops = back(q.ops, 1);
  if (q.values) q.values = back(q.values, q.value_bytes);
  q.added = far;  // to a table of so many keys a batch is added in one piece
  for (const u32 kind : {u32(insert), u32(find), u32(count), u32(mixed), u32(erase)}) {
    if (!has_kind(s, kind)) continue;
    std::fill(p.status.begin(), p.status.end(), untouched);
    q.kind = kind;
    machine.last_blocks = unsigned(n + t->per_block(kind) - 1) / t->per_block(kind);
    const u32 out_bytes = kind == count ? 8 : q.value_bytes;
    q.out_values = kind == count || s.value_bytes ? back(static_cast<void*>(p.out.data()), out_bytes) : nullptr;
    SAME(t->run->run(t->layout, q, t->sum.data()), 0);
    for (size_t i = 0; i < n; ++i) {
      SAME(p.status[i], kind != mixed);  // which inserts what is there
      u64 got = 0;
      memcpy(&got, reinterpret_cast<const char*>(p.out.data()) + i * out_bytes, out_bytes);
      if (kind == find && s.value_bytes)
        SAME(got, s.value_bytes == 4 ? u32(all[i]) : s.key_bytes == 4 ? u32(all[i]) : all[i]);
      if (kind == count) SAME(got, 1);
    }
    SAME(p.status[n], untouched);
    SAME(t->live(), kind == erase ? 0 : n);
  }
  machine.last_blocks = ~0u;
}

// Sums that end within the range of their type, whereas some of the operands by themselves do not.
inline void large_sums(const shape& s, u64 seed) {
  title(s, seed, "large operands");
  const bool single = s.value_bytes == 4;
  const auto bits = [&](double x) {
    const float f = float(x);
    u64 v = 0;
    single ? memcpy(&v, &f, 4) : memcpy(&v, &x, 8);
    return v;
  };
  const double large = single ? 3e38 : 1.5e308;
  random_numbers random{seed};
  // One after the other; by parts, told and untold, of a few keys and of some that a sample does not show.
  for (const int how : {0, 1, 2, 3, 4}) {
    if (how && !s.parts) continue;
    const bool few = how < 3;
    auto t = s.make(few ? 200 : 600);
    batch b;
    b.kind = insert, b.key_bytes = s.key_bytes, b.value_bytes = s.value_bytes, b.type = 2;
    b.keys = {1, 2, 3, 5, 6, 7, s.key_bytes == 4 ? 0xffffffffu : ~u64(0)};
    for (u64 k = 8; !few && k < 150; ++k) b.keys.push_back(k);
    b.values.assign(b.keys.size(), bits(-large));
    SAME(serve(*t, b).live, b.n());
    batch sum = b;
    sum.kind = accumulate, sum.by_parts = how > 0, sum.told = how < 2 || how == 3, sum.parts = parts_always;
    sum.keys.clear(), sum.values.clear(), sum.status.clear();
    for (const u64 k : b.keys)
      for (int i = 0; i < (few ? 34 : 4); ++i) sum.keys.push_back(k), sum.values.push_back(bits(i < 2 ? large : 0.0));
    for (size_t i = sum.n() - 1; i; --i) {
      const size_t other = random.below(i + 1);
      std::swap(sum.keys[i], sum.keys[other]), std::swap(sum.values[i], sum.values[other]);
    }
    SAME(serve(*t, sum).live, 0);
    const auto after = contents(*t);
    SAME(after.size(), b.n());
    for (const auto& [k, v] : after)
      if (v != bits(large)) wrong("key %llx has the sum %llx (%d)", k, v, how);
  }
}

using emulated::section;

inline int run_all(const vector<shape>& shapes, int argc, char** argv, const std::function<void(u64)>& more) {
  const u64 rounds = argc > 1 ? u64(atoll(argv[1])) : 3, first = argc > 2 ? u64(atoll(argv[2])) : 1;
  static char own_stack[1 << 16];
  stack_t aside{};
  aside.ss_sp = own_stack, aside.ss_size = sizeof(own_stack);
  sigaltstack(&aside, nullptr);
  struct sigaction told{};
  told.sa_flags = SA_ONSTACK;
  told.sa_handler = [](int) { wrong("memory that is nobody's was accessed"); };
  sigaction(SIGSEGV, &told, nullptr);
  for (size_t i = first % 3; i < shapes.size(); i += 3) {
    const shape& s = shapes[i];
    if (section()) failing_calls(s, first);
    if (section() && s.make(300)->run->parts) not_by_parts(s);
    if (section() && s.make(300)->far_elements) far_elements(s, first);
    if (section()) mixed_crowds(s, first);
    if (section() && (s.value_bytes == 4 || s.value_bytes == 8)) large_sums(s, first);
  }
  for (const shape& s : shapes)
    for (u64 seed = first; seed < first + rounds; ++seed) {
      if (section()) any_batches(s, seed * 1000);
      if (seed == first && section()) no_room(s, seed * 1000 + 1);
      if (seed == first && section()) hot_keys(s, seed * 1000 + 2);
      if (s.value_bytes && s.make(100)->run->in_place)
        for (u64 more = 0; more < 3; ++more)
          if (section()) beside_each_other(s, seed * 1000 + 10 + more);
      if (s.value_bytes && s.make(100)->run->in_place)
        for (u64 more = 0; more < 8; ++more)
          if (section()) sums_that_come_back(s, seed * 1000 + 20 + more);
      if (s.parts) {
        for (u64 more = 0; more < 4; ++more)
          if (section()) parts_of_tables(s, seed * 1000 + 100 + more);
        for (const bool few : {false, true})
          if (section()) untold_parts(s, seed * 1000 + 200 + few, few);
        if (section()) full_parts(s, seed * 1000 + 300);
        if (seed == first && section()) told_parts(s, seed * 1000 + 400);
      }
      if (seed == first && &s == &shapes[0] && section()) many_blocks(s, seed * 1000 + 3);
    }
  for (u64 seed = first; seed < first + rounds; ++seed) more(seed);
  emulated::sections::the().end();
  SAME(allocations.size(), 0);
  const emulated::machine& m = emulated::machine::the();
  printf("%zu shapes, %llu steps, %llu collectives, nothing wrong\n", shapes.size(), (unsigned long long)m.steps,
         (unsigned long long)m.meetings);
  return 0;
}

}  // namespace warp_test
