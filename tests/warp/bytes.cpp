// Columns of bytes on a CUDA device, on emulated warps: gpuhash_bytes_hash, _check, _keep, _place and _take with their
// kernels, compared with strings. Sizes are small (tests/sizes/kernels.hpp), so that rows of a few hundred bytes are those
// of all warps.
#include <cuda_runtime.h>
#include <math.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "gpuhash/columns.h"
#include "libgpuhash/columns/cuda/bytes.hpp"
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/src/device.hpp"
#include "tests/warp/checks.hpp"
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

unsigned long long runs = 0;

struct cell {
  bool null = false;
  string bytes;
  auto operator<=>(const cell&) const = default;
};

// A column as it lies: offset_bytes 0 is one width. Some rows come before its own, and some bytes before all rows.
class column {
 public:
  column(const vector<cell>& rows, u32 offset_bytes, u32 width, size_t before, size_t off, bool nullable,
         u32 floats = 0)
      : data_(size(rows, width, before), off),
        offsets_((rows.size() + before + 1) * 8),
        bits_((rows.size() + before + 7) / 8) {
    c.n = rows.size(), c.first = before, c.offset_bytes = offset_bytes, c.width = width, c.floats = floats;
    c.data = data_.data();
    if (offset_bytes) c.offsets = offsets_.data();
    if (nullable) c.validity = bits_.of<u8>();
    size_t at = 0;
    for (size_t i = 0; i < rows.size() + before; ++i) {
      const cell& row = i < before ? filler : rows[i - before];
      put_offset(i, at);
      const size_t bytes = width ? width : row.bytes.size();
      if (!(width && row.null)) memcpy(data_.data() + at, row.bytes.data(), bytes);
      at += bytes;
      u8& bits = bits_.of<u8>()[i / 8];
      bits = u8(row.null ? bits & ~(1u << i % 8) : bits | 1u << i % 8);
    }
    put_offset(rows.size() + before, at);
  }
  gpuhash_bytes_column c{};

 private:
  static inline const cell filler{false, string(16, '?')};
  static size_t size(const vector<cell>& rows, u32 width, size_t before) {
    size_t n = before * (width ? width : filler.bytes.size());
    for (const cell& row : rows) n += width ? width : row.bytes.size();
    return n;
  }
  void put_offset(size_t i, size_t at) {
    if (c.offset_bytes == 4) offsets_.of<u32>()[i] = u32(at);
    if (c.offset_bytes == 8) offsets_.of<u64>()[i] = at;
  }
  memory data_, offsets_, bits_;
};

struct calls {
  gpuhash_bytes_request q = GPUHASH_BYTES_REQUEST_INIT;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  memory scratch;

  static size_t bytes(u64 rows) {
    size_t n = 0;
    gpuhash_error err = GPUHASH_ERROR_INIT;
    HOLDS(gpuhash_bytes_scratch(rows, &n, &err) == GPUHASH_OK);
    return n;
  }
  calls(const gpuhash_bytes_column& one, const gpuhash_bytes_column& other, u64 picked = 0)
      : scratch(bytes(std::max(u64(one.n + other.n), picked))) {
    q.one = one, q.other = other, q.device.kind = GPUHASH_CUDA;
    q.scratch = scratch.data(), q.scratch_bytes = bytes(std::max(u64(one.n + other.n), picked));
  }
  vector<u64> hash(u64 seed, uint64_t* null) {
    const u64 n = q.one.n + q.other.n;
    memory out(8 * n);
    if (gpuhash_bytes_hash(&q, seed, out.of<uint64_t>(), null, &err)) wrong("%s", err.message);
    return {out.of<u64>(), out.of<u64>() + n};
  }
  // Whether all rows have the bytes of the first ones of their groups, and these.
  std::pair<bool, vector<int64_t>> check(const vector<int64_t>& codes, u64 groups) {
    memory given(8 * codes.size()), first(8 * groups);
    std::copy(codes.begin(), codes.end(), given.of<int64_t>());
    uint64_t other = 7;
    if (gpuhash_bytes_check(&q, given.of<int64_t>(), groups, first.of<int64_t>(), &other, &err))
      wrong("%s", err.message);
    HOLDS(other <= 1);
    return {other == 0, {first.of<int64_t>(), first.of<int64_t>() + groups}};
  }
};

const gpuhash_bytes_column none{};

