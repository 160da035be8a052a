// Verbs on columns of a CUDA device, on emulated warps: gpuhash_group, gpuhash_isin and gpuhash_join with their
// kernels, compared with a map. Sizes are small (test_columns.py), so that columns of a few thousand rows take both
// passes, sample, and fill tables.
#include <cuda_runtime.h>
#include <math.h>
#include <stddef.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "gpuhash/columns.h"
#include "libgpuhash/columns/cuda/isin.hpp"
#include "libgpuhash/columns/cuda/join.hpp"
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/src/device.hpp"
#include "tests/warp/checks.hpp"
#include "tests/warp/column_requests.hpp"
#include "tests/warp/columns.hpp"
#include "tests/warp/emulator.hpp"

using emulated::section;
using gpuhash::u32;
using gpuhash::u64;
using gpuhash::u8;
using std::string;
using std::vector;

namespace gpuhash {
// The one device that is there.
gpuhash_status resolve_device(gpuhash_device&, gpuhash_error*) { return GPUHASH_OK; }
}  // namespace gpuhash

namespace {

using namespace warp_test;

struct asked {
  bool first = false, counts = false, codes = false;
  u32 value_bytes = 0, value_type = 0;
  bool sums = false, means = false, low = false, high = false;
};

double as_real(u64 bits, u32 bytes, u32 type) {
  if (type == GPUHASH_FLOAT) return bytes == 4 ? double(std::bit_cast<float>(u32(bits))) : std::bit_cast<double>(bits);
  if (type == GPUHASH_UINT) return double(bits);
  return bytes == 4 ? double(int(u32(bits))) : double((long long)bits);
}

struct group_of_keys {
  size_t first = 0, many = 0;
  u64 whole = 0;
  double real = 0, size = 0, low = NAN, high = NAN;  // size: of the sum of absolute values
};

struct grouping {
  const vector<u64>& keys;
  const vector<u64>& values;
  const u32 key_bytes;
  const asked wants;

  std::map<u64, group_of_keys> wanted() const {
    std::map<u64, group_of_keys> groups;
    for (size_t i = 0; i < keys.size(); ++i) {
      group_of_keys& g = groups.try_emplace(keys[i], group_of_keys{i}).first->second;
      ++g.many;
      if (!wants.value_bytes) continue;
      const double v = as_real(values[i], wants.value_bytes, wants.value_type);
      const bool narrow = wants.value_bytes == 4 && wants.value_type == GPUHASH_INT;
      g.whole += narrow ? u64((long long)int(u32(values[i]))) : values[i];
      g.real += v, g.size += fabs(v);
      g.low = fmin(g.low, v), g.high = fmax(g.high, v);
    }
    return groups;
  }

  void run(u64 seed) {
    const size_t n = keys.size(), value_bytes = wants.value_bytes;
    const size_t lead = seed % 4 * key_bytes;  // columns begin anywhere, not only where 16 bytes are read at once
    memory given(lead + n * key_bytes), amounts(n * value_bytes), distinct(n * key_bytes), counts(n * 8), codes(n * 8);
    memory sums(n * 8), means(n * 8), low(n * value_bytes), high(n * value_bytes), first_rows(n * 8), number(8);
    memcpy(given.data() + lead, packed(keys, key_bytes).data(), n * key_bytes);
    if (value_bytes) memcpy(amounts.data(), packed(values, u32(value_bytes)).data(), n * value_bytes);
    gpuhash_group_request q = GPUHASH_GROUP_REQUEST_INIT;
    q.n = n, q.keys = given.data() + lead, q.key_bytes = key_bytes, q.seed = seed;
    q.order = wants.first ? GPUHASH_ORDER_FIRST : GPUHASH_ORDER_ANY;
    q.out_keys = distinct.data();
    if (wants.counts) q.out_counts = reinterpret_cast<int64_t*>(counts.data());
    if (wants.codes) q.out_codes = reinterpret_cast<int64_t*>(codes.data());
    q.groups = reinterpret_cast<uint64_t*>(number.data());
    q.value_bytes = wants.value_bytes, q.value_type = wants.value_type;
    if (value_bytes) q.values = amounts.data();
    if (wants.sums) q.out_sums = sums.data();
    if (wants.means) q.out_means = reinterpret_cast<double*>(means.data());
    if (wants.low) q.out_low = low.data();
    if (wants.high) q.out_high = high.data();
    if (wants.first && seed % 3) q.out_first = reinterpret_cast<int64_t*>(first_rows.data());
    q.device.kind = GPUHASH_CUDA;
    gpuhash_error err = GPUHASH_ERROR_INIT;
    HOLDS(gpuhash_group_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK);
    memory scratch(q.scratch_bytes);
    q.scratch = scratch.data();
    uint64_t there = ~u64(0);
    if (seed % 2) q.host_groups = &there;
    struct {
      u32 calls = 0;
      uint64_t *groups, *there;
    } waiting{0, q.groups, &there};
    if (seed % 4 == 1) {
      q.context = &waiting;
      q.meanwhile = [](void* context) {
        auto& w = *static_cast<decltype(waiting)*>(context);
        ++w.calls;
        HOLDS(*w.there == ~u64(0));  // the call has not waited yet
      };
    }
    if (gpuhash_group(&q, &err)) wrong("%s", err.message);
    if (q.host_groups) HOLDS(there == *q.groups);
    HOLDS(waiting.calls == (q.meanwhile ? 1 : 0));
    check(q);
  }

