// The CUDA kernels of skiplist on emulated warps: skiplist [ROUNDS [FIRST SEED]]
#include <random>

#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "libgpuhash/tile/cuda_mem.cuh"
#include "plugins/skiplist/check.hpp"
#include "plugins/skiplist/dense.hpp"
#include "plugins/skiplist/walk.hpp"
#include "tests/warp/rounds.hpp"

extern "C" const gpuhash::engine* gpuhash_skiplist_engines_cuda();

namespace warp_test {
namespace {

template <class F>
struct skip_store final : store {
  static constexpr u32 levels = 8;
  skip_table<F> t{};
  vector<u128> memory, side_;
  u32 top = 0, taken = levels;

  skip_store(format_id format, u64 keys, u32 chunk) {
    const u64 chunks = levels + 2 * keys / (chunk / 2 - 1) + 2;
    memory.resize(chunks * chunk * sizeof(typename F::word) / 16 + 10);
    memset(memory.data(), 0xff, memory.size() * 16);
    side_.resize(4);
    memset(side_.data(), 0xff, 64);
    t.side = reinterpret_cast<typename F::word*>(side_.data());
    t.top = &top;
    t.taken = &taken;
    t.slots = chunk;
    t.levels = levels;
    t.capacity = u32(chunks);
    t.merge_below = (chunk - 2) / 3;
    t.raise_below = 1u << 16;
    t.segments = 1;
    t.segment[0] =
        reinterpret_cast<typename F::word*>((reinterpret_cast<uintptr_t>(memory.data()) + 127) & ~uintptr_t(127));
    write_heads(t, t.segment[0]);
    run = gpuhash_skiplist_engines_cuda() + format;
    layout = &t;
    cells = chunks;
    whole = reads_alone = true;
    key_bytes = sizeof(typename F::key);
    value_bytes = sizeof(typename F::value);
  }
  bool in_order(const batch& b) const override { return !adds(b.kind) && b.kind != mixed; }  // but in pieces
  int64_t used() const override {
    skip_check<F> check(t);
    const std::string broken = check.run();
    if (!broken.empty()) wrong("%s", broken.c_str());
    return int64_t(check.live);
  }
  void beside(std::multimap<u64, u64>& found) const override {
    for (int i = 0; i < 2; ++i)
      if (F::key_of(t.side[i]) != empty_key<typename F::key>)
        found.emplace(t.decode(typename F::key(empty_key<typename F::key> - typename F::key(i))),
                      F::value_of(t.side[i]));
  }
};

template <class F>
void add(vector<shape>& to, const char* name, format_id format, const vector<u32>& chunks) {
  for (const u32 chunk : chunks)
    to.push_back({std::string(name) + " chunk " + std::to_string(chunk),
                  sizeof(typename F::key),
                  chunk == 16 ? 4 : u32(sizeof(typename F::value)),  // slots of 8 bytes take arrays of 4 as well
                  {insert, assign, accumulate, find, erase, count, mixed, pop, find_or_insert},
                  no_memory,
                  [=](u64 keys) { return std::make_unique<skip_store<F>>(format, keys, chunk); }});
}

// A batch that a rebuild takes over, as skiplist_table::build_from does it, in the order of the batch. `from` is left alone.
template <class F>
std::unique_ptr<skip_store<F>> built(const skip_store<F>& from, format_id format, const batch& b, vector<u8>& status,
                                     bool faults) {
  constexpr u32 half = sizeof(typename F::key);
  const ordered_engine& e = *from.run->ordered;
  const auto keys = packed(b.keys, half);
  const auto values = packed(b.values, b.value_bytes);
  request q{};
  q.kind = b.kind;
  q.combine = b.combine;
  q.value_type = b.type;
  q.n = b.n();
  q.keys = keys.data();
  q.values = b.values.empty() ? nullptr : values.data();
  q.status = status.data();
  q.key_bytes = half;
  q.value_bytes = b.value_bytes;
  build_request r{};
  r.batch = &q;
  r.old = u64(from.used());
  vector<unsigned char> old_keys(r.old * half + 16), old_values(r.old * half + 16);
  uint64_t n = 0;
  SAME(from.run->collect(&from.t, cell_order{}, 0, from.cells, {old_keys.data(), old_values.data(), half, half, &n}),
       0);
  SAME(n, r.old);
  r.old_keys = old_keys.data();
  r.old_values = old_values.data();
  // What lies behind the keys is not looked at, even where it looks like the last of them.
  const u64 last = *std::max_element(b.keys.begin(), b.keys.end());
  vector<u64> work(e.work_bytes(r) / 8 + 2, half == 4 ? last << 32 | last : last);
  r.work = work.data();
  auto to = std::make_unique<skip_store<F>>(format, r.old + b.n() + 60, from.t.slots);
  to->side_ = from.side_;
  to->t.side = reinterpret_cast<typename F::word*>(to->side_.data());
  if (faults)
    with_failing_calls("sorting", [&] {
      build_request again = r;
      return e.sort(&to->t, again);
    });
  SAME(e.sort(&to->t, r), 0);
  const u64 all = r.old + r.fresh;
  vector<unsigned char> new_keys(all * half + 16, untouched), new_values(all * half + 16, untouched);
  const auto merge = [&] { return e.merge(&to->t, r, new_keys.data(), new_values.data()); };
  if (faults && b.kind != accumulate)  // which would add some of them twice
    with_failing_calls("merging", merge);
  else
    SAME(merge(), 0);
  for (size_t i = all * half; i < new_keys.size(); ++i) SAME(new_keys[i] + new_values[i], 2 * untouched);
  const auto build = [&] {
    return e.build(&to->t, all, new_keys.data(), new_values.data(), half, half, from.t.entries() - 1, 1, nullptr);
  };
  if (faults) with_failing_calls("building", build);
  SAME(build(), 0);
  to->sum[0].live = from.live() + int64_t(r.fresh + r.fresh_side);
  to->sum[0].used = int64_t(all);
  return to;
}

template <class F>
struct built_table {
  const format_id format;
  const u32 chunk;
  std::unique_ptr<skip_store<F>> t;
  std::map<u64, u64> m;

