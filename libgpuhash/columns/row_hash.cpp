// The published hash of rows: see row_hash.hpp.
#include "libgpuhash/columns/row_hash.hpp"

#include <stdlib.h>

#include <algorithm>
#include <atomic>

#include "libgpuhash/columns/cells.hpp"
#include "libgpuhash/columns/contract.hpp"
#include "libgpuhash/src/team.hpp"

namespace gpuhash::columns {
namespace {

// Rows that are hashed column by column; rows of a piece, which a thread claims; rows below which no other thread is
// woken.
constexpr int64_t block = tunable("hash.block", int64_t{1024});
constexpr int64_t piece = tunable("hash.piece", int64_t{1} << 14);
constexpr int64_t alone = tunable("hash.alone", int64_t{1} << 15);

// ---- numbers of one word ---------------------------------------------------------------------------------------------

// upper_key: of numbers of 2^63 and above.
template <class T>
inline __attribute__((always_inline)) void each_word(const char* cells, int64_t n, uint64_t key, uint64_t upper_key,
                                                     uint64_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    T cell;
    std::memcpy(&cell, cells + i * int64_t(sizeof(T)), sizeof(T));
    uint64_t own = key;
    if constexpr (std::is_same_v<T, uint64_t>) own ^= (key ^ upper_key) & (0 - (cell >> 63));
    out[i] = contract::of_word(own, uint64_t(cell));
  }
}

template <class T>
void words_baseline(const char* cells, int64_t n, uint64_t key, uint64_t upper_key, uint64_t* out) {
  each_word<T>(cells, n, key, upper_key, out);
}

#if defined(__x86_64__)
template <class T>
__attribute__((target("avx2"))) void words_avx2(const char* cells, int64_t n, uint64_t key, uint64_t upper_key,
                                                uint64_t* out) {
  each_word<T>(cells, n, key, upper_key, out);
}

#endif

template <class T>
void words(const column_view& c, int64_t begin, int64_t n, uint64_t key, uint64_t* out) {
  const char* const cells = static_cast<const char*>(c.data) + (c.first + begin) * int64_t(sizeof(T));
  const uint64_t upper_key = contract::derive(key, 1);
#if defined(__x86_64__)
  if (has_avx2()) return words_avx2<T>(cells, n, key, upper_key, out);
#endif
  words_baseline<T>(cells, n, key, upper_key, out);
}

void integers(const column_view& c, int64_t begin, int64_t n, uint64_t key, uint64_t* out) {
  const bool sign = c.type->is_signed;
  switch (c.type->width) {
    case 1: return sign ? words<int8_t>(c, begin, n, key, out) : words<uint8_t>(c, begin, n, key, out);
    case 2: return sign ? words<int16_t>(c, begin, n, key, out) : words<uint16_t>(c, begin, n, key, out);
    case 4: return sign ? words<int32_t>(c, begin, n, key, out) : words<uint32_t>(c, begin, n, key, out);
    default: return sign ? words<int64_t>(c, begin, n, key, out) : words<uint64_t>(c, begin, n, key, out);
  }
}

// ---- cells of one column ---------------------------------------------------------------------------------------------

// The hash of n bytes, up to 16, where 16 may be read: without a branch on n, which is another one for most words.
uint64_t of_few_bytes(const contract::bytes_keys& keys, const uint8_t* p, size_t n) {
  const uint64_t low = n < 8 ? (uint64_t(1) << 8 * n) - 1 : ~uint64_t(0);
  const uint64_t high = n > 8 ? ~uint64_t(0) >> 8 * (16 - n) : 0;
  const uint64_t lane =
      contract::next_lane(keys.even, contract::load64(p) & low, contract::load64(p + 8) & high, keys.factor);
  return contract::mix((n ? lane : keys.even) ^ keys.odd ^ n);
}

void hash_strings(const column_view& c, int64_t begin, int64_t n, uint64_t root, uint64_t* out) {
  const uint64_t null = contract::of_null(root);
  const contract::bytes_keys keys = contract::keys_of_bytes(root, kind_of(c.type->kind));
  for (int64_t i = 0; i < n; ++i) {
    if (!c.valid(begin + i)) {  // what lies there was not checked
      out[i] = null;
      continue;
    }
    const std::string_view s = c.string(begin + i);
    const auto* const p = reinterpret_cast<const uint8_t*>(s.data());
    const bool few = s.size() <= 16 && c.end != nullptr && c.end - s.data() >= 16;
    out[i] = few ? of_few_bytes(keys, p, s.size()) : contract::of_bytes(keys, p, s.size());
  }
}

void set_nulls(const column_view& c, int64_t begin, int64_t n, uint64_t null, uint64_t* out) {
  if (c.validity == nullptr) return;
  for (int64_t i = 0; i < n; ++i) out[i] = c.valid(begin + i) ? out[i] : null;
}

// Cells begin .. begin + n - 1 of a column, or of the values of a dictionary.
void hash_cells(const column_view& c, int64_t begin, int64_t n, uint64_t root, uint64_t* out) {
  const column_type& t = *c.type;
  const uint64_t null = contract::of_null(root), key = contract::key_of(root, kind_of(t.kind));
  switch (t.kind) {
    case family::null:
    case family::structure: std::fill_n(out, n, null); return;
    case family::boolean:
      for (int64_t i = 0; i < n; ++i) {
        const auto at = uint64_t(c.first + begin + i);
        out[i] = contract::of_word(key, static_cast<const uint8_t*>(c.data)[at >> 3] >> (at & 7) & 1);
      }
      break;
    case family::integer: integers(c, begin, n, key, out); break;
    case family::floating: {
      const uint64_t fraction = contract::key_of(root, contract::fraction);
      for (int64_t i = 0; i < n; ++i) out[i] = contract::of_float(key, fraction, float_cell(c, begin + i));
      break;
    }
    case family::decimal:
      for (int64_t i = 0; i < n; ++i) out[i] = contract::of_decimal(key, integer_cell(c, begin + i), t.scale);
      break;
    case family::text:
    case family::bytes: hash_strings(c, begin, n, root, out); return;
    default:  // times
      if (t.nanoseconds == 1) {
        integers(c, begin, n, key, out);
        break;
      }
      for (int64_t i = 0; i < n; ++i)
        out[i] = contract::of_ticks(key, int64_t(integer_cell(c, begin + i)), t.nanoseconds);
  }
  set_nulls(c, begin, n, null, out);
}

// serve(begin, end) of all pieces of n rows. It may throw bad_alloc.
template <class Serve>
void in_pieces(uint32_t threads, int64_t n, const Serve& serve) {
  struct work {
    const Serve& serve;
    int64_t n;
    std::atomic<bool> memory{true};
  } all{serve, n};
  const auto body = [](void* context, size_t i) {
    work& w = *static_cast<work*>(context);
    try {
      w.serve(int64_t(i) * piece, std::min(int64_t(i + 1) * piece, w.n));
    } catch (const std::bad_alloc&) {
      w.memory = false;
    }
  };
  parallel(n < alone ? 1 : threads, size_t((n + piece - 1) / piece), body, &all);
  if (!all.memory) throw std::bad_alloc();
}

// ---- rows ------------------------------------------------------------------------------------------------------------

/// One half of the hash of all rows.
class half_hash {
 public:
  half_hash(const row_type& type, const rows& given, uint64_t root, uint32_t threads)
      : type_(type), given_(given), root_(root), values_(given.columns.size()) {
    for (size_t i = 0; i < given.columns.size(); ++i) {
      const column_view* const values = given.columns[i].values.get();
      if (values == nullptr || values->length > given.length) continue;  // few of which may be used
      values_[i].resize(size_t(values->length));
      in_pieces(threads, values->length, [&](int64_t begin, int64_t end) {
        hash_cells(*values, begin, end - begin, root, &values_[i][size_t(begin)]);
      });
    }
  }

