// A program of a user in C++, with exceptions and, where GPUHASH_EXPECTED is defined, without.
#include <gpuhash/gpuhash.hpp>

#include <array>
#include <cstdio>
#include <numeric>

static int failed = 0;
#define EXPECT(what) ((what) ? void() : (++failed, void(std::printf("line %d: %s\n", __LINE__, #what))))

using counts = gpuhash::map<std::uint32_t, std::int64_t>;
static_assert(!std::is_copy_constructible_v<counts> && !std::is_copy_assignable_v<counts>);
static_assert(std::is_nothrow_move_constructible_v<counts> && std::is_nothrow_move_assignable_v<counts>);

#if defined(GPUHASH_EXPECTED)

int main() {
  auto bad = counts::make({.backend = "linear_prob"});
  EXPECT(!bad && bad.error().code() == gpuhash::code::not_found);
  EXPECT(std::string(bad.error().what()).find("did you mean") != std::string::npos);
  auto made = counts::make({.capacity = 100, .grow = false});
  EXPECT(made.has_value());
  counts table = *std::move(made);
  const std::vector<std::uint32_t> keys{7, 8, 7};
  const std::array<std::int64_t, 3> values{1, 2, 3};
  EXPECT(*table.accumulate(keys, values) == 2);
  EXPECT(*table.size() == 2);
  EXPECT(table.clear().has_value());
  const auto short_one = table.insert(keys, std::span(values).first(2));
  EXPECT(!short_one && short_one.error().code() == gpuhash::code::invalid_argument);
  std::printf("%d failed\n", failed);
  return failed != 0;
}

#else

int main() {
  counts table({.backend = "slab_hash", .backend_options = {{"slab_bytes", "64"}}});
  std::vector<std::uint32_t> keys(1000);
  std::iota(keys.begin(), keys.end(), 0u);
  std::vector<std::int64_t> values(keys.size(), 5), out(keys.size());
  std::vector<std::uint8_t> mask(keys.size());
  EXPECT(table.insert(keys, values, mask) == 1000 && mask[999] == 1);
  EXPECT(table.insert(keys, values) == 0);
  EXPECT(table.accumulate(keys, values, gpuhash::combine::max) == 0);
  values.assign(values.size(), -7);
  table.accumulate(keys, values);
  EXPECT(table.find(keys, out) == 1000 && out[3] == -2);
  EXPECT(table.insert_or_assign(keys, values) == 0 && table.erase(std::span(keys).first(10)) == 10);
  EXPECT(table.contains(keys, mask) == 990 && mask[9] == 0 && mask[10] == 1);
  counts other = std::move(table);
  EXPECT(table.get() == nullptr && other.size() == 990);
  const auto [all, their_values] = other.pairs();
  EXPECT(all.size() == 990 && their_values[0] == -7 && other.info().size == 990);
  other.reserve(10'000), other.shrink(), other.flush(), other.check(), other.clear();
  EXPECT(other.size() == 0 && other.pairs().first.empty());

  gpuhash::set<std::uint64_t> seen;
  EXPECT(seen.insert(std::vector<std::uint64_t>{1, 2, 1}) == 2 && seen.contains(std::vector<std::uint64_t>{2, 3}) == 1);
  EXPECT(seen.pairs().second.empty());
  gpuhash::map<float, double> reals;
  reals = gpuhash::map<float, double>({.backend = "hive"});
  const float key[] = {0.5f};
  const double value[] = {2.5};
  double read[1];
  EXPECT(reals.accumulate(key, value) == 1 && reals.accumulate(key, value) == 0 && reals.find(key, read) == 1);
  EXPECT(read[0] == 5.0);

  for (const char* backend : {"linear_prob", "linear_probe"}) try {
      counts small({.backend = backend, .capacity = 1, .grow = false});
      small.insert(keys, std::span(values).first(3));
      EXPECT(false);
    } catch (const gpuhash::error& e) {
      const bool unknown = std::string(backend) == "linear_prob";
      EXPECT(e.code() == (unknown ? gpuhash::code::not_found : gpuhash::code::invalid_argument));
      EXPECT(std::string(e.what()).find(unknown ? "did you mean" : "1000 keys, 3 values") != std::string::npos);
    }
  try {
    counts({.capacity = 1, .grow = false}).insert(keys, values);
    EXPECT(false);
  } catch (const gpuhash::error& e) {
    EXPECT(e.code() == gpuhash::code::full);
  }
  std::printf("%d failed\n", failed);
  return failed != 0;
}

#endif