  void renew() {
    t = std::make_unique<skip_store<F>>(format, 10, chunk);
    m.clear();
  }
  // Elements take effect in the order of the batch, but that operands of accumulate may be joined in any order.
  void take(const batch& b, bool faults = false) {
    vector<u8> status(b.n() + 8, untouched);
    t = built(*t, format, b, status, faults);
    for (size_t i = 0; i < b.n(); ++i) {
      const u64 v = operand(b, i);
      const auto [at, absent] = m.emplace(b.keys[i], v);
      if (b.kind == assign) at->second = v;
      if (b.kind == accumulate && !absent) at->second = join_bits(b, at->second, v);
      if (status[i] != absent) wrong("kind %u: element %zu has status %u", b.kind, i, status[i]);
    }
    for (size_t i = b.n(); i < status.size(); ++i) SAME(status[i], untouched);
    const auto there = contents(*t);
    for (const auto& [k, v] : m)
      if (!there.count(k) || there.find(k)->second != v)
        wrong("kind %u: key %llx has not the value %llx", b.kind, k, v);
    SAME(there.size(), m.size());
    SAME(t->live(), m.size());
    t->used();  // and the invariants
  }
};

template <class F>
void building(const char* name, format_id format, u32 chunk, u32 value_bytes, u64 seed) {
  const shape s{std::string(name) + " building", sizeof(typename F::key), value_bytes, {}, no_memory, {}};
  title(s, seed, "batches at once");
  random_numbers random{seed};
  built_table<F> table{format, chunk, nullptr, {}};
  table.renew();
  for (int round = 0; round < 8; ++round) {
    const vector<u64> pool = key_pool(s, round % 3 ? 700 : 8);
    constexpr u32 kinds[] = {insert, accumulate, assign, insert, accumulate};
    batch b = random_batch(s, random, pool, kinds[round % 5], 700);
    if (round > 5) std::sort(b.keys.begin(), b.keys.end());
    if (round % 5 == 2)  // without the keys of the side slots, which come last
      for (u64& k : b.keys) k = is_side_key(typename F::key(k)) ? 1 : k;
    const bool floats = b.kind == accumulate && b.type == 2;  // which are no numbers to the other kinds
    if (floats) table.renew();
    table.take(b, round == 2 || round == 3);
    if (floats) {
      table.take(b);
      table.renew();
    }
  }
}

// Batches behind the end of a table, as skiplist_table::try_behind has them. The pool is two segments, so that a run of new
// chunks may lie in both. Keys are encoded here, but those that the table gets.
template <class F>
class batches_behind {
  static constexpr u32 half = sizeof(typename F::key);
  using key = typename F::key;

 public:
  // named: which part of the chunks that splits make has a name one level up.
  batches_behind(format_id format, u32 chunk, u32 order, double named, u64 seed)
      : random_{seed}, store_(format, 6000, chunk), t_(store_.t), per_(chunk - 3) {
    t_.order = order;
    t_.raise_below = u32(named * 65536);
    t_.sign = key(1) << (8 * half - 1);
    t_.segments = 2;
    t_.first[1] = t_.levels + u32(random_.below(500 / per_));
    t_.segment[1] = t_.segment[0] + size_t(t_.first[1]) * chunk;
  }

  // Batches of some keys from a key on, which may be one before the last chunk; now and then keys leave from the end.
  void rounds(int n, bool erases, bool faults) {
    for (int round = 0; round < n; ++round) {
      if (erases && random_.below(3) == 0) erase_from_the_end();
      const key low = low_of_last(), last = held_.empty() ? key(0) : key(held_.rbegin()->first);
      const u64 where_to = random_.below(6);
      const key from = where_to == 0 && low ? key(low - 1) : where_to < 3 ? low : key(last + random_.below(3));
      constexpr u64 sizes[] = {1, 2, 5, 6, 7, 30, 100, 300};
      const u64 some = sizes[random_.below(8)];
      serve(draw(from, some, round), erases, faults && round == 3);
    }
  }
  // Most keys leave, those of the last chunks first or in any order, so that chunks are merged on all levels and some of their
  // names stay. Then batches begin where the end is said to be, or before it, with a last chunk that is full or less full.
  void among_names_left_behind(bool in_order) {
    const u64 n = 40 * per_;
    batch all;
    all.kind = insert;
    all.key_bytes = all.value_bytes = half;
    for (u64 i = 0; i < n; ++i) all.keys.push_back(10 * i), all.values.push_back(i);
    serve(all, false, false);
    const u64 left = per_ * (1 + random_.below(4)) + random_.below(per_);
    vector<u64> leave(all.keys.begin() + long(left), all.keys.end());
    if (!in_order) std::shuffle(leave.begin(), leave.end(), std::minstd_rand(u32(random_.below(1000))));
    while (!leave.empty()) {
      batch gone;
      gone.kind = erase;
      for (u64 some = 1 + random_.below(2 * per_); some > 0 && !leave.empty(); --some) {
        gone.keys.push_back(leave.back());
        held_.erase(leave.back());
        leave.pop_back();
      }
      key_by_key(gone);
    }
    for (int round = 0; round < 10; ++round) {
      const u64 room = per_ + random_.below(2), there = entries_of_last();
      if (there < room) add_behind(room - there);
      const key last = key(held_.rbegin()->first);
      const u64 where_to = random_.below(3);
      const key from = where_to < 2 && from_ > last ? key(from_ + where_to) : key(last + 1 + random_.below(200));
      serve(draw(from, 1 + random_.below(10 * per_), round), true, false);
    }
  }
  u32 taken() const { return store_.taken; }
  u32 end_of_first() const { return t_.first[1]; }