  void check(const gpuhash_group_request& q) const {
    auto groups = wanted();
    HOLDS(*q.groups == groups.size());
    vector<u64> distinct;
    size_t row = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      distinct.push_back(unpacked(q.out_keys, key_bytes, g));
      const auto found = groups.find(distinct[g]);
      if (found == groups.end()) wrong("group %zu has key %llx, which no row has, or another group", g, distinct[g]);
      const group_of_keys& of = found->second;
      if (wants.first) HOLDS(g == 0 || of.first > row);
      row = of.first;
      if (q.out_first) HOLDS(u64(q.out_first[g]) == row);
      if (wants.counts) HOLDS(u64(q.out_counts[g]) == of.many);
      check_values(q, g, of);
      if (!wants.codes) groups.erase(found);
    }
    for (size_t i = 0; wants.codes && i < keys.size(); ++i) {
      HOLDS(u64(q.out_codes[i]) < distinct.size());
      HOLDS(distinct[size_t(q.out_codes[i])] == keys[i]);
    }
  }

  void check_values(const gpuhash_group_request& q, size_t g, const group_of_keys& of) const {
    const auto near = [&](double is, double wanted) {
      return isnan(wanted) || isinf(wanted) ? is == wanted || isnan(is) == isnan(wanted)
                                            : fabs(is - wanted) <= 1e-12 * (1 + of.size);
    };
    if (wants.sums && wants.value_type == GPUHASH_FLOAT) HOLDS(near(static_cast<double*>(q.out_sums)[g], of.real));
    if (wants.sums && wants.value_type != GPUHASH_FLOAT) HOLDS(static_cast<u64*>(q.out_sums)[g] == of.whole);
    if (wants.means) HOLDS(near(q.out_means[g] * double(of.many), of.real));
    const auto same = [&](const void* from, double wanted) {
      const double is = as_real(unpacked(from, wants.value_bytes, g), wants.value_bytes, wants.value_type);
      return is == wanted || (isnan(is) && isnan(wanted));
    };
    if (wants.low) HOLDS(same(q.out_low, of.low));
    if (wants.high) HOLDS(same(q.out_high, of.high));
  }
};

vector<u64> values_for(size_t n, u32 bytes, u32 type, random_numbers& r) {
  vector<u64> values;
  for (size_t i = 0; i < n; ++i) {
    const u64 any = r.next(), kind = r.below(40);
    if (type != GPUHASH_FLOAT) {
      values.push_back(bytes == 4 ? u32(any) : any);
      continue;
    }
    const double d = kind == 0   ? NAN
                     : kind == 1 ? -INFINITY
                     : kind == 2 ? 0.0
                     : kind == 3 ? -0.0
                                 : (double(any >> 11) / double(u64(1) << 53) - 0.5) * double(1 << kind / 2);
    values.push_back(bytes == 4 ? std::bit_cast<u32>(float(d)) : std::bit_cast<u64>(d));
  }
  return values;
}