// Rows whose lengths are around words, and those of rows of a thread, a warp and the grid; some are alike but for a byte.
vector<cell> texts(size_t n, bool nulls, random_numbers& r) {
  const size_t thread = 8 * gpuhash::columns::words_by_thread, warp = 8 * gpuhash::columns::words_by_warp;
  const size_t lengths[] = {0, 1, 3, 7, 8, 9, 15, thread, thread + 1, thread + 60, warp, warp + 1, warp + 900};
  vector<string> some;
  for (const size_t length : lengths) {
    const string s = r.bytes(length);
    some.push_back(s);
    some.push_back(s + '\0');
    if (s.empty()) continue;
    for (const size_t at : {size_t(0), length / 2, length - 1}) {
      some.push_back(s);
      some.back()[at] = char(some.back()[at] ^ 1 << r.below(8));
    }
  }
  vector<cell> rows(n);
  for (cell& row : rows) {
    row.bytes = some[r.below(r.below(40) ? some.size() - 15 : some.size())];
    row.null = nulls && r.below(5) == 0;
    if (row.null && r.below(2)) row.bytes.clear();
  }
  return rows;
}

// What a null holds is of no meaning.
cell meant(const cell& row) { return row.null ? cell{true, ""} : row; }

// The hash of a row, word by word.
u64 hash_of(const cell& row, u64 seed) {
  const auto of = [&](u64 word, u64 place) {
    return gpuhash::mix(u64(word ^ gpuhash::mix(u64(seed + place * 0x9e3779b97f4a7c15u))));
  };
  if (row.null) return of(1, ~u64(0));
  u64 h = of(row.bytes.size(), 0);
  for (size_t j = 0; 8 * j < row.bytes.size(); ++j) {
    u64 word = 0;
    memcpy(&word, row.bytes.data() + 8 * j, std::min(size_t(8), row.bytes.size() - 8 * j));
    h += of(word, j + 1);
  }
  return h;
}

void hashes_and_groups(const vector<cell>& rows, calls& call, random_numbers& r) {
  const u64 seed = r.next();
  uint64_t null = 3;
  const vector<u64> h = call.hash(seed, &null);
  u64 first_null = ~u64(0);
  std::map<cell, int64_t> code;
  std::map<u64, cell> of_hash;
  vector<int64_t> codes, firsts;
  for (size_t i = 0; i < rows.size(); ++i) {
    const cell row = meant(rows[i]);
    if (row.null) first_null = std::min(first_null, u64(i));
    const auto [at, fresh] = code.try_emplace(row, int64_t(firsts.size()));
    if (fresh) firsts.push_back(int64_t(i));
    codes.push_back(at->second);
    HOLDS(h[i] == hash_of(row, seed));
    HOLDS(of_hash.try_emplace(h[i], row).first->second == row);  // no two rows have one hash
  }
  HOLDS(null == first_null);
  HOLDS(call.hash(seed, nullptr) == h);
  if (!rows.empty()) HOLDS(call.hash(seed + 1, nullptr) != h);
  const auto [same, found] = call.check(codes, firsts.size());
  HOLDS(same);
  HOLDS(found == firsts);
  if (rows.size() < 2) return;
  // Two groups in one.
  const int64_t gone = int64_t(r.below(firsts.size())), into = int64_t(r.below(firsts.size()));
  vector<int64_t> joined = codes;
  for (int64_t& c : joined)
    if (c == gone) c = into;
  HOLDS(call.check(joined, firsts.size()).first == (gone == into));
  // Rows that are left out are not compared.
  for (size_t i = 0; i < rows.size(); ++i)
    if (codes[i] == gone) joined[i] = -1 - int64_t(r.below(9));
  HOLDS(call.check(joined, firsts.size()).first);
}

void kept_rows(const vector<cell>& rows, calls& call) {
  memory kept(8 * rows.size());
  uint64_t many = 7;
  if (gpuhash_bytes_keep(&call.q, kept.of<int64_t>(), &many, &call.err)) wrong("%s", call.err.message);
  vector<int64_t> wanted;
  for (size_t i = 0; i < rows.size(); ++i)
    if (!rows[i].null) wanted.push_back(int64_t(i));
  HOLDS(many == wanted.size());
  HOLDS(std::equal(wanted.begin(), wanted.end(), kept.of<int64_t>()));
}

