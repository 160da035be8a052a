// The CUDA kernels of stadium on emulated warps: stadium [ROUNDS [FIRST SEED]]
#include <cuda_runtime.h>

#include "plugins/stadium/engines.hpp"
#include "plugins/stadium/layout.hpp"
#include "plugins/stadium/primes.hpp"
#include "tests/warp/rounds.hpp"

extern "C" const gpuhash::engine* gpuhash_stadium_engines_cuda();

namespace warp_test {
namespace {

struct stadium_store final : store {
  stadium_table t{};
  std::unique_ptr<up_to_the_end> tickets;
  vector<u128> memory;
  vector<u32> locks;

  stadium_store(u32 key, u32 value, u32 number, u32 log_bits, u64 keys, u32 log_line = 0) {
    const slot_shape shape = shape_of(key, value);
    t.log_bits = log_bits, t.log_tickets = 6 - log_bits, t.log_line = log_line;
    t.groups = prime_from((keys >> t.log_tickets >> log_line) + 1) << log_line, t.path_limit = t.groups;
    t.ones = ~u64(0) / ((u64(1) << (1u << log_bits)) - 1);
    t.seed = 12345, t.key_bytes = key, t.value_bytes = value, t.value_at = shape.value_at, t.stride = shape.stride;
    tickets = std::make_unique<up_to_the_end>(vector<u64>(t.groups), 8, t.groups);
    memory.resize(t.cells() * t.stride / 16 + 1);
    memset(memory.data(), 0x5a, memory.size() * 16);  // what nobody has written yet
    t.tickets = reinterpret_cast<u64*>(tickets->data());
    t.place_slots(memory.data());
    run = gpuhash_stadium_engines_cuda() + number, layout = &t, cells = t.cells();
    key_bytes = key, value_bytes = value;
    joins = false;
  }
  // Slots behind a bus: served in order of the batch, or in order of windows from so many elements on.
  void place_behind_bus(u64 ordered_from, u32 window_shift = 8) {
    const slot_shape shape = row_shape_of(t.key_bytes, t.value_bytes);
    t.value_at = shape.value_at, t.stride = shape.stride;
    far_elements = false;
    t.by_rows = true, t.log_lanes = log_lanes_of(t.stride);
    t.window_shift = window_shift, t.ordered_from = ordered_from;
    locks.resize(4);
    t.locks = locks.data(), t.lock_mask = 3;
    memory.assign(t.cells() * t.stride / 16 + 1, u128{0x5a5a5a5a5a5a5a5a, 0x5a5a5a5a5a5a5a5a});
    t.place_slots(memory.data());
  }
  bool in_order(const batch& b) const override {
    const bool by_stack =
        run != gpuhash_stadium_engines_cuda() + stadium_rows && b.kind == insert && b.tile == stack_of_warp;
    return !by_stack && !(t.by_rows && t.ordered_from);
  }
  unsigned per_block(u32 kind) const override {
    if (t.by_rows) return 64;
    return t.has_lines_of(4) && (kind == find || kind == count) ? 1024 : 256;
  }
  int64_t used() const override {
    int64_t n = 0;
    for (u64 group = 0; group < t.groups; ++group)
      for (u32 i = 0; i < 1u << t.log_tickets; ++i) n += t.state_at(t.tickets[group], i) != never;
    return n;
  }
};

void add(vector<shape>& to, const char* name, u32 key, u32 value, u32 number) {
  for (const u32 log_bits : {3u, 2u, 1u})
    to.push_back({std::string(name) + " tickets of " + std::to_string(1u << log_bits),
                  key,
                  value,
                  {insert, assign, accumulate, find, erase, count, mixed, pop, find_or_insert},
                  full,
                  [=](u64 keys) { return std::make_unique<stadium_store>(key, value, number, log_bits, keys); }});
}

// Finds by whole lines, in full tables, too: paths of several lines.
void add_lines(vector<shape>& to, const char* name, u32 key, u32 value) {
  for (const u32 log_bits : {3u, 4u})
    to.push_back({std::string(name) + " lines, tickets of " + std::to_string(1u << log_bits),
                  key,
                  value,
                  {insert, assign, find, erase, count, pop, find_or_insert},
                  full,
                  [=](u64 keys) {
                    return std::make_unique<stadium_store>(key, value, stadium_engine(key, value), log_bits, keys, 2);
                  }});
}

void add_rows(vector<shape>& to, const char* name, u32 key, u32 value, u32 log_bits, u64 ordered_from,
              u32 window_shift = 8) {
  to.push_back({name,
                key,
                value,
                {insert, assign, accumulate, find, erase, count, mixed, pop, find_or_insert},
                full,
                [=](u64 keys) {
                  auto made = std::make_unique<stadium_store>(key, value, stadium_rows, log_bits, keys);
                  made->place_behind_bus(ordered_from, window_shift);
                  return made;
                }});
}

// Finds by whole lines in a full table of several lines: many keys lie behind their first line.
void full_of_lines(u64 seed, u32 key, u32 value) {
  where = "full of lines, seed " + std::to_string(seed);
  emulated::machine::the().seed = seed;
  for (const u32 log_bits : {3u, 4u}) {
    stadium_store s(key, value, stadium_engine(key, value), log_bits, 300, 2);
    batch b;
    b.kind = insert, b.key_bytes = key, b.value_bytes = value;
    for (u64 k = 0; k < s.cells + 100; ++k) {
      b.keys.push_back((k * 0x9e3779b1 + seed) & 0xffffffff);
      b.values.push_back(value ? k : 0);
    }
    model m;
    const totals first = check(s, m, b);
    SAME(first.yes, s.cells);
    for (const u32 reads : {u32(find), u32(count)}) {
      batch look = b;
      look.kind = reads, look.status.clear();
      SAME(check(s, m, look).yes, s.cells);
    }
  }
}

// Inserts by stacks of jobs into a table that is too small, and those that found no room again.
void full_by_stack(u64 seed) {
  where = "full by stack, seed " + std::to_string(seed);
  emulated::machine::the().seed = seed;
  for (const bool with_sum : {true, false}) {
    stadium_store s(4, 4, stadium_engine(4, 4), 3, 60);
    batch b;
    b.kind = insert, b.key_bytes = b.value_bytes = 4, b.tile = stack_of_warp, b.with_sum = with_sum;
    for (u64 k = 0; k < 700; ++k) {
      b.keys.push_back(k % 300 * 0x9e3779b1 & 0xffffffff);
      b.values.push_back(k % 300);
    }
    model m;
    const totals first = check(s, m, b);
    if (!first.failed || !first.yes) wrong("%llu inserted, %llu failed", (u64)first.yes, (u64)first.failed);
    b.only_failed = true;
    const vector<u8> before = b.status;
    const totals second = serve(s, b);
    SAME(second.failed, first.failed);
    for (size_t i = 0; i < before.size(); ++i) SAME(b.status[i], before[i]);
  }
}

// Rows of several pieces: keys and values whose every word says whose they are.
void wide_rows(u64 seed, u32 key_bytes, u32 value_bytes, u64 ordered_from) {
  where = "rows of " + std::to_string(key_bytes) + "+" + std::to_string(value_bytes) + " seed " + std::to_string(seed);
  emulated::machine::the().seed = seed;
  constexpr size_t n = 300;
  stadium_store s(key_bytes, value_bytes, stadium_rows, 3, 2 * n);
  s.place_behind_bus(ordered_from);
  const u32 key_words = key_bytes / 4, value_words = value_bytes / 4;
  vector<u32> keys(n * key_words), values(n * value_words);
  for (size_t i = 0; i < n; ++i) {  // equal keys but for the last word, so that every piece counts
    for (u32 w = 0; w < key_words; ++w) keys[i * key_words + w] = w + 1 == key_words ? u32(i % 200) : w;
    for (u32 w = 0; w < value_words; ++w) values[i * value_words + w] = u32(i % 200) << 8 | w;
  }
  const auto serve_as = [&](u32 kind, size_t first, size_t many, vector<u32>* given, vector<u32>* out) {
    vector<u8> status(many, untouched);
    request q{};
    q.kind = kind, q.n = many;
    q.keys = keys.data() + first * key_words, q.status = status.data();
    q.values = given ? given->data() + first * value_words : nullptr;
    q.out_values = out ? out->data() : nullptr;
    q.key_bytes = key_bytes, q.value_bytes = value_bytes;
    SAME(s.run->run(s.layout, q, s.sum.data()), 0);
    return status;
  };
  const auto expect = [&](size_t first, u32 add) {  // what a find of 200 keys from `first` on answers
    vector<u32> out(200 * value_words, ~0u);
    const vector<u8> status = serve_as(find, 0, 200, nullptr, &out);
    for (size_t i = 0; i < 200; ++i) {
      SAME(status[i], i >= first);
      for (u32 w = 0; w < value_words; ++w)
        SAME(out[i * value_words + w], i >= first ? values[i * value_words + w] + add : 0);
    }
  };
  u64 fresh = 0;
  for (const u8 one : serve_as(insert, 0, n, &values, nullptr)) fresh += one == yes;
  SAME(fresh, 200);
  expect(0, 0);
  vector<u32> others = values;
  for (u32& w : others) w += 1 << 20;
  for (const u8 one : serve_as(assign, 0, 200, &others, nullptr)) SAME(one, no);
  expect(0, 1 << 20);
  for (const u8 one : serve_as(erase, 0, 50, nullptr, nullptr)) SAME(one, yes);
  expect(50, 1 << 20);
  vector<u32> got_keys(200 * key_words), got_values(200 * value_words);
  uint64_t count_of = 0;
  SAME(s.run->collect(s.layout, cell_order{}, 0, s.cells,
                      {got_keys.data(), got_values.data(), key_bytes, value_bytes, &count_of}),
       0);
  SAME(count_of, 150);
  for (size_t i = 0; i < 150; ++i) {
    const u32 which = got_keys[i * key_words + key_words - 1];
    for (u32 w = 0; w + 1 < key_words; ++w) SAME(got_keys[i * key_words + w], w);
    for (u32 w = 0; w < value_words; ++w) SAME(got_values[i * value_words + w], (which << 8 | w) + (1 << 20));
  }
}

}  // namespace
}  // namespace warp_test