 private:
  batch draw(key from, u64 n, int round) {
    batch b;
    constexpr u32 kinds[] = {insert, assign, accumulate};
    b.kind = kinds[random_.below(3)];
    b.key_bytes = b.value_bytes = half;
    const u64 span = 1 + random_.below(3 * n);
    for (u64 i = 0; i < n; ++i) b.keys.push_back(key(from + random_.below(span)));
    b.keys[random_.below(n)] = from;
    if (random_.below(3) == 0) std::sort(b.keys.begin(), b.keys.end());
    if (random_.below(4) == 0) b.keys.back() = key(~key(0) - random_.below(2));
    // Equal keys have equal values: those of any order of them.
    for (const u64 k : b.keys) b.values.push_back(key(k * 7 + u64(round)));
    return b;
  }
  key low_of_last() const {
    key low = 0;
    for (u32 at = t_.head(0);;) {
      const auto next = t_.chunk(at)[t_.slots - 2];
      if (t_.link_of(next) == none) return low;
      low = key(F::key_of(next) + 1);
      at = t_.link_of(next);
    }
  }
  u32 entries_of_last() const {
    u32 at = t_.head(0), n = 0;
    while (t_.link_of(t_.chunk(at)[t_.slots - 2]) != none) at = t_.link_of(t_.chunk(at)[t_.slots - 2]);
    for (u32 i = 0; i < t_.entries(); ++i) n += F::key_of(t_.chunk(at)[i]) != t_.no_key;
    return n;
  }
  // So many keys behind the last one, key by key.
  void add_behind(u64 n) {
    batch b;
    b.kind = insert;
    b.key_bytes = b.value_bytes = half;
    for (u64 i = 1; i <= n; ++i) b.keys.push_back(key(held_.rbegin()->first + i)), b.values.push_back(i);
    key_by_key(b);
    expect(b, nullptr);
  }
  void erase_from_the_end() {
    batch b;
    b.kind = erase;
    const u64 left = random_.below(held_.size() + 1);
    u64 i = 0;
    for (const auto& [k, v] : held_)
      if (i++ >= left && random_.below(8)) b.keys.push_back(k);
    for (const u64 k : b.keys) held_.erase(k);
    if (b.n()) key_by_key(b);
  }
  struct given {  // a batch as the engine has it
    vector<unsigned char> keys, values;
    vector<u8> status;
    request q{};
  };
  given request_of(const batch& b) const {
    given g;
    vector<u64> user;
    for (const u64 k : b.keys) user.push_back(t_.decode(key(k)));
    g.keys = packed(user, half);
    g.values = packed(b.values, half);
    g.status.assign(b.n() + 8, untouched);
    g.q.kind = b.kind;
    g.q.n = b.n();
    g.q.keys = g.keys.data();
    g.q.values = b.values.empty() ? nullptr : g.values.data();
    g.q.key_bytes = g.q.value_bytes = half;
    return g;
  }
  void key_by_key(const batch& b) {
    given g = request_of(b);
    SAME(store_.run->run(&t_, g.q, store_.sum.data()), 0);
  }

  void serve(const batch& b, bool erased, bool faults) {
    given g = request_of(b);
    g.q.status = g.status.data();
    const ordered_engine& e = *store_.run->ordered;
    table_end end;
    vector<unsigned char> pairs(2 * t_.entries() * half + 16, untouched);
    unsigned char* const its_values = pairs.data() + t_.entries() * half;
    const auto look = [&] { return e.look_at_end(&t_, g.q, &end, pairs.data(), its_values); };
    memset(&end, untouched, sizeof(end));
    called("looking at the end", faults, look);
    const key least = key(*std::min_element(b.keys.begin(), b.keys.end())), low = low_of_last();
    from_ = key(end.from);
    if (least < low) SAME(end.falls_short, 1);
    if (!erased) SAME(end.falls_short, least < low);
    const bool may_build = !end.falls_short && end.below < per_;
    if (may_build)
      build(g, end, pairs.data(), its_values, erased, faults);
    else
      key_by_key(b);
    expect(b, may_build ? &g.status : nullptr);
  }
  static void called(const char* what, bool faults, const std::function<int()>& call) {
    if (faults)
      with_failing_calls(what, call);
    else
      SAME(call(), 0);
  }
  void build(given& g, const table_end& end, void* old_keys, void* old_values, bool erased, bool faults) {
    const ordered_engine& e = *store_.run->ordered;
    build_request r{};
    r.batch = &g.q;
    r.old = end.entries[0];
    r.old_keys = old_keys;
    r.old_values = old_values;
    vector<u64> work(e.work_bytes(r) / 8 + 2);
    r.work = work.data();
    SAME(e.sort(&t_, r), 0);
    const u64 n = r.old + r.fresh;
    const dense_shape shape = dense_shape::behind(end, n, per_, t_.levels);
    skip_check<F> before(t_);
    SAME(before.run().empty(), true);
    vector<unsigned char> keys(n * half + 16, untouched), values(n * half + 16, untouched);
    SAME(e.merge(&t_, r, keys.data(), values.data()), 0);
    skip_table<F> target = t_;
    target.order = order_unsigned;
    const auto extend = [&] {
      return e.extend(&target, end, n, keys.data(), values.data(), half, half, per_, 1, nullptr);
    };
    if (n) called("extending", faults, extend);
    expect_shape(before, end, n, erased);
    SAME(store_.taken, end.taken + shape.all);
  }
  // Each level: its last chunk is filled up, then others are; who has names above has all of them there.
  void expect_shape(const skip_check<F>& before, const table_end& end, u64 n, bool erased) {
    skip_check<F> after(t_);
    const std::string broken = after.run() + after.run_spare();
    if (!broken.empty()) wrong("%s", broken.c_str());
    u64 fresh = n ? (n + per_ - 1) / per_ - 1 : 0;  // chunks of a level
    u32 top = end.top;
    for (u32 l = 0; l < t_.levels; ++l) {
      SAME(after.chunks[l], before.chunks[l] + fresh);
      if (!fresh || l + 1 == t_.levels) break;
      const u32 own = end.entries[l + 1], room = own < per_ ? per_ - own : 0;
      top = std::max(top, l + 1);
      fresh = fresh <= room ? 0 : (fresh - room + per_ - 1) / per_;
    }
    SAME(store_.top, top);
    u64 below = 0;
    for (u32 l = 0; l < top; ++l) below += after.chunks[l];
    if (!erased && t_.raise_below == 65536) SAME(after.names - (t_.levels - 1 - top), below);
  }
  // After the batch; and what its elements have answered.
  void expect(const batch& b, const vector<u8>* status) {
    for (size_t i = 0; i < b.n(); ++i) {
      const auto [at, absent] = held_.emplace(b.keys[i], b.values[i]);
      if (b.kind == assign) at->second = b.values[i];
      if (b.kind == accumulate && !absent) at->second = join_bits(b, at->second, b.values[i]);
      if (status) SAME((*status)[i], absent);
    }
    const auto there = contents(store_);
    SAME(there.size(), held_.size());
    for (const auto& [k, v] : held_) {
      const u64 user = t_.decode(key(k));
      if (!there.count(user) || there.find(user)->second != v) wrong("key %llx has not the value %llx", user, v);
    }
  }