void taken_rows(const vector<cell>& rows, calls& call, size_t n, random_numbers& r) {
  const u32 offset_bytes = call.q.one.offset_bytes, width = call.q.one.width;
  memory picked(8 * n), offsets((n + 1) * offset_bytes), bits((n + 7) / 8);
  vector<cell> wanted;
  string all;
  for (size_t i = 0; i < n; ++i) {
    const u64 row = r.below(rows.size());
    picked.of<int64_t>()[i] = int64_t(row);
    wanted.push_back(meant(rows[row]));
    all += width ? wanted.back().null ? string(width, 0) : rows[row].bytes : wanted.back().bytes;
  }
  if (offset_bytes) {
    uint64_t bytes = 7;
    if (gpuhash_bytes_place(&call.q, picked.of<int64_t>(), n, offsets.data(), &bytes, &call.err))
      wrong("%s", call.err.message);
    HOLDS(bytes == all.size());
    u64 at = 0;
    for (size_t i = 0; i <= n; ++i) {
      HOLDS((offset_bytes == 4 ? u64(offsets.of<u32>()[i]) : offsets.of<u64>()[i]) == at);
      if (i < n) at += wanted[i].bytes.size();
    }
  }
  memory data(all.size());
  u8* const validity = r.below(4) ? bits.of<u8>() : nullptr;
  if (gpuhash_bytes_take(&call.q, picked.of<int64_t>(), n, offset_bytes ? offsets.data() : nullptr, data.data(),
                         validity, &call.err))
    wrong("%s", call.err.message);
  HOLDS(memcmp(data.data(), all.data(), all.size()) == 0);
  for (size_t i = 0; validity && i < n; ++i) HOLDS((validity[i / 8] >> i % 8 & 1) == !wanted[i].null);
}

void text_columns(size_t n, size_t m, random_numbers& r) {
  for (const bool nulls : {false, true})
    for (const u32 offset_bytes : {4u, 8u}) {
      where = std::to_string(n) + " and " + std::to_string(m) + " texts with offsets of " +
              std::to_string(offset_bytes) + " bytes" + (nulls ? ", some of which are null" : "");
      vector<cell> rows = texts(n, nulls, r);
      const vector<cell> more = texts(m, false, r);
      const column one(rows, offset_bytes, 0, r.below(12), r.below(9), nulls || r.below(2));
      const column other(more, m % 2 ? 4 : 8, 0, r.below(12), r.below(9), r.below(2));
      rows.insert(rows.end(), more.begin(), more.end());
      const size_t picked = rows.empty() ? 0 : r.below(2 * rows.size() + 1);
      calls call(one.c, other.c, picked);
      if (section()) hashes_and_groups(rows, call, r);
      if (section()) kept_rows(rows, call);
      if (section()) taken_rows(rows, call, picked, r);
      ++runs;
    }
}

// Two rows in one group, of one column or of two: their bytes are compared.
void pairs_that_differ(random_numbers& r) {
  const size_t thread = 8 * gpuhash::columns::words_by_thread, warp = 8 * gpuhash::columns::words_by_warp;
  vector<std::pair<cell, cell>> pairs = {{{true, ""}, {false, ""}}, {{false, ""}, {false, string(1, 0)}}};
  for (const size_t length : {size_t(1), size_t(8), size_t(9), thread, thread + 1, warp, warp + 1, 2 * warp + 77}) {
    const string s = r.bytes(length);
    pairs.push_back({{false, s}, {false, s + string(1, 0)}});
    pairs.push_back({{false, s}, {false, s.substr(1)}});
    for (const size_t at : {size_t(0), length / 2, length - 1}) {
      pairs.push_back({{false, s}, {false, s}});
      pairs.back().second.bytes[at] = char(s[at] ^ 1 << r.below(8));
    }
  }
  for (const auto& [a, b] : pairs)
    for (const u32 offset_bytes : {4u, 8u}) {
      where = std::to_string(a.bytes.size()) + " bytes beside " + std::to_string(b.bytes.size());
      if (!section()) continue;
      const column both({a, b}, offset_bytes, 0, r.below(3), r.below(9), true);
      const column first({a}, offset_bytes, 0, r.below(3), r.below(9), true);
      const column second({b}, 12 - offset_bytes, 0, r.below(3), r.below(9), true);
      HOLDS(!calls(both.c, none).check({0, 0}, 1).first);
      HOLDS(!calls(first.c, second.c).check({0, 0}, 1).first);
      HOLDS(calls(first.c, first.c).check({0, 0}, 1).first);
      ++runs;
    }
}