u64 runs = 0;

void group_columns(size_t n, u64 seed, random_numbers& r) {
  const vector<u64> none;
  for (const u32 key_bytes : {4u, 8u})
    for (const column& c : columns(n, key_bytes, seed, r)) {
      asked wants;
      wants.first = r.below(2), wants.counts = r.below(2), wants.codes = r.below(2);
      where = c.name + " of " + std::to_string(n) + " keys of " + std::to_string(key_bytes) + " bytes, first " +
              std::to_string(wants.first) + ", counts " + std::to_string(wants.counts) + ", codes " +
              std::to_string(wants.codes);
      if (section()) grouping{c.keys, none, key_bytes, wants}.run(seed);
      asked alone;  // codes are given while keys are met
      alone.codes = true;
      where = c.name + " of " + std::to_string(n) + " keys of " + std::to_string(key_bytes) + " bytes, codes alone";
      if (section()) grouping{c.keys, none, key_bytes, alone}.run(seed);
      runs += 2;
    }
}

void reduce_columns(size_t n, u64 seed, random_numbers& r) {
  for (const u32 key_bytes : {4u, 8u})
    for (const column& c : columns(n, key_bytes, seed, r)) {
      asked wants;
      wants.first = r.below(2), wants.counts = r.below(2);
      wants.value_bytes = r.below(2) ? 8 : 4, wants.value_type = u32(r.below(3));
      wants.sums = r.below(2), wants.means = r.below(2), wants.low = r.below(2), wants.high = r.below(2);
      where = c.name + " of " + std::to_string(n) + " keys of " + std::to_string(key_bytes) + " bytes, values of " +
              std::to_string(wants.value_bytes) + " bytes of type " + std::to_string(wants.value_type) + ", first " +
              std::to_string(wants.first) + ", counts " + std::to_string(wants.counts) + ", sums " +
              std::to_string(wants.sums) + ", means " + std::to_string(wants.means) + ", low " +
              std::to_string(wants.low) + ", high " + std::to_string(wants.high);
      const vector<u64> values = values_for(n, wants.value_bytes, wants.value_type, r);
      if (section()) grouping{c.keys, values, key_bytes, wants}.run(seed);
      ++runs;
    }
}

// off: bytes by which an array whose first element was cut away is further on.
void look_up(const vector<u64>& keys, vector<u64> among, u32 key_bytes, size_t off, u64 seed) {
  const size_t n = keys.size(), others = among.size();
  memory given(n * key_bytes, off), there(others * key_bytes, off), out(n, off / 2);
  memcpy(given.data(), packed(keys, key_bytes).data(), n * key_bytes);
  memcpy(there.data(), packed(among, key_bytes).data(), others * key_bytes);
  gpuhash_isin_request q = GPUHASH_ISIN_REQUEST_INIT;
  q.n = n, q.keys = given.data(), q.n_among = others, q.among = there.data(), q.key_bytes = key_bytes;
  q.seed = seed, q.out = reinterpret_cast<u8*>(out.data()), q.device.kind = GPUHASH_CUDA;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  HOLDS(gpuhash_isin_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK);
  memory scratch(q.scratch_bytes);
  q.scratch = scratch.data();
  if (gpuhash_isin(&q, &err)) wrong("%s", err.message);
  std::sort(among.begin(), among.end());
  for (size_t i = 0; i < n; ++i) HOLDS(q.out[i] == std::binary_search(among.begin(), among.end(), keys[i]));
  ++runs;
}
void look_up_some(size_t n, size_t others, u64 seed, random_numbers& r) {
  for (const u32 key_bytes : {4u, 8u})
    for (const size_t off : {size_t(0), size_t(key_bytes)}) {
      where = std::to_string(n) + " keys of " + std::to_string(key_bytes) + " bytes among " + std::to_string(others) +
              ", from byte " + std::to_string(off);
      vector<u64> keys(n), among(others);
      for (u64& k : keys) k = r.below(2 * others + 1) * 0x10001;
      for (u64& k : among) k = r.below(2 * others + 1) * 0x10001;
      const u64 side = key_of(key_bytes == 4 ? 0xffffffffu : ~u64(0), seed, key_bytes);
      if (n > 2) keys[2] = side;
      if (others > 2 && r.below(2)) among[1] = side;
      if (section()) look_up(keys, among, key_bytes, off, seed);
    }
}
// Columns of every shape among others of every shape; one of both is shifted, so that some keys are not among the others.
void look_up_columns(size_t n, size_t others, u64 seed, random_numbers& r) {
  for (const u32 key_bytes : {4u, 8u}) {
    const u64 most = key_bytes == 4 ? 0xffffffffu : ~u64(0);
    vector<column> keys = columns(n, key_bytes, seed, r);
    const vector<column> there = columns(others, key_bytes, seed, r);
    for (column& c : keys)
      for (const size_t o : {size_t(&c - keys.data()), size_t(r.below(there.size()))}) {
        where = c.name + " of " + std::to_string(n) + " keys of " + std::to_string(key_bytes) + " bytes among " +
                std::to_string(others) + ", " + there[o].name;
        for (size_t i = 0; i < n; ++i)
          if (r.below(8) == 0) c.keys[i] = i % 2 ? r.next() & most : there[o].keys[r.below(others)];
        if (section()) look_up(c.keys, there[o].keys, key_bytes, 0, seed);
      }
  }
}

