// Estimates of how many distinct keys a batch has (libgpuhash/kit/distinct.hpp, sketch.hpp), for keys that were counted.
//
//     estimates_test        prints what did not hold
#include <cstdio>
#include <memory>
#include <vector>

#include "libgpuhash/kit/distinct.hpp"
#include "libgpuhash/kit/sketch.hpp"

using namespace gpuhash;

namespace {

int wrong = 0;
#define EXPECT(condition, n)                                                               \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      ++wrong;                                                                             \
      std::printf("line %d: %s does not hold for %zu\n", __LINE__, #condition, size_t(n)); \
    }                                                                                      \
  } while (false)

template <class Key>
std::vector<Key> distinct_keys(size_t n) {
  std::vector<Key> keys(n);
  for (size_t i = 0; i < n; ++i) keys[i] = Key(i * 0x9e3779b1u);
  return keys;
}

// Each key is kept once, in the order of their first elements, as long as they are few.
template <class Key>
void few() {
  const auto keys = distinct_keys<Key>(few_distinct::most + 1);
  const auto some = std::make_unique<few_distinct>(), all = std::make_unique<few_distinct>();
  for (int times = 0; times < 2; ++times) EXPECT(some->add(keys.data(), few_distinct::most), times);
  EXPECT(some->size() == few_distinct::most, some->size());
  for (size_t i = 0; i < some->size(); ++i) EXPECT(some->keys()[i] == keys[i], i);
  EXPECT(all->add(*some), all->size());
  EXPECT(all->size() == few_distinct::most, all->size());
  EXPECT(!some->add(&keys.back(), 1), some->size());
  EXPECT(some->size() == few_distinct::most, some->size());
}

// The range has the number of keys, and is narrow enough to be of use. So it is where others have counted half of them.
template <class Key>
void mapped(size_t n) {
  const auto keys = distinct_keys<Key>(n);
  distinct_map all(2 * n), half(2 * n), other(2 * n);
  for (int times = 0; times < 2; ++times) all.add(keys.data(), n);
  half.add(keys.data(), n / 2);
  other.add(keys.data() + n / 2, n - n / 2);
  half.merge(other, 12345);
  const auto range = all.about(2 * n), merged = half.about(2 * n);
  EXPECT(range.least <= n && n <= range.most, n);
  EXPECT(range.most - range.least <= n / 10 + 8, n);
  EXPECT(range.least == merged.least && range.most == merged.most, n);
  EXPECT(all.about(n).most <= n, n);
}

void sketched(size_t n) {
  std::vector<u32> ranks(ranks_of_sketch);
  for (int times = 0; times < 2; ++times)
    for (const uint64_t k : distinct_keys<uint64_t>(n)) {
      const sketched_key s = sketch_of(k);
      if (ranks[s.place] < s.rank) ranks[s.place] = s.rank;
    }
  const double about = distinct_by_ranks(ranks.data());
  EXPECT(about >= double(n) * (1 - sketch_margin()) && about <= double(n) * (1 + sketch_margin()), n);
}

// The highest rank stands for all that is beyond it, too: who has it adds more than a rank lower.
void highest_ranks() {
  std::vector<u32> ranks(ranks_of_sketch, highest_rank - 1);
  const double before = distinct_by_ranks(ranks.data());
  for (u32 i = 0; i < ranks_of_sketch / 2; ++i) ranks[i] = highest_rank;
  const double half = distinct_by_ranks(ranks.data());
  for (u32 i = 0; i < ranks_of_sketch - 1; ++i) ranks[i] = highest_rank;
  const double nearly_all = distinct_by_ranks(ranks.data());
  EXPECT(half > 1.4 * before && half < 1.7 * before, half / before);
  EXPECT(nearly_all > 7 * before, nearly_all / before);
}

}  // namespace

int main() {
  highest_ranks();
  few<uint32_t>();
  few<uint64_t>();
  for (const size_t n : {1, 100, 4096, 70'000, 1'000'000}) mapped<uint32_t>(n), mapped<uint64_t>(n);
  for (const size_t n : {0, 1, 100, 1000, 3000, 70'000, 1'000'000}) sketched(n);
  return wrong != 0;
}