void columns_of_one_width(size_t n, random_numbers& r) {
  for (const u32 width : {1u, 3u, 4u, 8u, 16u, 21u, 400u}) {
    where = std::to_string(n) + " elements of " + std::to_string(width) + " bytes";
    vector<cell> rows(n), some;
    for (int i = 0; i < 9; ++i) some.push_back({false, r.bytes(width)});
    some.push_back(some[0]);
    some.back().bytes.back() = char(some.back().bytes.back() ^ 0x80);
    for (cell& row : rows) {
      row = some[r.below(some.size())];
      row.null = r.below(6) == 0;
    }
    const column one(rows, 0, width, r.below(12), 8 * r.below(3), true);
    const size_t picked = n ? r.below(2 * n + 1) : 0;
    calls call(one.c, none, picked);
    if (section()) hashes_and_groups(rows, call, r);
    if (section()) kept_rows(rows, call);
    if (section()) taken_rows(rows, call, picked, r);
    ++runs;
  }
}

template <class Float>
string bytes_of(Float x) {
  string s(sizeof(x), 0);
  memcpy(s.data(), &x, sizeof(x));
  return s;
}

// Zeros are equal, and NaNs; all others are their bits.
void floats(u32 width, const vector<string>& numbers, const vector<int64_t>& codes, u64 groups) {
  where = "floats of " + std::to_string(width) + " bytes";
  vector<cell> rows;
  for (const string& x : numbers) rows.push_back({false, x});
  const column equal(rows, 0, width, 2, 0, false, 1), bits(rows, 0, width, 2, 0, false, 0);
  if (!section()) return;
  calls call(equal.c, none), by_bits(bits.c, none);
  const vector<u64> h = call.hash(5, nullptr), of_bits = by_bits.hash(5, nullptr);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < rows.size(); ++j) {
      HOLDS((h[i] == h[j]) == (codes[i] == codes[j]));
      HOLDS((of_bits[i] == of_bits[j]) == (i == j));
    }
  HOLDS(call.check(codes, groups).first);
  HOLDS(!by_bits.check(codes, groups).first);
  memory picked(8 * 2), data(2 * width);
  picked.of<int64_t>()[0] = 1, picked.of<int64_t>()[1] = 4;  // -0.0 and a NaN
  if (gpuhash_bytes_take(&call.q, picked.of<int64_t>(), 2, nullptr, data.data(), nullptr, &call.err))
    wrong("%s", call.err.message);
  HOLDS(memcmp(data.data(), rows[0].bytes.data(), width) == 0);
  HOLDS(memcmp(data.data() + width, rows[3].bytes.data(), width) == 0);
  ++runs;
}

void all_floats() {
  const vector<int64_t> codes = {0, 0, 1, 2, 2, 2, 3, 4};
  const u32 nan = 0x7fc00000, payload = 0x7f800001, negative = 0xffc00001;
  float f[3];
  memcpy(f, &nan, 4), memcpy(f + 1, &payload, 4), memcpy(f + 2, &negative, 4);
  vector<string> singles, doubles, halves;
  for (const float x : {0.0f, -0.0f, 1.5f}) singles.push_back(bytes_of(x));
  for (const u32 x : {nan, payload, negative}) singles.push_back(bytes_of(x));
  for (const float x : {INFINITY, -INFINITY}) singles.push_back(bytes_of(x));
  for (const double x : {0.0, -0.0, 1.5}) doubles.push_back(bytes_of(x));
  for (const u64 x : {0x7ff8000000000000u, 0x7ff0000000000001u, 0xffffffffffffffffu}) doubles.push_back(bytes_of(x));
  for (const double x : {double(INFINITY), -double(INFINITY)}) doubles.push_back(bytes_of(x));
  for (const unsigned x : {0u, 0x8000u, 0x3e00u, 0x7e00u, 0x7c01u, 0xffffu, 0x7c00u, 0xfc00u})
    halves.push_back(bytes_of(uint16_t(x)));
  floats(4, singles, codes, 5);
  floats(8, doubles, codes, 5);
  floats(2, halves, codes, 5);
}

void refused(const char* name, gpuhash_bytes_request q, const char* sentence) {
  where = name;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  memory out(64);
  uint64_t null = 7;
  HOLDS(gpuhash_bytes_hash(&q, 1, out.of<uint64_t>(), &null, &err) != GPUHASH_OK);
  if (!strstr(err.message, sentence)) wrong("%s", err.message);
  HOLDS(null == 7 && out.of<u64>()[0] == 0xabababababababab);
}