// Others of which so many keys are in one bin, in so many rows, by turns or at random: a table that they just fill, or parts.
void look_up_in_one_bin(u64 seed, random_numbers& r) {
  const size_t others = 1500;
  for (const u32 key_bytes : {4u, 8u})
    for (const auto& [many, rows] : {std::pair<size_t, size_t>(150, 500),
                                     {300, 1500},
                                     {440, 440},
                                     {448, 448},
                                     {449, 449},
                                     {512, 512},
                                     {512, 900},
                                     {513, 513}})
      for (const bool by_turns : {true, false}) {
        where = std::to_string(rows) + " of the others in one bin, of " + std::to_string(many) + " keys of " +
                std::to_string(key_bytes) + " bytes, " + (by_turns ? "by turns" : "at random");
        const u64 half = u64(1) << (8 * key_bytes - 1);
        vector<u64> among, keys;
        for (size_t i = 0; i < others; ++i)
          among.push_back(key_of(i >= rows ? half + i : by_turns ? i % many : r.below(many), seed, key_bytes));
        for (size_t i = 0; i < 300; ++i) keys.push_back(key_of(r.below(2 * many), seed, key_bytes));
        if (section()) look_up(keys, among, key_bytes, 0, seed);
      }
}

// Two columns have bins of their own: as many counters, and room for the runs of their tiles.
void plans_of_two_columns() {
  where = "plans of two columns";
  using namespace gpuhash::columns;
  HOLDS(is_divided(most_rows - 5000, 5000, 4) && !is_divided(most_rows - 4999, 5000, 4));
  for (u64 others = 1; others <= 1 << 20; others *= 2)
    for (const u64 n : {u64(1), u64(1) << 20}) {
      const group_plan one = plan_groups(others, 4, {}), p = plan_members(n, others, 4);
      HOLDS(one.bins() == 1u << one.bits && one.counted_at_once == (one.bins() <= 1u << bits_counted_at_once));
      HOLDS(p.bins() == 2u << p.bits && p.counted_at_once == (p.bins() <= 1u << bits_counted_at_once));
      for (const group_plan& each : {one, p})
        HOLDS(each.by_halves == (each.counted_at_once && each.bins() > 1u << bits_counted_by_words));
      const u64 tiles = (n + p.tile - 1) / p.tile + (others + p.tile - 1) / p.tile;
      const u64 later = (n + others) / p.tile + p.coarse_bins(), second = u64(1) << p.second_bits;
      HOLDS(p.bin_start - p.coarse_end >= 4 * p.coarse_bins() && p.prefix - p.bin_end >= 4 * p.bins());
      HOLDS(p.tiles >= tiles && p.bin_place - p.coarse_run >= 8 * tiles * ((u64(1) << p.first_bits) + 1));
      if (p.second_bits) HOLDS(p.bytes - p.bin_run >= 8 * later * (second + 1));
    }
  // Bins of a join have as many right rows as tables are made for, and not very many left ones.
  for (const auto [left, right, rows] :
       {std::array<u64, 3>{1 << 20, 1 << 20, 1 << 20}, {1 << 24, 9, 1 << 22}, {9, 1 << 20, 1 << 20}})
    HOLDS(plan_join(left, right, 4, true).groups.bits == bits_for(rows, false));
}