  random_numbers random_;
  skip_store<F> store_;
  skip_table<F>& t_;
  const u32 per_;
  std::map<u64, u64> held_;
  key from_ = 0;  // of the end, when it was last looked at
};
template <class F>
void behind_the_end(const char* name, format_id format, u32 chunk, u64 seed) {
  const shape s{std::string(name) + " behind the end, chunk " + std::to_string(chunk),
                sizeof(typename F::key),
                sizeof(typename F::value),
                {},
                no_memory,
                {}};
  bool over_the_boundary = false;
  for (u32 i = 0; i < 8; ++i) {
    title(s, seed * 10 + i, i % 2 ? "and erased from there" : "for ever");
    constexpr double named[] = {1, 1, 0.5, 0};
    batches_behind<F> some(format, chunk, i % 3, named[i / 2], seed * 10 + i);
    some.rounds(12, i % 2, i == 0);
    over_the_boundary |= some.taken() > some.end_of_first() + 2;
  }
  for (u32 i = 0; i < 6; ++i) {
    title(s, seed * 10 + i, "among names left behind");
    batches_behind<F>(format, chunk, i % 3, 1, seed * 10 + i).among_names_left_behind(i % 2);
  }
  if (!over_the_boundary) wrong("no chunk of the second segment was taken");
}

// Sums that end within the range of their type, whereas some of the operands by themselves do not.
template <class F>
void large_operands(const char* name, format_id format, u64 seed) {
  const shape s{std::string(name) + " large", sizeof(typename F::key), sizeof(typename F::value), {}, no_memory, {}};
  title(s, seed, "large operands");
  built_table<F> table{format, 8, nullptr, {}};
  table.renew();
  batch b;
  b.kind = insert;
  b.key_bytes = s.key_bytes;
  b.value_bytes = s.value_bytes;
  b.type = 2;
  const auto bits = [&](double x) {
    const float f = float(x);
    u64 v = 0;
    s.value_bytes == 4 ? memcpy(&v, &f, 4) : memcpy(&v, &x, 8);
    return v;
  };
  const double large = s.value_bytes == 4 ? 3e38 : 1.5e308;
  const u64 top = s.key_bytes == 4 ? 0xffffffffu : ~u64(0);
  for (const u64 k : {u64(1), u64(2), u64(3), top}) {
    b.keys.push_back(k);
    b.values.push_back(bits(-large));
  }
  table.take(b);
  b.kind = accumulate;
  b.keys.insert(b.keys.end(), b.keys.begin(), b.keys.end());
  b.values.assign(b.keys.size(), bits(large));
  table.take(b);
}

// Neighbours and ranges against the model, with and without writers about.
template <class F>
void ordered_answers(const char* name, format_id format, u32 chunk, u64 seed) {
  const shape s{std::string(name) + " ordered", sizeof(typename F::key), sizeof(typename F::value), {}, no_memory, {}};
  title(s, seed, "ordered queries");
  random_numbers random{seed};
  using key = typename F::key;
  skip_store<F> t(format, 600, chunk);
  model m;
  const vector<u64> pool = key_pool(s, 400);
  batch b = random_batch(s, random, pool, insert, 300);
  b.keys[0] = key(dead_key<key>);
  check(t, m, b);
  batch gone = random_batch(s, random, pool, erase, 150);
  const u64 top = key(empty_key<key>);
  if (chunk == 16) gone.keys[0] = top, gone.keys[1] = top - 1;
  if (chunk == 32) {  // the lower one of the side slots alone
    for (u64& k : gone.keys) k = k == top - 1 ? top : k;
    gone.keys[0] = top;
  }
  check(t, m, gone);
  std::map<u64, u64> held;
  for (const auto& [k, one] : m)
    if (one.alive) held[k] = one.value;
  constexpr u32 half = sizeof(typename F::key), n = 100, most = 5;
  vector<u64> low(n), high(n);
  for (u32 i = 0; i < n; ++i) {
    low[i] = pool[random.below(pool.size())] - random.below(2);
    high[i] = pool[random.below(pool.size())];
  }
  low[0] = 0, low[1] = top, low[2] = top - 1, low[3] = top - 2;
  const auto lows = packed(low, half), highs = packed(high, half);
  vector<u8> found(n);
  vector<uint64_t> counts(n);
  ordered_request q{};
  q.n = n;
  q.found = found.data();
  q.counts = counts.data();
  q.key_bytes = q.value_bytes = half;
  const auto bound = [&](u64 k) { return held.lower_bound(half == 4 ? u32(k) : k); };
  for (q.alone = 0; q.alone < 2; ++q.alone) {
    q.low = lows.data();
    q.high = q.offsets = nullptr;
    vector<unsigned char> keys(n * most * half + 8, untouched), values(keys.size(), untouched);
    q.out_keys = keys.data();
    q.out_values = values.data();
    for (q.which = 0; q.which < 4; ++q.which) {
      with_failing_calls("neighbors", [&] { return t.run->ordered->neighbors(&t.t, q); });
      for (u32 i = 0; i < n; ++i) {
        const bool up = q.which < 2;
        const u64 asked = unpacked(lows, half, i);
        auto at = q.which == 0 || q.which == 3 ? held.lower_bound(asked) : held.upper_bound(asked);
        const bool there = up ? at != held.end() : at != held.begin();
        if (!up && there) --at;
        SAME(found[i], there);
        SAME(unpacked(keys, half, i), there ? at->first : 0);
        SAME(unpacked(values, half, i), there ? at->second : 0);
      }
    }
    // So many pairs of each range; all of them, where the last range has room for half of them only; how many there are.
    // Ends are open, too.
    for (const u32 ends : {3u, 2u, 1u, 0u})
      for (const u32 how : {0u, 1u, 2u}) {
        const bool limited = how == 0, counted = how == 2;
        q.low = ends & 1 ? lows.data() : nullptr;
        q.high = ends & 2 ? highs.data() : nullptr;
        q.n = ends ? n : 1;
        vector<vector<std::pair<u64, u64>>> expected(q.n);
        vector<uint64_t> offsets(q.n + 1);
        for (u32 i = 0; i < q.n; ++i) {
          const auto end = q.high ? bound(high[i]) : held.end();
          for (auto at = bound(q.low ? low[i] : 0); at != held.end() && (!q.high || at->first < high[i]); ++at)
            if (at != end) expected[i].push_back(*at);
          offsets[i + 1] = offsets[i] + expected[i].size();
        }
        const u64 all = offsets[q.n], cut = limited ? 0 : expected[q.n - 1].size() / 2;
        q.most = limited ? most : all - cut;
        q.offsets = limited ? nullptr : offsets.data();
        const size_t room = limited ? q.n * most : all - cut;
        keys.assign((room + 1) * half, untouched);
        values = keys;
        q.out_keys = counted ? nullptr : keys.data();
        q.out_values = counted ? nullptr : values.data();
        if (counted) {
          q.offsets = nullptr;
          q.most = ~size_t(0);
        }
        SAME(t.run->ordered->ranges(&t.t, q), 0);
        for (u32 i = 0; i < q.n; ++i) {
          const u64 there = expected[i].size(), wanted = limited && there > most ? u64(most) : there;
          SAME(counts[i], wanted);
          if (counted) continue;
          for (u64 j = 0; j < wanted; ++j) {
            const u64 to = (limited ? u64(i) * most : offsets[i]) + j;
            if (to >= room) continue;
            SAME(unpacked(keys, half, to), expected[i][j].first);
            SAME(unpacked(values, half, to), expected[i][j].second);
          }
        }
        for (u32 i = 0; i < half; ++i) SAME(keys[room * half + i] + values[room * half + i], 2 * untouched);
        if (!counted) continue;
        vector<uint64_t> sums(q.n + 2, ~u64(0));
        q.sums = sums.data();
        SAME(t.run->ordered->ranges(&t.t, q), 0);
        q.sums = nullptr;
        for (u32 i = 0; i <= q.n; ++i) SAME(sums[i], offsets[i]);
        SAME(sums[q.n + 1], ~u64(0));
      }
    // One range, as range_all asks for it: its offsets, and the pairs.
    for (const u32 ends : {3u, 3u, 3u, 3u, 2u, 1u, 0u}) {
      const u64 from = ends & 1 ? pool[random.below(pool.size())] : 0, to = pool[random.below(pool.size())];
      const auto one_low = packed({from}, half), one_high = packed({to}, half);
      vector<std::pair<u64, u64>> expected;
      for (auto at = bound(from); at != held.end() && (!(ends & 2) || at->first < (half == 4 ? u32(to) : to)); ++at)
        expected.push_back(*at);
      uint64_t sums[3] = {7, 7, 7};
      ordered_request one{};
      one.n = 1;
      one.low = ends & 1 ? one_low.data() : nullptr;
      one.high = ends & 2 ? one_high.data() : nullptr;
      one.most = ~size_t(0);
      one.key_bytes = one.value_bytes = half;
      one.alone = q.alone;
      one.sums = sums;
      SAME(t.run->ordered->ranges(&t.t, one), 0);
      SAME(sums[0], 0);
      SAME(sums[1], expected.size());
      SAME(sums[2], 7);
      keys.assign((expected.size() + 1) * half, untouched);
      values = keys;
      one.sums = nullptr;
      one.offsets = sums;
      one.most = expected.size();
      one.out_keys = keys.data();
      one.out_values = values.data();
      SAME(t.run->ordered->ranges(&t.t, one), 0);
      for (size_t j = 0; j < expected.size(); ++j) {
        SAME(unpacked(keys, half, j), expected[j].first);
        SAME(unpacked(values, half, j), expected[j].second);
      }
      for (u32 i = 0; i < half; ++i) SAME(keys[expected.size() * half + i], untouched);
    }
    uint64_t nothing[2] = {1, 2};
    q.n = 0;
    q.sums = nothing;
    SAME(t.run->ordered->ranges(&t.t, q), 0);
    SAME(nothing[0] * 10 + nothing[1], 2);
    q.sums = nullptr;
    q.n = n;
  }
}

// Most keys go, so that chunks are merged: what was in those that are gone is collected once.
template <class F>
void shrinking(const char* name, format_id format, u32 chunk, u64 seed) {
  const shape s{std::string(name) + " shrinks", sizeof(typename F::key), sizeof(typename F::value), {}, no_memory, {}};
  title(s, seed, "few keys stay");
  random_numbers random{seed};
  skip_store<F> t(format, 600, chunk);
  model m;
  batch in = random_batch(s, random, key_pool(s, 300), insert, 1, true), out = in;
  const auto all = key_pool(s, 300);
  in.keys = all, in.values.assign(300, 7), in.ops.assign(300, 0);
  out.kind = erase, out.keys.clear();
  for (size_t i = 0; i < all.size(); ++i)
    if (i % 8) out.keys.push_back(all[i]);
  out.values.assign(out.n(), 0), out.ops.assign(out.n(), 0);
  check(t, m, in);
  check(t, m, out);
  u32 zombies = 0;
  for (u32 i = 0; i < t.taken; ++i) {
    const u32 link = t.t.link_of(t.t.chunk(t.t.handle_of(i))[chunk - 2]);
    zombies += t.t.is_gone(link) && t.t.target(link) != none;
  }
  if (!zombies) wrong("no chunk is gone");
}

// Ranges in parts, without a writer beside them, in at most "cuda.most_subranges" parts (tests/sizes/kernels.hpp).
template <class F>
class long_ranges {
  static constexpr u32 half = sizeof(typename F::key);
  using key = typename F::key;
  using pairs = vector<std::pair<u64, u64>>;  // as users see them, in the order of the table

