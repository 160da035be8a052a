// Batches against a model: what each element of a batch may answer, and what the table and its counters hold after it.
//
// A structure supplies a store: memory for one table of a slot format with its layout, and the engine that serves it.
// The model is a map from keys to the values that they may have, more than one only after a batch in which equal keys
// raced. Every batch is checked: statuses, values, totals of each stripe, bytes that must not be written.
#pragma once
#include <math.h>
#include <sys/mman.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/parts.hpp"
#include "libgpuhash/tile/kinds.hpp"
#include "tests/warp/checks.hpp"
#include "tests/warp/emulator.hpp"

namespace warp_test {

using namespace gpuhash;
using std::vector;

#define SAME(got, expected)                                                                          \
  do {                                                                                               \
    const long long got_ = (long long)(got), expected_ = (long long)(expected);                      \
    if (got_ != expected_)                                                                           \
      wrong("%s is %lld, expected %s = %lld (line %d)", #got, got_, #expected, expected_, __LINE__); \
  } while (0)

inline constexpr u8 untouched = 0xee;

struct batch;
// One table as the engine sees it.
struct store {
  const engine* run = nullptr;
  const void* layout = nullptr;
  u64 cells = 0;
  u32 key_bytes = 0, value_bytes = 0;  // of the slots; value_bytes 0: a set
  bool whole = false;                  // cells are collected all at once
  vector<totals> sum = vector<totals>(total_stripes);
  bool joins = true;                             // accumulate joins equal keys of a block before they reach the table
  bool divides_skewed = true;                    // parts=auto
  u32 divides_beside_others = 1u << accumulate;  // kinds of told batches, whatever else is in the table
  bool reads_alone = false;                      // may a reading batch be told that nobody writes?
  bool far_elements = true;                      // are blocks numbered as elements are?
  virtual ~store() = default;
  virtual bool in_order(const batch&) const { return true; }      // are elements served by the block of their number?
  virtual unsigned per_block(u32 /*kind*/) const { return 256; }  // elements
  virtual int64_t used() const = 0;                               // slots that are not empty
  virtual void beside(std::multimap<u64, u64>&) const {}          // pairs that are in no cell
  int64_t live() const {
    int64_t n = 0;
    for (const totals& s : sum) n += s.live;
    return n;
  }
  // What batches have said of used().
  int64_t used_by_batches() const {
    int64_t n = 0;
    for (const totals& s : sum) n += s.used;
    return n;
  }
};

struct batch {
  u32 kind;
  vector<u64> keys, values;
  vector<u8> ops, status;  // status: before and after
  vector<u64> out;
  u32 combine = 0, type = 0;
  u32 tile = 0;
  bool only_failed = false, with_sum = true, by_pointer = false;
  bool by_parts = false, told = true;  // told: with a status array
  u32 parts = parts_never;             // by_parts: which of them; never: any
  vector<u32> sampled;  // what the driver of large batches has found out, if it had the batch (drive/bulk)
  u32 key_bytes = 8, value_bytes = 8;
  size_t n() const { return keys.size(); }
};

// Does a table have this op code of a mixed batch?
inline bool has_op(const store& s, u8 op) { return op <= erase && (op != accumulate || s.value_bytes); }

inline vector<unsigned char> packed(const vector<u64>& from, u32 bytes) {
  vector<unsigned char> to(from.size() * bytes + 16);
  for (size_t i = 0; i < from.size(); ++i) memcpy(to.data() + i * bytes, &from[i], bytes);
  return to;
}
// The same where memory ends behind the last element: who reads on is stopped by the system.
class up_to_the_end {
 public:
  up_to_the_end(const void* from, size_t bytes, size_t room) : bytes_((room + page - 1) / page * page + page) {
    void* const p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(static_cast<char*>(p) + bytes_ - page, page, PROT_NONE)) wrong("no memory");
    begin_ = static_cast<unsigned char*>(p);
    at_ = begin_ + bytes_ - page - room;
    memcpy(at_, from, bytes);
  }
  up_to_the_end(const vector<u64>& from, u32 element, size_t n)
      : up_to_the_end(packed(from, element).data(), from.size() * element, n * element) {}
  ~up_to_the_end() { munmap(begin_, bytes_); }
  up_to_the_end(const up_to_the_end&) = delete;
  up_to_the_end& operator=(const up_to_the_end&) = delete;
  unsigned char* data() const { return at_; }

 private:
  static constexpr size_t page = 4096;
  const size_t bytes_;
  unsigned char *begin_, *at_;
};
inline u64 unpacked(const vector<unsigned char>& from, u32 bytes, size_t i) {
  u64 v = 0;
  memcpy(&v, from.data() + i * bytes, bytes);
  return v;
}

inline bool adds(u32 kind) { return kind == insert || kind == assign || kind == accumulate || kind == insert_multi; }

// Run it, and check what holds for every kind: totals by stripe, elements past the end and those that have no work.
inline totals serve(store& s, batch& b) {
  const size_t n = b.n();
  const u32 out_bytes = b.kind == count ? 8 : b.value_bytes;
  const size_t at_most = b.by_pointer ? n + 300 : n;
  const up_to_the_end keys(b.keys, b.key_bytes, at_most);
  const up_to_the_end values(b.values, b.value_bytes, b.values.empty() ? 0 : at_most);
  const up_to_the_end ops(b.ops.data(), b.ops.size(), b.kind == mixed ? at_most : b.ops.size());
  vector<unsigned char> out(n * out_bytes + 8, untouched);
  b.status.resize(n, untouched);
  vector<u8> before = b.status, status = b.status;
  status.resize(n + 64, untouched);
  vector<totals> batch_sum(total_stripes), sum = s.sum;
  const uint64_t there = n;

  request q{};
  q.kind = b.kind, q.combine = b.combine, q.value_type = b.type;
  q.is_set = s.value_bytes == 0;
  q.n = at_most;
  q.added = u64(s.used_by_batches());  // an erased slot was added, too
  if (b.by_pointer) q.n_there = &there;
  q.keys = keys.data();
  q.values = b.values.empty() ? nullptr : values.data();
  q.out_values = s.value_bytes || b.kind == count ? out.data() : nullptr;
  q.status = status.data();
  q.ops = ops.data();
  q.key_bytes = b.key_bytes, q.value_bytes = b.value_bytes;
  q.batch_sum = b.with_sum ? batch_sum.data() : nullptr;
  q.alone = s.reads_alone && (b.kind == find || b.kind == count) && n % 2;
  q.tile = b.tile, q.only_failed = b.only_failed;
  q.keys_stay = s.run->in_place && (b.kind == assign || b.kind == accumulate) && b.keys[0] / 8 % 2;
  if (b.by_parts) {
    q.out_values = nullptr;
    q.parts = b.parts != parts_never ? b.parts : b.keys[0] % 4 ? parts_always : parts_auto;
    if (!b.told) q.status = nullptr;
    const u64 bytes = s.run->parts->memory(s.layout, q);
    const bool large = n * parts_least_share >= s.cells;
    const bool asked =
        large && s.divides_skewed && (b.kind == assign || (b.kind == accumulate && b.type == 2 && b.combine == 0));
    if (!bytes && (q.parts == parts_always || asked)) wrong("a batch of %zu elements is not for parts", n);
    vector<u128> memory(bytes / 16 + 1, u128{0x1122334455667788, 0x99aabbccddeeff00});
    b.sampled.clear();
    if (bytes) {
      SAME(s.run->parts->run(s.layout, q, s.sum.data(), memory.data(), s.run->run), 0);
      const u32* const found = reinterpret_cast<const u32*>(reinterpret_cast<const char*>(memory.data()) + bytes - 256);
      b.sampled.assign(found, found + 6);
    } else
      SAME(s.run->run(s.layout, q, s.sum.data()), 0);
  } else {
    SAME(s.run->run(s.layout, q, s.sum.data()), 0);
  }

  b.status.assign(status.begin(), status.begin() + long(n));
  b.out.assign(n, 0);
  totals all{};
  vector<totals> expected(total_stripes);
  const bool in_order = !b.by_parts && s.in_order(b);
  for (size_t i = 0; i < n && q.status; ++i) {
    b.out[i] = q.out_values ? unpacked(out, out_bytes, i) : 0;
    if (b.only_failed && before[i] <= yes) {
      if (status[i] != before[i])
        wrong("element %zu had no work and its status went from %u to %u", i, before[i], status[i]);
      if (q.out_values && memcmp(&out[i * out_bytes], vector<u8>(8, untouched).data(), out_bytes))
        wrong("element %zu had no work and its value was written", i);
      continue;
    }
    const bool bad = b.kind == mixed && !has_op(s, b.ops[i]);
    if (bad ? status[i] != bad_op : status[i] > no_memory)
      wrong("element %zu (key %llx) has status %u", i, b.keys[i], status[i]);
    totals& stripe = expected[in_order ? i / s.per_block(b.kind) % total_stripes : 0];
    const bool failed = !bad && status[i] > yes;
    stripe.yes += status[i] == yes, stripe.failed += failed, stripe.bad_ops += bad;
    all.yes += status[i] == yes, all.failed += failed;
  }
  for (size_t i = n; i < status.size(); ++i)
    if (status[i] != untouched) wrong("status %zu of %zu was written", i, n);
  for (size_t i = n * out_bytes; i < out.size(); ++i)
    if (out[i] != untouched) wrong("value byte %zu of %zu was written", i, n * out_bytes);
  if (!in_order) {  // all that can be said of stripes is what they add up to
    for (vector<totals>* all_of : {&s.sum, &sum, &batch_sum})
      for (unsigned i = 1; i < total_stripes; ++i) {
        totals& from = (*all_of)[i];
        totals& to = (*all_of)[0];
        to.live += from.live, to.used += from.used, to.yes += from.yes;
        to.failed += from.failed, to.bad_ops += from.bad_ops;
        from = {};
      }
  }
  if (!q.status) {  // what the elements answered is only known in sum
    all.yes = batch_sum[0].yes, all.failed = batch_sum[0].failed;
    expected[0].yes = all.yes, expected[0].failed = all.failed;
  }
  for (unsigned i = 0; i < total_stripes; ++i) {
    const int64_t live = s.sum[i].live - sum[i].live, used = s.sum[i].used - sum[i].used;
    const int64_t failed = int64_t(s.sum[i].failed - sum[i].failed);
    SAME(s.sum[i].yes, sum[i].yes);
    SAME(failed, b.with_sum ? 0 : expected[i].failed);  // whoever has a batch_sum is told there
    SAME(s.sum[i].bad_ops - sum[i].bad_ops, b.with_sum ? 0 : expected[i].bad_ops);
    if (b.with_sum) {
      SAME(batch_sum[i].yes, expected[i].yes);
      SAME(batch_sum[i].failed, expected[i].failed);
      SAME(batch_sum[i].bad_ops, expected[i].bad_ops);
      SAME(batch_sum[i].live, live);
      SAME(batch_sum[i].used, used);
    }
    if (i * s.per_block(b.kind) >= n && (live || used)) wrong("stripe %u was written by a batch of %zu elements", i, n);
    all.live += live, all.used += used;
  }
  return all;
}

// All live pairs, from the cells by the engine.
inline std::multimap<u64, u64> contents(const store& s) {
  const u64 cells = s.cells;
  vector<unsigned char> keys((cells * 64 + u64(s.used())) * 8 + 8), values(keys.size());
  u64 n = 0;
  const u32 value_bytes = s.value_bytes ? s.value_bytes : 8;
  const cell_order backwards{cells, cells - 1, 1};
  // In two steps: where the first ends is not a multiple of anything.
  const u64 middle = !s.whole && cells / 3 + 1 < cells ? cells / 3 + 1 : cells;
  for (const auto& [lo, hi] : {std::pair<u64, u64>{0, middle}, {middle, cells}}) {
    if (s.whole && lo) continue;
    SAME(s.run->collect(s.layout, backwards, lo, hi,
                        {keys.data(), s.value_bytes ? values.data() : nullptr, s.key_bytes, value_bytes,
                         reinterpret_cast<uint64_t*>(&n)}),
         0);
  }
  std::multimap<u64, u64> found;
  for (size_t i = 0; i < n; ++i)
    found.emplace(unpacked(keys, s.key_bytes, i), s.value_bytes ? unpacked(values, value_bytes, i) : 0);
  s.beside(found);
  return found;
}

// ---- one key at a time -----------------------------------------------------------------------------------------------

// What a key's pair may be: absent, or with one of these values.
struct state {
  bool alive = false;
  u64 value = 0;
  auto operator<=>(const state&) const = default;
};

inline u64 join_bits(const batch& b, u64 a, u64 v) {
  const auto as = [&](auto zero) {
    using V = decltype(zero);
    V x, y;
    memcpy(&x, &a, sizeof(V)), memcpy(&y, &v, sizeof(V));
    V r;
    if constexpr (std::is_floating_point_v<V>) {
      const bool lost = b.combine != 0 && isnan(y);  // a NaN operand of min and max loses
      r = lost || (b.combine != 0 && isnan(x)) ? x
          : b.combine == 0                     ? x + y
          : b.combine == 1                     ? std::min(x, y)
                                               : std::max(x, y);
    } else {
      r = b.combine == 0   ? V(std::make_unsigned_t<V>(x) + std::make_unsigned_t<V>(y))
          : b.combine == 1 ? std::min(x, y)
                           : std::max(x, y);
    }
    u64 bits = 0;
    memcpy(&bits, &r, sizeof(V));
    return bits;
  };
  if (b.value_bytes == 4) return b.type == 0 ? as(uint32_t(0)) : b.type == 1 ? as(int32_t(0)) : as(0.0f);
  return b.type == 0 ? as(uint64_t(0)) : b.type == 1 ? as(int64_t(0)) : as(0.0);
}

inline bool is_nan(const batch& b, u64 v) {
  float f;
  double d;
  memcpy(&f, &v, 4), memcpy(&d, &v, 8);
  return b.type == 2 && b.combine != 0 && (b.value_bytes == 4 ? isnan(f) : isnan(d));
}

struct answer {
  u32 status;
  u64 value;
};
// What an operation answers in this state, and the state after it.
inline answer apply(const batch& b, u32 kind, u64 operand, state& s) {
  const bool was = s.alive;
  switch (kind) {
    case nop: return {no, 0};
    case find: return {was ? yes : no, was ? s.value : 0};
    case count: return {was ? yes : no, u64(was)};
    case pop: {
      const u64 v = was ? s.value : 0;
      s = {};
      return {was ? yes : no, v};
    }
    case erase:
    case erase_all: s = {}; return {was ? yes : no, 0};
    case insert:
      if (!was) s = {true, operand};
      return {was ? no : yes, 0};
    case find_or_insert:
      if (!was) s = {true, operand};
      return {was ? no : yes, s.value};
    case assign: s = {true, operand}; return {was ? no : yes, 0};
    case accumulate: s = {true, was ? join_bits(b, s.value, operand) : operand}; return {was ? no : yes, 0};
  }
  wrong("kind %u has no model", kind);
}

using model = std::map<u64, state>;

inline u64 operand(const batch& b, size_t e) { return b.values.empty() ? 0 : b.values[e]; }

// Is there an order of the elements of one key in which each answers what it did, and the key ends as it is?
inline bool explains(const batch& b, const store& s, vector<size_t> left, state from, const state& end) {
  if (left.empty()) return from == end;
  std::set<std::pair<u32, u64>> tried;
  for (size_t i = 0; i < left.size(); ++i) {
    const size_t e = left[i];
    state to = from;
    const u32 kind = b.kind == mixed ? b.ops[e] : b.kind;
    const answer a = apply(b, kind, operand(b, e), to);
    if (a.status != b.status[e] || (a.value != b.out[e] && (s.value_bytes || kind == count))) continue;
    const bool looks = kind != assign && kind != accumulate;
    if (to == from && looks && kind != nop && !tried.insert({kind, a.value}).second) continue;
    vector<size_t> rest = left;
    rest.erase(rest.begin() + long(i));
    if (explains(b, s, rest, to, end)) return true;
    // Unless it writes, it changed nothing, so that it might as well come first.
    if (to == from && looks) return false;
  }
  return false;
}

// The same for accumulate, whose order does not matter: one element says yes if the key was absent, the others no.
inline bool explains_sum(const batch& b, const store& s, const vector<size_t>& elements, state from, const state& end) {
  size_t fresh = 0;
  state to = from;
  for (const size_t e : elements) {
    fresh += b.status[e] == yes;
    if (b.status[e] > yes) return false;
  }
  // NaN operands last: those of a block are joined, and there they lose against the others.
  for (const bool nan_now : {false, true})
    for (const size_t e : elements) {
      const u64 v = operand(b, e);
      if (is_nan(b, v) == nan_now) to = {true, to.alive ? join_bits(b, to.value, v) : v};
    }
  if (fresh != size_t(!from.alive)) return false;
  // Where operands are not joined, the first one to come may be a NaN, which stays.
  bool some_nan = false;
  for (const size_t e : elements) some_nan |= is_nan(b, operand(b, e)) && operand(b, e) == end.value;
  const bool all_join = s.joins && s.in_order(b) && b.n() <= 256 && !b.by_parts;
  return to == end || (!all_join && some_nan && !from.alive && end.alive);
}

// Run a batch and check every answer of it against the model, which then holds what the table does.
inline totals check(store& s, model& m, batch& b) {
  const totals sum = serve(s, b);
  std::map<u64, vector<size_t>> by_key;
  std::set<u64> failed;
  for (size_t i = 0; i < b.n(); ++i)
    if (b.status[i] <= yes)
      by_key[b.keys[i]].push_back(i);
    else if (b.status[i] != bad_op)  // that one was left out
      failed.insert(b.keys[i]);
  std::map<u64, u64> now;
  for (const auto& [k, v] : contents(s))
    if (!now.emplace(k, v).second) wrong("key %llx has two pairs", k);
  if (b.kind == accumulate && !b.by_parts && s.in_order(b))
    for (size_t i = 0; i < b.n(); ++i)  // joined, so that a failure is everybody's
      for (size_t j = i + 1; j < b.n() && j < i / 256 * 256 + 256; ++j)
        if (b.keys[i] == b.keys[j] && (b.status[i] > yes) != (b.status[j] > yes))
          wrong("elements %zu and %zu of one block and key have status %u and %u", i, j, b.status[i], b.status[j]);
  int64_t live = 0;
  model after = m;
  for (const auto& [k, elements] : by_key) {
    const auto pair = now.find(k);
    const state end = pair == now.end() ? state{} : state{true, s.value_bytes ? pair->second : 0};
    const state from = m.count(k) ? m[k] : state{};
    // Who of joined elements says yes, if one of them is a NaN, is not told from the sum.
    const bool sums = b.kind == accumulate && (elements.size() > 3 || (b.type == 2 && b.combine != 0));
    const bool good = sums ? explains_sum(b, s, elements, from, end) : explains(b, s, elements, from, end);
    if (!good) {
      const size_t e = elements[0];
      wrong(
          "kind %u: no order explains the %zu elements of key %llx, the first at %zu: status %u, value %llx, operand "
          "%llx; "
          "before: %d %llx, after: %d %llx",
          b.kind, elements.size(), k, e, b.status[e], b.out[e], operand(b, e), from.alive, from.value, end.alive,
          end.value);
    }
    after[k] = end;
  }
  for (const auto& [k, was] : after) live += was.alive - (m.count(k) && m[k].alive);
  SAME(sum.live, live);
  m = after;
  for (const u64 k : failed)
    if (m.count(k) && m[k].alive && !by_key.count(k)) wrong("key %llx is there, and found no room", k);
  size_t expected = 0;
  for (const auto& [k, one] : m) {
    expected += one.alive;
    const auto pair = now.find(k);
    if (one.alive != (pair != now.end())) wrong("key %llx should be %s", k, one.alive ? "there" : "absent");
    if (one.alive && s.value_bytes && pair->second != one.value)
      wrong("key %llx has value %llx, expected %llx", k, pair->second, one.value);
  }
  SAME(now.size(), expected);
  SAME(s.live(), now.size());
  SAME(s.used_by_batches(), s.used());
  return sum;
}

}  // namespace warp_test