  /// Hashes of rows begin .. begin + n - 1. scratch: of `block` words for each depth of structs.
  void operator()(int64_t begin, int64_t n, uint64_t* out, uint64_t* scratch) const {
    hash_column(0, begin, n, out, scratch);
  }

 private:
  // The column after column i and its fields.
  size_t hash_column(size_t i, int64_t begin, int64_t n, uint64_t* out, uint64_t* scratch) const {
    const column_view& c = given_.columns[i];
    if (type_.columns[i].kind != family::structure) {
      if (c.values)
        hash_dictionary(i, begin, n, out);
      else
        hash_cells(c, begin, n, root_, out);
      return i + 1;
    }
    std::fill_n(out, n, contract::key_of(root_, contract::row));
    size_t next = i + 1;
    for (uint32_t field = 0; field < type_.columns[i].fields; ++field) {
      next = hash_column(next, begin, n, scratch, scratch + block);
      for (int64_t row = 0; row < n; ++row) out[row] = contract::next_field(out[row], scratch[row]);
    }
    if (i > 0)  // a field of the row that column 0 is
      for (int64_t row = 0; row < n; ++row) out[row] = contract::of_inner_row(out[row]);
    set_nulls(c, begin, n, contract::of_null(root_), out);
    return next;
  }

  void hash_dictionary(size_t column, int64_t begin, int64_t n, uint64_t* out) const {
    const column_view& c = given_.columns[column];
    const std::vector<uint64_t>& known = values_[column];
    const uint64_t null = contract::of_null(root_);
    for (int64_t i = 0; i < n; ++i) {
      if (!c.valid(begin + i)) {
        out[i] = null;
        continue;
      }
      const int64_t value = c.dictionary_index(begin + i);
      if (known.empty())
        hash_cells(*c.values, value, 1, root_, out + i);
      else
        out[i] = known[size_t(value)];
    }
  }

