// Which batches are divided (libgpuhash/drive/bulk/policy.hpp): a table of situations, each a line.
//
//     policy_test        prints the lines that did not hold
#include "libgpuhash/drive/bulk/policy.hpp"

#include <cstdio>

using namespace gpuhash;

namespace {

constexpr u64 million = u64(1) << 20;

// Of a structure that adds integers in place, and of one whose operations all wait.
constexpr bulk_policy in_place = {
    .adds_in_place = true,
    .divides_skewed = true,
    .declines_dead = false,
    .least = 16 * million,
    .least_share = 4,
    .least_into_empty = 8 * million,
    .least_sums = 12 * million,
    .least_sums_into_empty = 4 * million,
    .sums_if_repeating = false,
    .only_into_empty = 0,
    .only_into_empty_with_statuses = 1u << insert,
    .longest_chain = 0,
};
constexpr bulk_policy waiting = [] {
  bulk_policy p = in_place;
  p.adds_in_place = false, p.declines_dead = true;
  return p;
}();
constexpr bulk_policy repeating = [] {
  bulk_policy p = in_place;
  p.sums_if_repeating = true;
  return p;
}();
constexpr bulk_policy chains = [] {
  bulk_policy p = in_place;
  p.longest_chain = 100;
  return p;
}();
constexpr bulk_policy never_skewed = [] {
  bulk_policy p = waiting;
  p.divides_skewed = false;
  return p;
}();

// 64 million slots, with contents.
constexpr batch_facts of(u32 kind, u64 elements) {
  return {kind, false, false, false, elements, 64 * million, 32 * million, 0};
}
constexpr batch_facts with_statuses(batch_facts b) { return b.with_statuses = true, b; }
constexpr batch_facts floats(batch_facts b) { return b.adds_floats = true, b; }
constexpr batch_facts always_divided(batch_facts b) { return b.always = true, b; }
constexpr batch_facts added(batch_facts b, u64 n) { return b.added = n, b; }
constexpr batch_facts slots(batch_facts b, u64 n) { return b.slots = n, b; }
constexpr batch_facts chain(batch_facts b, u64 keys) { return b.chain = keys, b; }
constexpr batch_facts into_empty(batch_facts b) { return added(b, 0); }

struct row {
  const char* situation;
  bulk_policy policy;
  batch_facts batch;
  u32 when;
};
constexpr row rows[] = {
    // distinct keys: `least` elements, and one for every least_share slots
    {"an insert that is large enough", in_place, of(insert, 16 * million), if_distinct},
    {"one element less", in_place, of(insert, 16 * million - 1), 0},
    {"few elements for so many slots", in_place, slots(of(insert, 16 * million), 64 * million + 4), 0},
    {"with statuses it needs an empty table", in_place, with_statuses(of(insert, 16 * million)), 0},
    {"which it has", in_place, with_statuses(into_empty(of(insert, 16 * million))), if_distinct},
    {"an assignment may have statuses", in_place, with_statuses(of(assign, 16 * million)), if_distinct | if_skewed},
    // nearly empty
    {"fewer elements into an empty table", in_place, slots(into_empty(of(insert, 8 * million)), 16 * million),
     if_distinct},
    {"one for every other slot is needed then", in_place, slots(into_empty(of(insert, 8 * million)), 24 * million), 0},
    {"one element less", in_place, slots(into_empty(of(insert, 8 * million - 1)), 8 * million), 0},
    {"one slot in 32 is nearly empty", in_place, slots(added(of(insert, 8 * million), 512 * 1024), 16 * million),
     if_distinct},
    {"and one more is not", in_place, slots(added(of(insert, 8 * million), 512 * 1024 + 1), 16 * million), 0},
    // skewed keys: from 2^21 elements on, one for every 16 slots
    {"a small assignment, if it is skewed", in_place, slots(of(assign, 2 * million), 32 * million), if_skewed},
    {"too small", in_place, slots(of(assign, 2 * million - 1), 4 * million), 0},
    {"too many slots", in_place, slots(of(assign, 2 * million), 32 * million + 16), 0},
    {"inserts do not wait", in_place, slots(of(insert, 2 * million), 32 * million), 0},
    {"sums of integers do not wait, added in place", in_place, slots(of(accumulate, 2 * million), 32 * million), 0},
    {"sums of floats do", in_place, slots(floats(of(accumulate, 2 * million)), 32 * million), if_skewed},
    {"so do all sums elsewhere", waiting, slots(of(accumulate, 2 * million), 32 * million), if_skewed},
    {"a structure that gains nothing by it", never_skewed, slots(of(assign, 2 * million), 32 * million), 0},
    // sums
    {"a sum, whatever its keys", in_place, slots(of(accumulate, 12 * million), 24 * million), always},
    {"one element less", in_place, slots(of(accumulate, 12 * million - 1), 24 * million), 0},
    {"as large as distinct keys need", in_place, of(accumulate, 16 * million), always | if_distinct},
    {"fewer into an empty table", in_place, slots(into_empty(of(accumulate, 4 * million)), 8 * million), always},
    {"but not with statuses", in_place, slots(into_empty(with_statuses(of(accumulate, 4 * million))), 8 * million), 0},
    {"which need more", in_place, slots(into_empty(with_statuses(of(accumulate, 8 * million))), 16 * million),
     always | if_distinct},
    {"only where keys repeat", repeating, with_statuses(of(accumulate, 16 * million)), if_repeating},
    {"without statuses whatever its keys", repeating, of(accumulate, 16 * million), always | if_distinct},
    {"and into an empty table", repeating, into_empty(with_statuses(of(accumulate, 16 * million))),
     always | if_distinct},
    // no more than that
    {"an erase is not", in_place, of(erase, 64 * million), 0},
    {"an erase that is asked for is", in_place, always_divided(of(erase, 1)), always},
    {"a small insert that is asked for", in_place, always_divided(of(insert, 1)), always},
    {"chains that are short enough", chains, chain(of(accumulate, 16 * million), 100), always | if_distinct},
    {"chains that are too long", chains, chain(of(accumulate, 16 * million), 101), 0},
    {"chains do not count if it is asked for", chains, always_divided(chain(of(insert, 1), 101)), always},
    {"no chains", in_place, chain(of(accumulate, 16 * million), 101), always | if_distinct},
};

struct dead_row {
  const char* situation;
  bulk_policy policy;
  batch_facts batch;
  bool unless_dead;
};
constexpr dead_row dead_rows[] = {
    {"dead slots are looked for", waiting, of(insert, 16 * million), true},
    {"not if it is asked for", waiting, always_divided(of(insert, 16 * million)), false},
    {"not by every structure", in_place, of(insert, 16 * million), false},
};

struct sample_row {
  const char* situation;
  u32 when;
  sample_facts sample;
  bool divided;
};
constexpr sample_row sample_rows[] = {
    {"always", always, {false, false, few_repeats}, true},
    {"never", 0, {true, true, 0}, false},
    {"skewed", if_skewed, {true, false, few_repeats}, true},
    {"not skewed", if_skewed, {false, true, 0}, false},
    {"distinct", if_distinct, {true, false, few_repeats - 1}, true},
    {"some repeat", if_distinct, {true, false, few_repeats}, false},
    {"nearly all repeat", if_distinct, {true, true, few_repeats}, true},
    {"repeating", if_repeating, {false, false, few_repeats}, true},
    {"not repeating", if_repeating, {true, true, few_repeats - 1}, false},
    {"either", if_skewed | if_repeating, {true, false, 0}, true},
};

}  // namespace

int main() {
  int wrong = 0;
  const auto expect = [&](const char* situation, u32 is, u32 expected) {
    if (is == expected) return;
    ++wrong;
    std::printf("%s: %u, expected %u\n", situation, is, expected);
  };
  for (const row& r : rows) expect(r.situation, choose(r.policy, r.batch).when, r.when);
  for (const dead_row& r : dead_rows) expect(r.situation, choose(r.policy, r.batch).unless_dead, r.unless_dead);
  for (const sample_row& r : sample_rows) expect(r.situation, sample_wants(r.when, r.sample), r.divided);
  return wrong != 0;
}