int main(int argc, char** argv) {
  using namespace warp_test;
  allocations_fail = false;  // where there is no memory for lists, batches are served as they come
  vector<shape> shapes;
  add(shapes, "4+4", 4, 4, stadium_engine(4, 4));
  add(shapes, "4+0", 4, 0, stadium_engine(4, 0));
  add(shapes, "8+8", 8, 8, stadium_engine(8, 8));
  add(shapes, "8+4, as wide ones", 8, 4, stadium_wide);
  add_lines(shapes, "4+4", 4, 4);
  add_lines(shapes, "8+0", 8, 0);
  add_lines(shapes, "8+8", 8, 8);
  add_rows(shapes, "4+4 rows", 4, 4, 3, 0);
  add_rows(shapes, "4+0 rows", 4, 0, 3, 1);
  add_rows(shapes, "8+8 rows in windows", 8, 8, 2, 1);
  add_rows(shapes, "8+4 rows, from 300 on in windows", 8, 4, 1, 300);
  add_rows(shapes, "4+8 rows in windows", 4, 8, 3, 1);
  add_rows(shapes, "8+0 rows in windows of the whole table, smaller for dense batches", 8, 0, 3, 1, 30);
  return run_all(shapes, argc, argv, [](u64 seed) {
    if (section()) full_by_stack(seed);
    if (section()) full_of_lines(seed, 4, 4);
    if (section()) full_of_lines(seed, 8, 0);
    if (section()) full_of_lines(seed, 8, 8);
    memory_is_out = true;  // no lists: batches are served as they come
    if (section()) wide_rows(seed, 8, 16, 1);
    memory_is_out = false;
    if (section()) wide_rows(seed, 12, 20, 0);
    if (section()) wide_rows(seed, 16, 64, 1);
    if (section()) wide_rows(seed, 64, 256, 1);
    if (section()) wide_rows(seed, 256, 16, 0);
  });
}