// Two columns: the first rows of each key, and pairs where right rows do not repeat; or lists of right rows, and all pairs.
struct joining {
  const vector<u64>&left, &right;
  const u32 key_bytes;
  const bool keep;

  // Right rows of the bin that has most of them: more than most_listed are not listed.
  size_t most_in_a_bin(u64 seed) const {
    const u32 bits = gpuhash::columns::plan_join(left.size(), right.size(), key_bytes, true).groups.bits;
    std::map<u64, size_t> rows;
    size_t most = 0;
    for (const u64 k : right) {
      const u64 h = key_bytes == 4 ? u64(gpuhash::mix(u32(k ^ seed))) << 32 : gpuhash::mix(k ^ seed);
      most = std::max(most, ++rows[bits ? h >> (64 - bits) : 0]);
    }
    return most;
  }

  void list(u64 seed) const {
    std::map<u64, vector<int64_t>> rows;
    vector<std::pair<int64_t, int64_t>> pairs;
    for (size_t i = 0; i < right.size(); ++i) rows[right[i]].push_back(int64_t(i));
    size_t most = 0;
    for (const auto& [key, those] : rows) most = std::max(most, those.size());
    for (size_t i = 0; i < left.size(); ++i) {
      const auto met = rows.find(left[i]);
      if (met == rows.end() && keep) pairs.emplace_back(i, -1);
      if (met != rows.end())
        for (const int64_t row : met->second) pairs.emplace_back(i, row);
    }
    const auto side = rows.find(key_of(key_bytes == 4 ? 0xffffffffu : ~u64(0), seed, key_bytes));
    const bool two_of_side = side != rows.end() && side->second.size() > 1;
    const size_t n = left.size(), m = right.size(), room = pairs.size() + n;
    memory one(n * key_bytes), other(m * key_bytes), of_left(room * 8), of_right(room * 8), facts(16);
    memcpy(one.data(), packed(left, key_bytes).data(), n * key_bytes);
    memcpy(other.data(), packed(right, key_bytes).data(), m * key_bytes);
    gpuhash_join_request q = GPUHASH_JOIN_REQUEST_INIT;
    q.n_left = n, q.left = one.data(), q.n_right = m, q.right = other.data();
    q.key_bytes = key_bytes, q.keep = keep, q.seed = seed, q.device.kind = GPUHASH_CUDA;
    q.out_left = reinterpret_cast<int64_t*>(of_left.data());
    q.out_right = reinterpret_cast<int64_t*>(of_right.data());
    q.out_facts = reinterpret_cast<uint64_t*>(facts.data());
    gpuhash_error err = GPUHASH_ERROR_INIT;
    HOLDS(gpuhash_join_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK);
    memory scratch(q.scratch_bytes);
    q.scratch = scratch.data();
    if (gpuhash_join(&q, &err)) wrong("%s", err.message);
    const u64 state = n ? q.out_facts[1] : GPUHASH_JOIN_WRITTEN;
    if (most > gpuhash::columns::most_listed || (n && two_of_side)) HOLDS(state == GPUHASH_JOIN_TOO_OFTEN);
    if (state == GPUHASH_JOIN_TOO_OFTEN)
      return HOLDS(most_in_a_bin(seed) > gpuhash::columns::most_listed || two_of_side);
    HOLDS(state == (n && most > 1 ? GPUHASH_JOIN_LISTED : GPUHASH_JOIN_WRITTEN));
    HOLDS(q.out_facts[0] == pairs.size());
    if (state == GPUHASH_JOIN_LISTED)
      for (size_t i = 0; i < room; ++i) HOLDS(u64(q.out_left[i]) == 0xabababababababab);
    gpuhash_join_request written = q;
    if (pairs.empty()) written.out_left = written.out_right = nullptr;
    if (state == GPUHASH_JOIN_LISTED && gpuhash_join_pairs(&written, q.out_facts[0], &err)) wrong("%s", err.message);
    for (size_t i = 0; i < pairs.size(); ++i)
      HOLDS(q.out_left[i] == pairs[i].first && q.out_right[i] == pairs[i].second);
    HOLDS(u64(q.out_left[pairs.size()]) == 0xabababababababab || n == 0);
  }

