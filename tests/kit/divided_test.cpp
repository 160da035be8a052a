// Batches in the order of the table (libgpuhash/kit/divided.hpp), served by an engine that only looks at what it gets.
//
//     divided_test        prints what did not hold
//
// Compiled with pieces of few elements, and parts of few.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "libgpuhash/kit/divided.hpp"

using namespace gpuhash;

namespace gpuhash {
host_services host_team{[](uint32_t threads, size_t pieces, void (*body)(void*, size_t), void* context) {
                          std::atomic<size_t> next{0};
                          const auto work = [&] {
                            for (size_t i = next++; i < pieces; i = next++) body(context, i);
                          };
                          std::vector<std::thread> others;
                          for (uint32_t t = 1; t < threads; ++t) others.emplace_back(work);
                          work();
                          for (std::thread& t : others) t.join();
                        },
                        nullptr, host_services::as_needed};
}  // namespace gpuhash

namespace {

int wrong = 0;
#define EXPECT(condition, n)                                                               \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      ++wrong;                                                                             \
      std::printf("line %d: %s does not hold for %zu\n", __LINE__, #condition, size_t(n)); \
    }                                                                                      \
  } while (false)

uint64_t element(const void* p, uint32_t bytes, size_t i) {
  return bytes == 8 ? static_cast<const uint64_t*>(p)[i] : static_cast<const uint32_t*>(p)[i];
}
void set(void* p, uint32_t bytes, size_t i, uint64_t v) {
  if (bytes == 8)
    static_cast<uint64_t*>(p)[i] = v;
  else
    static_cast<uint32_t*>(p)[i] = uint32_t(v);
}

// A table that has homes and nothing else, and what its engine was given.
struct table {
  uint64_t homes;
  bool one_part = false;   // all keys have the last home
  bool scribbles = false;  // keys change as soon as they were looked at
  mutable std::vector<uint64_t> keys, values;
  mutable int served = 0;

  uint64_t home(uint64_t key) const { return one_part ? homes - 1 : (key * 0x9e3779b97f4a7c15ull >> 20) % homes; }
};
uint8_t status_of(uint64_t key) { return uint8_t(key * 0x9e3779b1u >> 13); }

uint64_t count(const void* of) { return static_cast<const table*>(of)->homes; }
void parts_of(const void* of, const request& q, size_t begin, uint32_t n, uint32_t shift, uint16_t* parts) {
  const table& t = *static_cast<const table*>(of);
  for (uint32_t i = 0; i < n; ++i) {
    parts[i] = uint16_t(t.home(element(q.keys, q.key_bytes, begin + i)) >> shift);
    if (t.scribbles) set(const_cast<void*>(q.keys), q.key_bytes, begin + i, ~uint64_t(begin + i));
  }
}
constexpr homes_engine homes{count, nullptr, parts_of};

int serve(const void* of, const request& q, totals* sum) {
  const table& t = *static_cast<const table*>(of);
  ++t.served;
  for (size_t i = 0; i < q.n; ++i) {
    const uint64_t key = element(q.keys, q.key_bytes, i);
    t.keys.push_back(key);
    if (q.values) t.values.push_back(element(q.values, q.value_bytes, i));
    if (q.status) q.status[i] = status_of(key);
  }
  sum->yes += q.n;
  return 7;
}

struct shape {
  uint32_t key_bytes, value_bytes, threads;
  bool with_statuses;
};

request request_of(const shape& s, size_t n, std::vector<uint64_t>& keys, std::vector<uint64_t>& values,
                   std::vector<uint8_t>& status) {
  for (size_t i = 0; i < n; ++i) {
    set(keys.data(), s.key_bytes, i, i * 0x9e3779b97f4a7c15ull + 1);
    set(values.data(), s.value_bytes, i, i);
  }
  request q{};
  q.n = n;
  q.threads = s.threads;
  q.key_bytes = s.key_bytes;
  q.value_bytes = s.value_bytes ? s.value_bytes : s.key_bytes;
  q.keys = keys.data();
  q.values = s.value_bytes ? values.data() : nullptr;
  q.status = s.with_statuses ? status.data() : nullptr;
  return q;
}

// What the engine got is what the caller's arrays have now, each element once, in order of the parts where `given` keys lie.
void compare(const table& t, const request& q, const std::vector<uint64_t>& given) {
  std::vector<uint64_t> expected(q.n), got = t.keys;
  for (size_t i = 0; i < q.n; ++i) expected[i] = element(q.keys, q.key_bytes, i);
  if (q.values) {
    uint32_t shift = 0;
    while ((t.homes - 1) >> shift >= most_host_parts) ++shift;
    uint64_t part = 0, out_of_order = 0, strange = 0;
    for (size_t i = 0; i < t.values.size(); ++i) {
      const size_t e = t.values[i] < q.n ? t.values[i] : 0;
      strange += expected[e] != t.keys[i];
      const uint64_t here = t.home(element(given.data(), q.key_bytes, e)) >> shift;
      out_of_order += here < part;
      part = here;
    }
    EXPECT(strange == 0, q.n);
    EXPECT(out_of_order == 0, q.n);
    auto each = t.values;
    std::sort(each.begin(), each.end());
    for (size_t i = 0; i < each.size(); ++i) strange += each[i] != i;
    EXPECT(each.size() == q.n && strange == 0, q.n);
  }
  std::sort(expected.begin(), expected.end());
  std::sort(got.begin(), got.end());
  EXPECT(got == expected, q.n);
}

// Twice in the same memory, the second time a smaller batch.
void batch(const table& t, const shape& s, size_t n) {
  std::vector<uint64_t> keys(n), values(n);
  std::vector<uint8_t> status(n);
  request q = request_of(s, n, keys, values, status);
  divided_batch divided(homes, &t, q, n);
  std::vector<unsigned char> memory(divided.bytes() + 128, 0x5a);
  unsigned char* const begin = memory.data() + (64 - uintptr_t(memory.data()) % 64) % 64;
  for (const size_t some : {n, n - n / 3}) {
    q.n = some;
    t.keys.clear();
    t.values.clear();
    std::fill(status.begin(), status.end(), uint8_t(0xa5));
    totals sum{};
    const auto given = keys;
    EXPECT(divided.serve(q, begin, &sum, serve) == 7, n);
    EXPECT(sum.yes == some, n);
    const auto is_untouched = [](unsigned char c) { return c == 0x5a; };
    EXPECT(std::all_of(begin + divided.bytes(), memory.data() + memory.size(), is_untouched), n);
    compare(t, q, given);
    size_t wrong_statuses = 0;
    for (size_t i = 0; i < n; ++i)
      wrong_statuses +=
          status[i] != (s.with_statuses && i < some ? status_of(element(keys.data(), s.key_bytes, i)) : 0xa5);
    EXPECT(wrong_statuses == 0, n);
  }
}

}  // namespace

int main() {
  for (const uint32_t key_bytes : {4u, 8u})
    for (const uint32_t value_bytes : {0u, 4u, 8u})
      for (const size_t n : {1, 2, 15, 16, 17, 64, 65, 255, 256, 257, 1000, 6000})
        for (const uint64_t n_homes : {1ull, 7ull, 512ull, 513ull, 1ull << 40})
          for (const int which : {0, 1, 2}) {
            const shape s{key_bytes, value_bytes, n < 6000 ? 1u : 3u, n % 5 != 2};
            batch({n_homes, which == 1, which == 2, {}, {}}, s, n);
          }
  std::printf("%d wrong\n", wrong);
  return wrong != 0;
}