 public:
  long_ranges(format_id format, u32 chunk, u32 order, size_t n, bool built, u64 seed)
      : random_{seed}, format_(format), table_(std::make_unique<skip_store<F>>(format, n + 60, chunk)) {
    auto& t = table_->t;
    t.order = order;
    t.sign = key(1) << (8 * half - 1);
    vector<key> keys;  // encoded
    for (size_t i = 0; i < n; ++i) keys.push_back(key(random_.next() % dead_key<key>));
    if (n) keys[0] = 0;
    if (n > 1) keys[1] = key(dead_key<key> - 1);
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    vector<u64> given;
    for (const key k : keys) given.push_back(t.decode(k));
    for (const u64 k : given) held_.push_back({k, value_of(k)});
    if (!built) std::shuffle(given.begin(), given.end(), std::minstd_rand(u32(seed)));
    vector<u64> values;
    for (const u64 k : given) values.push_back(value_of(k));
    const auto k = packed(given, half), v = packed(values, half);
    if (built) {
      SAME(table_->run->ordered->build(&t, keys.size(), k.data(), v.data(), half, half, t.entries() - 1, 1, nullptr),
           0);
    } else if (n) {
      request q{};
      q.kind = insert;
      q.n = n;
      q.keys = k.data();
      q.values = v.data();
      q.key_bytes = q.value_bytes = half;
      SAME(table_->run->run(&t, q, table_->sum.data()), 0);
    }
    SAME(table_->used(), held_.size());
    for (const key side : {key(dead_key<key>), key(empty_key<key>)}) {
      if (n % 2) continue;
      const u64 user = t.decode(side);
      t.side[side == dead_key<key>] = F::make(1, typename F::value(value_of(user)));
      held_.push_back({user, value_of(user)});
    }
    // Keys at which the parts begin, keys next to them, keys, and the ends of their type.
    vector<key> ends = {0, 1, key(dead_key<key> - 1), dead_key<key>, empty_key<key>};
    const vector<key> cuts = cuts_of(whole(), 64);
    for (int i = 0; i < 6; ++i) {
      const key c = cuts[random_.below(cuts.size())];
      ends.insert(ends.end(), {c, key(c - 1), key(c + 1)});
      if (n) ends.push_back(keys[random_.below(keys.size())]);
    }
    for (const key e : ends) ends_.push_back(t.decode(e));
  }