  void run(u64 seed) const {
    const size_t n = left.size(), m = right.size();
    memory one(n * key_bytes), other(m * key_bytes), first((n + m) * 4), of_left(n * 8), of_right(n * 8), facts(16);
    memcpy(one.data(), packed(left, key_bytes).data(), n * key_bytes);
    memcpy(other.data(), packed(right, key_bytes).data(), m * key_bytes);
    gpuhash_join_request q = GPUHASH_JOIN_REQUEST_INIT;
    q.n_left = n, q.left = one.data(), q.n_right = m, q.right = other.data();
    q.key_bytes = key_bytes, q.keep = keep, q.seed = seed;
    q.out_first = reinterpret_cast<int32_t*>(first.data());
    q.out_left = reinterpret_cast<int64_t*>(of_left.data());
    q.out_right = reinterpret_cast<int64_t*>(of_right.data());
    q.out_facts = reinterpret_cast<uint64_t*>(facts.data());
    q.device.kind = GPUHASH_CUDA;
    gpuhash_error err = GPUHASH_ERROR_INIT;
    HOLDS(gpuhash_join_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK);
    memory scratch(q.scratch_bytes);
    q.scratch = scratch.data();
    uint64_t there[2] = {~u64(0), ~u64(0)};
    if (seed % 2) q.host_facts = there;
    if (gpuhash_join(&q, &err)) wrong("%s", err.message);
    if (q.host_facts) HOLDS(there[0] == q.out_facts[0] && there[1] == q.out_facts[1]);
    check(q);
  }

  void check(const gpuhash_join_request& q) const {
    std::map<u64, size_t> rows;
    vector<std::pair<int64_t, int64_t>> pairs;
    const size_t m = right.size();
    for (size_t i = 0; i < m; ++i) HOLDS(size_t(q.out_first[i]) == rows.try_emplace(right[i], i).first->second);
    const size_t repeats = m - rows.size();
    for (size_t i = 0; i < left.size(); ++i) {
      const size_t first = rows.try_emplace(left[i], m + i).first->second;
      HOLDS(size_t(q.out_first[m + i]) == first);
      if (first < m || keep) pairs.emplace_back(i, first < m ? int64_t(first) : -1);
    }
    HOLDS(q.out_facts[0] == pairs.size());
    HOLDS(q.out_facts[1] == repeats);
    for (size_t i = 0; repeats == 0 && i < pairs.size(); ++i)
      HOLDS(q.out_left[i] == pairs[i].first && q.out_right[i] == pairs[i].second);
    for (size_t i = 0; repeats != 0 && i < left.size(); ++i) HOLDS(u64(q.out_left[i]) == 0xabababababababab);
  }
};

void join_columns(size_t n, size_t m, u64 seed, random_numbers& r) {
  for (const u32 key_bytes : {4u, 8u})
    for (const column& c : columns(n + m, key_bytes, seed, r)) {
      const bool keep = r.below(2), repeat = r.below(2);
      where = c.name + " of keys of " + std::to_string(key_bytes) + " bytes, " + std::to_string(n) + " left and " +
              std::to_string(m) + " right rows" + (repeat ? ", some of which may repeat" : "") + ", keep " +
              std::to_string(keep);
      const vector<u64> left(c.keys.begin() + ptrdiff_t(m), c.keys.end());
      vector<u64> right(c.keys.begin(), c.keys.begin() + ptrdiff_t(m));
      for (size_t i = 0; i < right.size() && i < left.size(); i += 2) right[i] = left[left.size() - 1 - i];
      if (!repeat) {
        std::sort(right.begin(), right.end());
        right.erase(std::unique(right.begin(), right.end()), right.end());
        for (size_t i = right.size(); i > 1; --i) std::swap(right[i - 1], right[r.below(i)]);
      }
      if (section()) joining{left, right, key_bytes, keep}.run(seed);
      if (section()) joining{left, right, key_bytes, keep}.list(seed);
      ++runs;
    }
}