  const row_type& type_;
  const rows& given_;
  const uint64_t root_;
  std::vector<std::vector<uint64_t>> values_;  // the hash of each value of a dictionary, by column
};

// Words of scratch that a half_hash of rows of this type takes.
size_t scratch_of(const row_type& type) {
  const auto depths = size_t(std::count_if(type.columns.begin(), type.columns.end(),
                                           [](const column_type& t) { return t.kind == family::structure; }));
  return (std::min(depths, size_t(most_depth)) + 1) * size_t(block);
}

}  // namespace

contract::kind kind_of(family f) {
  switch (f) {
    case family::null: return contract::null;
    case family::boolean: return contract::boolean;
    case family::integer:
    case family::floating: return contract::integer;
    case family::instant: return contract::instant;
    case family::zoned_instant: return contract::zoned_instant;
    case family::time_of_day: return contract::time_of_day;
    case family::duration: return contract::duration;
    case family::decimal: return contract::decimal;
    case family::text: return contract::text;
    case family::bytes: return contract::bytes;
    case family::structure: return contract::row;
  }
  return contract::null;
}

// As plugins choose theirs (kit/plugin.hpp).
bool has_avx2() {
#if defined(__x86_64__)
  static const bool has = [] {
    __builtin_cpu_init();
    const char* most = secure_getenv("GPUHASH_ISA");
    const bool wanted = most == nullptr || !std::strcmp(most, "avx2") || !std::strcmp(most, "avx512");
    return wanted && __builtin_cpu_supports("avx2");
  }();
  return has;
#else
  return false;
#endif
}

void hash_rows(const row_type& type, const rows& given, uint32_t bits, uint64_t seed, uint32_t threads, uint64_t* out) {
  std::vector<half_hash> halves;
  halves.reserve(2);
  for (uint32_t half = 0; half < bits / 64; ++half)
    halves.emplace_back(type, given, contract::root(seed, half), threads);
  in_pieces(threads, given.length, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> memory(scratch_of(type) + size_t(block));
    uint64_t* const scratch = &memory[size_t(block)];
    for (; begin < end; begin += block) {
      const int64_t n = std::min(block, end - begin);
      if (bits == 64) {
        halves[0](begin, n, out + begin, scratch);
        continue;
      }
      for (size_t half = 0; half < 2; ++half) {
        halves[half](begin, n, memory.data(), scratch);
        for (int64_t i = 0; i < n; ++i) out[2 * (begin + i) + int64_t(half)] = memory[size_t(i)];
      }
    }
  });
}

void hash_blocks(const row_type& type, const rows& given, uint64_t seed, uint32_t threads,
                 void (*serve)(void* context, int64_t begin, int64_t n, const uint64_t* hashes), void* context) {
  const half_hash hash(type, given, contract::root(seed, 0), threads);
  in_pieces(threads, given.length, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> memory(scratch_of(type) + size_t(block));
    for (; begin < end; begin += block) {
      const int64_t n = std::min(block, end - begin);
      hash(begin, n, memory.data(), &memory[size_t(block)]);
      serve(context, begin, n, memory.data());
    }
  });
}

}  // namespace gpuhash::columns