  // The parts ascend within their range, and are about as long as each other.
  void cuts() {
    for (int round = 0; round < 8; ++round) {
      auto of = whole();
      if (round) {
        of.low = table_->t.encode(key(an_end()));
        of.high = table_->t.encode(key(an_end()));
        of.to_end = round % 3 == 0;
      }
      for (const u32 parts : {1u, 2u, 7u, 50u}) {
        const vector<key> at = cuts_of(of, parts);
        SAME(at[0], of.low);
        size_t longest = 0, all = 0;
        for (u32 i = 0; i < parts; ++i) {
          if (i && at[i] < at[i - 1]) wrong("part %u of %u begins before part %u", i, parts, i - 1);
          if (at[i] != of.low && !of.has(at[i])) wrong("part %u of %u begins outside of its range", i, parts);
          size_t here = 0;
          for (const auto& [user, v] : held_) {
            const key k = table_->t.encode(key(user));
            here += of.has(k) && k >= at[i] && (i + 1 == parts || k < at[i + 1]);
          }
          longest = std::max(longest, here);
          all += here;
        }
        const size_t even = all / parts + table_->t.entries();
        if (longest > 4 * even) wrong("the longest of %u parts has %zu of %zu pairs", parts, longest, all);
      }
    }
  }
  // A chunk of level 1 loses its name, as one does that found no memory to be named. Ranges in it are cut all the same.
  void cuts_behind_a_lost_name() {
    const auto& t = table_->t;
    auto* const c = t.chunk(t.head(2));
    const key low = F::key_of(c[1]), high = F::key_of(c[2]);
    for (u32 i = 1; i + 1 < t.entries(); ++i) c[i] = c[i + 1];
    c[t.entries() - 1] = empty_word<F>();
    const vector<key> at = cuts_of({low, high, false, ~u64(0)}, 3);
    if (!(at[0] == low && low < at[1] && at[1] < at[2] && at[2] < high)) wrong("a range below a lost name is not cut");
  }
  // Several ranges as range_pairs, range_all and range with a limit ask for them.
  void answers() {
    for (int round = 0; round < 6; ++round) {
      const size_t n = round < 4 ? 1 : 2 + random_.below(4);
      const u32 open = n == 1 ? u32(round) : u32(random_.below(3));  // 1: no low ends, 2: no high ends, 3: neither
      vector<u64> low, high;
      vector<pairs> expected;
      for (size_t i = 0; i < n; ++i) {
        low.push_back(an_end());
        high.push_back(random_.below(8) ? an_end() : low.back());
        expected.push_back(
            between(open & 1 ? 0 : table_->t.encode(key(low[i])), open & 2, table_->t.encode(key(high[i]))));
      }
      const auto lows = packed(low, half), highs = packed(high, half);
      ordered_request q{};
      q.n = n;
      q.alone = 1;
      q.key_bytes = q.value_bytes = half;
      q.low = open & 1 ? nullptr : lows.data();
      q.high = open & 2 ? nullptr : highs.data();
      summed(q, expected);
      u64 longest = 0;
      for (const pairs& p : expected) longest = std::max<u64>(longest, p.size());
      limited(q, expected, longest / (1 + random_.below(3)) + random_.below(2) + 1);
      placed(q, expected, random_.below(4) ? random_.below(longest + 1) : 0);
      placed(q, expected, 0, 40);
    }
  }