// So many right keys in one bin, as many as its table takes or more, and behind them so many rows that repeat some of these.
void join_in_one_bin(u64 seed, random_numbers& r) {
  for (const u32 key_bytes : {4u, 8u})
    for (const auto& [many, repeats] :
         {std::pair<size_t, size_t>(384, 0), {385, 1}, {448, 2}, {500, 0}, {500, 400}, {900, 100}}) {
      where = std::to_string(many) + " right keys in one bin, of " + std::to_string(key_bytes) + " bytes, and " +
              std::to_string(repeats) + " that repeat one";
      vector<u64> left, right;
      for (size_t i = 0; i < many; ++i) right.push_back(key_of(i, seed, key_bytes));
      for (size_t i = 0; i < repeats; ++i) right.push_back(key_of(repeats < 3 ? many - 1 : i % 60, seed, key_bytes));
      for (size_t i = 0; i < 700; ++i) left.push_back(key_of(r.below(2 * many), seed, key_bytes));
      if (section()) joining{left, right, key_bytes, r.below(2) != 0}.list(seed);
      ++runs;
    }
}

// Right rows that repeat, of which no left row meets one.
void join_without_a_pair(u64 seed) {
  where = "a join without a pair";
  const vector<u64> left{1, 2, 3}, right{7, 8, 7, 9, 7};
  if (section()) joining{left, right, 4, false}.list(seed);
  ++runs;
}

// More tiles of left rows than a block has threads.
void join_a_long_column(u64 seed, random_numbers& r) {
  where = "a long left column";
  vector<u64> left(33'500), right(40);
  for (u64& k : left) k = r.below(600);
  for (u64& k : right) k = r.below(900);
  if (section()) joining{left, right, 8, false}.list(seed);
  ++runs;
}

}  // namespace

int main(int count, char** given) {
  const u64 rounds = count > 1 ? strtoull(given[1], nullptr, 0) : 1;
  u64 seed = count > 2 ? strtoull(given[2], nullptr, 0) : 1;
  older_caller();
  first_rows_in_any_order();
  on_the_host_from_a_capture();
  on_the_host();
  driver_calls_that_fail();
  plans_of_two_columns();
  for (u64 round = 0; round < rounds; ++round, ++seed) {
    random_numbers r{seed};
    emulated::machine::the().seed = seed;
    for (const size_t n : {size_t(1), size_t(2), size_t(131), size_t(256 + r.below(500)), size_t(1500 + r.below(500)),
                           size_t(5000 + r.below(3000))}) {
      group_columns(n, r.next(), r);
      reduce_columns(n, r.next(), r);
    }
    for (const auto [n, m] : {std::pair<size_t, size_t>(0, 0),
                              {0, 3},
                              {3, 0},
                              {1, 1},
                              {40, 700},
                              {700, 40},
                              {900, 1500},
                              {5000, 300},
                              {4000 + r.below(500), 2000 + r.below(500)}})
      join_columns(n, m, r.next(), r);
    join_a_long_column(r.next(), r);
    join_without_a_pair(r.next());
    join_in_one_bin(r.next(), r);
    for (const size_t others : {0, 1, 30, 256, 257, 900})
      for (const size_t n : {0, 1, 7, 1000}) look_up_some(n, others, r.next(), r);
    for (const auto [n, others] : {std::pair<size_t, size_t>(1, 1100),
                                   {700, 1500},
                                   {3000, 1300 + r.below(500)},
                                   {500, 3000 + r.below(3000)},
                                   {5000 + r.below(2000), 5000}})
      look_up_columns(n, others, r.next(), r);
    look_up_in_one_bin(r.next(), r);
  }
  emulated::sections::the().end();
  printf("%llu runs, %llu steps, nothing wrong\n", runs, (unsigned long long)emulated::machine::the().steps);
}