// What a caller may get wrong; nothing is written then.
void refusals() {
  const vector<cell> rows = {{false, "abcd"}, {false, "efgh"}};
  const column text(rows, 4, 0, 0, 0, false), fixed(rows, 0, 4, 0, 0, false);
  calls call(text.c, none), two(text.c, fixed.c), of_width(fixed.c, none);
  const auto with = [](const calls& c, auto change) {
    gpuhash_bytes_request q = c.q;
    change(q);
    return q;
  };
  refused("neither", with(call, [](auto& q) { q.one.offset_bytes = 0; }),
          "request.one has neither offsets nor a width");
  refused("three", with(call, [](auto& q) { q.one.offset_bytes = 3; }), "request.one.offset_bytes is 3");
  refused("both", with(call, [](auto& q) { q.one.width = 3; }), "request.one.width is 3, and it has offsets");
  refused("no offsets", with(call, [](auto& q) { q.one.offsets = nullptr; }), "offsets are aligned to 4 bytes");
  refused("no data", with(of_width, [](auto& q) { q.one.data = nullptr; }),
          "request.one.data is NULL, and it has 2 rows");
  refused("floats", with(call, [](auto& q) { q.one.floats = 1; }), "request.one.floats is 1 with a width of 0");
  refused("reserved", with(call, [](auto& q) { q.other.reserved = 1; }), "request.other.reserved is 1");
  refused("two kinds", two.q, "request.one.width is 0 and other.width 4: pass columns of one width");
  refused("too many", with(call, [](auto& q) { q.one.n = (1ull << 31) + 1; }), "at most 2^31 rows");
  refused("scratch", with(call, [](auto& q) { q.scratch_bytes -= 1; }), "ask gpuhash_bytes_scratch");
  refused("no scratch", with(call, [](auto& q) { q.scratch = nullptr; }), "memory that is aligned to 256 bytes");
  refused("a processor", with(call, [](auto& q) { q.device.kind = GPUHASH_CPU; }), "are for CUDA devices");
  refused("not made", with(call, [](auto& q) { q.struct_size = 0; }), "GPUHASH_BYTES_REQUEST_INIT");
  where = "addresses that are missing";
  uint64_t many = 7;
  int64_t row = 0;
  HOLDS(gpuhash_bytes_hash(&call.q, 1, nullptr, nullptr, &call.err) && strstr(call.err.message, "hashes is NULL"));
  HOLDS(gpuhash_bytes_check(&call.q, nullptr, 1, &row, &many, &call.err) && strstr(call.err.message, "codes is NULL"));
  HOLDS(gpuhash_bytes_keep(&call.q, nullptr, &many, &call.err) && strstr(call.err.message, "out_rows is NULL"));
  HOLDS(gpuhash_bytes_place(&of_width.q, &row, 1, &row, &many, &of_width.err));
  HOLDS(strstr(of_width.err.message, "request.one has no offsets") != nullptr);
  HOLDS(gpuhash_bytes_take(&call.q, &row, 1, nullptr, &row, nullptr, &call.err));
  HOLDS(strstr(call.err.message, "offsets is NULL") != nullptr);
  capturing = true;
  HOLDS(gpuhash_bytes_keep(&call.q, &row, &many, &call.err) == GPUHASH_INVALID_ARGUMENT);
  HOLDS(strstr(call.err.message, "host_rows is given") != nullptr);
  capturing = false;
  HOLDS(many == 7);
}

}  // namespace

int main(int count, char** given) {
  const u64 rounds = count > 1 ? strtoull(given[1], nullptr, 0) : 1;
  u64 seed = count > 2 ? strtoull(given[2], nullptr, 0) : 1;
  refusals();
  for (u64 round = 0; round < rounds; ++round, ++seed) {
    random_numbers r{seed};
    emulated::machine::the().seed = seed;
    for (const auto& [n, m] :
         {std::pair<size_t, size_t>(0, 0), {1, 0}, {0, 3}, {2, 1}, {40, 30}, {300 + r.below(200), 50}, {700, 131}})
      text_columns(n, m, r);
    for (const size_t n : {size_t(0), size_t(1), size_t(60), size_t(300 + r.below(400))}) columns_of_one_width(n, r);
    pairs_that_differ(r);
    all_floats();
  }
  emulated::sections::the().end();
  printf("%llu runs, %llu steps, nothing wrong\n", runs, (unsigned long long)emulated::machine::the().steps);
}