 private:
  static u64 value_of(u64 k) { return half == 4 ? u32(~k * 7) : ~k * 7; }
  using interval = typename skip_walk<cuda_mem, skip_table<F>>::interval;
  static interval whole() { return {0, 0, true, ~u64(0)}; }
  u64 an_end() { return ends_[random_.below(ends_.size())]; }
  vector<key> cuts_of(const interval& of, u32 parts) const {
    vector<key> at;
    for (u32 i = 0; i < parts; ++i) at.push_back(skip_walk<cuda_mem, skip_table<F>>{table_->t}.cut(of, i, parts));
    return at;
  }
  pairs between(key low, bool to_end, key high) const {
    pairs found;
    for (const auto& [user, v] : held_)
      if (const key k = table_->t.encode(key(user)); k >= low && (to_end || k < high)) found.push_back({user, v});
    return found;
  }
  void ask(const ordered_request& q) {
    const auto ranges = [&] { return table_->run->ordered->ranges(&table_->t, q); };
    if (asked_ < 4) with_failing_calls("ranges", ranges);
    SAME(ranges(), 0);
    ++asked_;
  }
  void summed(ordered_request q, const vector<pairs>& expected) {
    vector<uint64_t> sums(q.n + 2, ~u64(0));
    q.most = ~size_t(0);
    q.sums = sums.data();
    ask(q);
    u64 all = 0;
    for (size_t i = 0; i <= q.n; ++i) {
      SAME(sums[i], all);
      all += i < q.n ? expected[i].size() : 0;
    }
    SAME(sums[q.n + 1], ~u64(0));
    vector<uint64_t> counts(q.n + 1, ~u64(0));
    q.sums = nullptr;
    q.counts = counts.data();
    ask(q);
    for (size_t i = 0; i < q.n; ++i) SAME(counts[i], expected[i].size());
    SAME(counts[q.n], ~u64(0));
  }
  // Room number i of the output has this pair, or was not written.
  struct output {
    vector<unsigned char> keys, values;
    explicit output(size_t room) : keys((room + 2) * half, untouched), values(keys) {}
    void expect(size_t i, const std::pair<u64, u64>& p) {
      SAME(unpacked(keys, half, i), p.first);
      SAME(unpacked(values, half, i), p.second);
      memset(&keys[i * half], untouched, half);
      memset(&values[i * half], untouched, half);
    }
    void expect_no_more() const {
      for (size_t i = 0; i < keys.size(); ++i) SAME(keys[i] + values[i], 2 * untouched);
    }
  };
  void limited(ordered_request q, const vector<pairs>& expected, u64 most) {
    output out(q.n * most);
    vector<uint64_t> counts(q.n + 1, ~u64(0));
    q.most = most;
    q.out_keys = out.keys.data();
    q.out_values = most % 2 ? out.values.data() : nullptr;
    q.counts = counts.data();
    ask(q);
    for (size_t i = 0; i < q.n; ++i) {
      const u64 there = std::min<u64>(expected[i].size(), most);
      SAME(counts[i], there);
      for (u64 j = 0; j < there; ++j) {
        if (!q.out_values) memcpy(&out.values[(i * most + j) * half], &expected[i][j].second, half);
        out.expect(i * most + j, expected[i][j]);
      }
    }
    SAME(counts[q.n], ~u64(0));
    out.expect_no_more();
  }
  // With offsets: each range has room for all of its pairs but for so many, and so many places are left between two of them.
  void placed(ordered_request q, const vector<pairs>& expected, u64 missing, u64 more = 0) {
    vector<uint64_t> offsets = {more}, counts(q.n + 1, ~u64(0));
    for (const pairs& p : expected)
      offsets.push_back(offsets.back() + (p.size() > missing ? p.size() - missing : 0) + more);
    output out(offsets.back());
    q.most = offsets.back();
    q.offsets = offsets.data();
    q.out_keys = out.keys.data();
    q.out_values = out.values.data();
    q.counts = missing % 2 ? nullptr : counts.data();
    ask(q);
    for (size_t i = 0; i < q.n; ++i) {
      if (q.counts) SAME(counts[i], expected[i].size());
      for (u64 j = 0; j < expected[i].size() && offsets[i] + j < offsets[i + 1]; ++j)
        out.expect(offsets[i] + j, expected[i][j]);
    }
    SAME(counts[q.n], ~u64(0));
    out.expect_no_more();
  }

  random_numbers random_;
  int asked_ = 0;
  const format_id format_;
  std::unique_ptr<skip_store<F>> table_;
  pairs held_;
  vector<u64> ends_;  // of ranges
};
template <class F>
void ranges_in_parts(const char* name, format_id format, u32 chunk, u64 seed) {
  const shape s{
      std::string(name) + " ranges in parts", sizeof(typename F::key), sizeof(typename F::value), {}, no_memory, {}};
  title(s, seed, "long ranges");
  u32 order = u32(seed % 3);
  for (const size_t n : {size_t(seed % 8), size_t(700 + seed % 2), size_t(500 + seed % 2)}) {
    const bool built = n > 600;
    where = s.name + " seed " + std::to_string(seed) + " " + std::to_string(n) + (built ? " built" : " inserted");
    long_ranges<F> ranges(format, chunk, order++ % 3, n, built, seed);
    ranges.cuts();
    ranges.answers();
  }
  long_ranges<F>(format, chunk, 0, 700, true, seed).cuts_behind_a_lost_name();
}

// A batch of pairs of which each key is its own value. Returns its keys, which a launch that is held needs still.
template <class F>
vector<u8> serve_own_values(skip_store<F>& t, u32 kind, const vector<u64>& keys, const vector<u8>* ops,
                            vector<u8>& status, vector<u8>& out) {
  constexpr u32 half = sizeof(typename F::key);
  auto packed_keys = packed(keys, half);
  status.assign(keys.size(), untouched);
  out.assign(keys.size() * half + 8, 0);
  request q{};
  q.kind = kind;
  q.n = keys.size();
  q.keys = packed_keys.data();
  q.values = packed_keys.data();
  q.out_values = kind == find ? out.data() : nullptr;
  q.status = status.data();
  if (ops) q.ops = ops->data();
  q.key_bytes = q.value_bytes = half;
  SAME(t.run->run(&t.t, q, t.sum.data()), 0);
  return packed_keys;
}

// Finds while others insert and erase, of keys that stay, of keys that are nowhere, and of keys that come and go. Rows above
// level 0 may be as old as the launch.
template <class F>
void beside_writers(const char* name, format_id format, u32 chunk, int rounds, u64 seed) {
  const shape s{std::string(name) + " beside", sizeof(typename F::key), sizeof(typename F::value), {}, no_memory, {}};
  title(s, seed, "finds beside writers");
  random_numbers random{seed};
  constexpr u32 half = sizeof(typename F::key);
  constexpr size_t stay = 40, others = 60, n = 500;  // few, so that they meet
  const auto key_at = [](u64 i) { return (i * 0x9e3779b1u) & 0x3fffffff; };
  skip_store<F> t(format, 4 * n, chunk);
  emulated::machine& machine = emulated::machine::the();
  const auto serve = [&](u32 kind, const vector<u64>& keys, const vector<u8>* ops, vector<u8>& answers, auto& out) {
    return serve_own_values<F>(t, kind, keys, ops, answers, out);
  };
  vector<u8> status;
  vector<unsigned char> ignored;
  vector<u64> first;
  for (u64 i = 0; i < stay; ++i) first.push_back(key_at(i));
  serve(insert, first, nullptr, status, ignored);
  for (int round = 0; round < rounds; ++round) {
    vector<u64> written, asked;
    vector<u8> ops, said, found;
    for (size_t i = 0; i < n; ++i) {
      written.push_back(key_at(1000 + random.below(others)));
      ops.push_back(u8(random.below(2) ? insert : erase));
      const u64 which = random.below(6);
      asked.push_back(key_at(which > 2 ? random.below(stay) : 1000 * (which + 1) + random.below(others)));
    }
    vector<unsigned char> out;
    std::vector<emulated::machine::held_launch> held;
    machine.held = &held;
    const auto keep_written = serve(mixed, written, &ops, said, ignored);
    const auto keep_asked = serve(find, asked, nullptr, found, out);
    vector<unsigned char> in_order(n * half + 8, 0);
    uint64_t in_range = ~u64(0);
    ordered_request all{};
    all.n = 1;
    all.most = n;
    all.out_keys = in_order.data();
    all.counts = &in_range;
    all.key_bytes = all.value_bytes = half;
    SAME(t.run->ordered->ranges(&t.t, all), 0);
    machine.held = nullptr;
    machine.run_together(held);
    for (size_t i = 0; i < n; ++i) {
      const bool stays = asked[i] < ~u64(0) && std::find(first.begin(), first.end(), asked[i]) != first.end();
      bool comes = false;
      for (u64 j = 0; j < others; ++j) comes |= asked[i] == key_at(1000 + j);
      if (stays && found[i] != yes) wrong("round %d: key %zu, which stays, was not found", round, i);
      if (!stays && !comes && found[i] != no) wrong("round %d: key %zu was never there, and was found", round, i);
      if (found[i] == yes) SAME(unpacked(out, half, i), asked[i]);
    }
    if (in_range > stay + others) wrong("round %d: a range has %llu keys", round, (unsigned long long)in_range);
    vector<u64> listed;
    for (size_t i = 0; i < in_range; ++i) {
      listed.push_back(unpacked(in_order, half, i));
      if (i && listed[i] <= listed[i - 1]) wrong("round %d: key %zu of a range is not above the one before", round, i);
    }
    for (const u64 k : first)
      if (!std::binary_search(listed.begin(), listed.end(), k))
        wrong("round %d: a range lacks a key that stays", round);
    t.used();  // and the invariants
  }
}

// Finds beside one write that stands still before one of its stores, whichever that is: it has the lock of a chunk of which
// entries are moved, or were moved to another chunk that no link leads to yet. Keys that it does not write are found
// all the same.
template <class F>
void beside_a_write_that_stands_still(const char* name, format_id format, u32 chunk, u64 seed) {
  const shape s{std::string(name) + " still", sizeof(typename F::key), sizeof(typename F::value), {}, no_memory, {}};
  title(s, seed, "finds beside a write that stands still");
  emulated::machine& machine = emulated::machine::the();
  vector<u64> there;
  for (u64 i = 1; i <= chunk; ++i) there.push_back(10 * i);
  struct write {
    u32 kind;
    u64 key;
  };
  skip_store<F> t(format, 8 * there.size(), chunk);
  vector<u8> said, found, out, ignored;
  for (const u64 k : there)  // one after the other, which leaves full chunks behind
    serve_own_values<F>(t, insert, {k}, nullptr, said, ignored);
  const auto memory = t.memory;
  const u32 top = t.top, taken = t.taken;
  // The first makes two chunks of one. The second takes an entry out of one, whose other entries move.
  for (const write one : {write{insert, 15}, write{erase, 20}}) {
    bool ends = false;
    for (u64 store = 1; !ends; ++store) {
      t.memory = memory;
      t.top = top;
      t.taken = taken;
      std::vector<emulated::machine::held_launch> held;
      machine.held = &held;
      const auto written = serve_own_values<F>(t, one.kind, {one.key}, nullptr, said, ignored);
      const auto asked = serve_own_values<F>(t, find, there, nullptr, found, out);
      machine.held = nullptr;
      machine.still_before = store;
      machine.still_for = 60'000;  // more than it takes to find them, where no lock is waited for
      machine.run_together(held);
      machine.still_before = 0;
      ends = machine.stores < store;
      SAME(said[0], yes);
      for (size_t i = 0; i < there.size(); ++i) {
        if (there[i] == one.key) continue;
        if (found[i] != yes)
          wrong("a write of kind %u before its store %llu: key %llu, which is there, was not found", one.kind,
                (unsigned long long)store, (unsigned long long)there[i]);
        SAME(unpacked(out, sizeof(typename F::key), i), there[i]);
      }
      t.used();  // and the invariants
    }
  }
}
}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  vector<shape> shapes;
  add<pair32>(shapes, "pair32", format_pair32, {8, 16, 32});
  add<pair64>(shapes, "pair64", format_pair64, {8, 16});
  return run_all(shapes, argc, argv, [](u64 seed) {
    if (section()) building<pair32>("pair32", format_pair32, 8, 4, seed);
    if (section()) building<pair64>("pair64", format_pair64, 16, 8, seed);
    if (section()) building<pair64>("pair64 with values of 4 bytes", format_pair64, 8, 4, seed);
    if (section()) large_operands<pair32>("pair32", format_pair32, seed);
    if (section()) large_operands<pair64>("pair64", format_pair64, seed);
    if (section()) ordered_answers<pair32>("pair32", format_pair32, 8, seed);
    if (section()) ordered_answers<pair32>("pair32", format_pair32, 32, seed);
    if (section()) ordered_answers<pair64>("pair64", format_pair64, 16, seed);
    if (section()) shrinking<pair32>("pair32", format_pair32, 8, seed);
    if (section()) shrinking<pair64>("pair64", format_pair64, 16, seed);
    if (section()) behind_the_end<pair32>("pair32", format_pair32, 8, seed);
    if (section()) behind_the_end<pair32>("pair32", format_pair32, 32, seed);
    if (section()) behind_the_end<pair64>("pair64", format_pair64, 16, seed);
    if (section()) ranges_in_parts<pair32>("pair32", format_pair32, 8, seed);
    if (section()) ranges_in_parts<pair64>("pair64", format_pair64, 16, seed + 1);
    if (section()) beside_writers<pair32>("pair32", format_pair32, 8, 6, seed);
    if (section()) beside_writers<pair64>("pair64", format_pair64, 8, 2, seed);
    if (section()) beside_a_write_that_stands_still<pair32>("pair32", format_pair32, 8, seed);
    if (section()) beside_a_write_that_stands_still<pair64>("pair64", format_pair64, 16, seed);
  });
}
