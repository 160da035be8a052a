// Normal forms: what a cell becomes before cells are compared, so that equal ones have equal bits (columns.h says what
// is equal). A number or time is one word of 8 bytes in terms of the index's own type, a decimal two, text and bytes
// are themselves. A row of several columns is encoded into bytes:
//
//   | one bit for each column: null | the words of each column, the length for text and bytes | the bytes of these |
//
// A cell that the index's own type cannot hold has no normal form, and so no equal in the index.
#pragma once

#include <cmath>
#include <cstring>

#include "libgpuhash/columns/rows.hpp"

namespace gpuhash::columns {

using wide = __int128;

inline double half_to_double(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return h >> 15 ? -size : size;
}

/// The half of a number that is one exactly, as half_to_double gives it.
inline uint16_t double_to_half(double d) {
  const auto sign = uint16_t(std::signbit(d) ? 0x8000 : 0);
  if (std::isnan(d)) return 0x7e00;
  const double size = std::fabs(d);
  if (std::isinf(size)) return uint16_t(sign | 0x7c00);
  if (size < std::ldexp(1, -14)) return uint16_t(sign | uint16_t(std::ldexp(size, 24)));
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // .5 to 1
  return uint16_t(sign | (exponent + 14) << 10 | (uint16_t(std::ldexp(fraction, 11)) & 1023));
}

inline bool is_half(double d) {
  const double size = std::fabs(d);
  if (!(size < INFINITY)) return true;
  return size <= 65504 && (size == 0 || size >= std::ldexp(1, -24)) && half_to_double(double_to_half(d)) == d;
}

inline wide integer_cell(const column_view& c, int64_t row) {
  switch (c.type->width) {
    case 1: return c.type->is_signed ? wide(c.cell<int8_t>(row)) : wide(c.cell<uint8_t>(row));
    case 2: return c.type->is_signed ? wide(c.cell<int16_t>(row)) : wide(c.cell<uint16_t>(row));
    case 4: return c.type->is_signed ? wide(c.cell<int32_t>(row)) : wide(c.cell<uint32_t>(row));
    case 8: return c.type->is_signed ? wide(c.cell<int64_t>(row)) : wide(c.cell<uint64_t>(row));
    default: return c.cell<wide>(row);
  }
}

inline double float_cell(const column_view& c, int64_t row) {
  switch (c.type->width) {
    case 2: return half_to_double(c.cell<uint16_t>(row));
    case 4: return c.cell<float>(row);
    default: return c.cell<double>(row);
  }
}

inline bool fits(wide v, const column_type& own) {
  const int bits = int(8 * own.width);
  if (own.is_signed) return v >= -(wide(1) << (bits - 1)) && v < wide(1) << (bits - 1);
  return v >= 0 && v < wide(1) << bits;
}

inline bool fits(double d, const column_type& own) {
  if (own.width == 8 || std::isnan(d)) return true;
  return own.width == 4 ? double(float(d)) == d : is_half(d);
}

inline uint64_t word_of(double d) {
  if (std::isnan(d)) return 0x7ff8000000000000;
  d += 0.0;  // of the two zeros, the positive one
  uint64_t w;
  std::memcpy(&w, &d, sizeof(w));
  return w;
}

inline double double_of(uint64_t w) {
  double d;
  std::memcpy(&d, &w, sizeof(d));
  return d;
}

/// A decimal's digits at another scale.
inline bool rescale(wide* v, int from, int to) {
  for (; from < to; ++from)
    if (__builtin_mul_overflow(*v, wide(10), v)) return false;
  for (; from > to; --from) {
    if (*v % 10 != 0) return false;
    *v /= 10;
  }
  return true;
}

/// The word, or the two words, of a cell that is not null. False: `own` cannot hold it. bits: floats compare by their
/// bits.
inline bool read_word(const column_view& c, int64_t row, const column_type& own, bool bits, uint64_t* words) {
  const column_type& t = *c.type;
  if (t.kind == family::null || own.kind == family::null) return false;
  wide v = 0;
  switch (own.kind) {
    case family::boolean: {
      const auto at = uint64_t(c.first + row);
      words[0] = static_cast<const uint8_t*>(c.data)[at >> 3] >> (at & 7) & 1;
      return true;
    }
    case family::floating: {
      if (bits) return words[0] = uint64_t(integer_cell(c, row)), true;
      double d;
      if (t.kind == family::integer) {
        v = integer_cell(c, row);
        d = double(v);
        if (wide(d) != v) return false;
      } else {
        d = float_cell(c, row);
      }
      words[0] = word_of(d);
      return fits(d, own);
    }
    case family::decimal:
      v = integer_cell(c, row);
      if (!rescale(&v, t.scale, own.scale) || (own.width < 16 && !fits(v, own))) return false;
      words[0] = uint64_t(v);
      words[1] = uint64_t(v >> 64);
      return true;
    case family::integer:
      if (t.kind == family::floating) {
        const double d = float_cell(c, row);
        if (!(d >= -0x1p63 && d < 0x1p64) || d != std::floor(d)) return false;
        v = wide(d);
      } else {
        v = integer_cell(c, row);
      }
      break;
    default:
      v = integer_cell(c, row);
      if (t.nanoseconds != own.nanoseconds) {
        v *= t.nanoseconds;
        if (v % own.nanoseconds != 0) return false;
        v /= own.nanoseconds;
      }
  }
  words[0] = uint64_t(v);
  return fits(v, own);
}

/// What a row is to an index.
enum class found_as : uint8_t { key, null, absent };

/// Encodes rows of several columns, or of one whose cells are more than a word.
class encoder {
 public:
  /// column: of rows of one column, that column, or the values of its dictionary.
  encoder(const rows& given, const column_view& column, const row_type& own, bool bits)
      : given_(given), column_(column), own_(own), bits_(bits) {
    for (const column_type& t : own.columns) words_ += t.words();
  }
  size_t fixed_bytes() const { return (own_.columns.size() + 7) / 8 + 8 * words_; }
  /// Bytes of row `row`, at least; exactly, if none of its fields is null.
  size_t bytes(int64_t row) const {
    size_t n = fixed_bytes();
    for (size_t i = 0; i < own_.columns.size(); ++i)
      if (own_.columns[i].variable()) n += bytes_of(i, row);
    return n;
  }
  /// Bytes of a cell of text or bytes.
  size_t bytes_of(size_t i, int64_t row) const {
    const column_view* const c = source(i, &row);
    return c ? c->string(row).size() : 0;
  }
  /// Write row `row`, which takes *n bytes.
  found_as write(int64_t row, char* to, size_t* n) const {
    const size_t columns = own_.columns.size(), bitmap = (columns + 7) / 8;
    std::memset(to, 0, bitmap);
    char* word = to + bitmap;
    char* tail = to + fixed_bytes();
    found_as what = found_as::key;
    for (size_t i = 0; i < columns; ++i) {
      write_cell(i, row, to, word, &tail, &what);
      word += 8 * own_.columns[i].words();
    }
    *n = size_t(tail - to);
    return what;
  }
  /// Write one cell of row `to`, whose cells before it are there. word: where its words belong; *tail: the end of the row
  /// until now, where its bytes do.
  void write_cell(size_t i, int64_t row, char* to, char* word, char** tail, found_as* what) const {
    const column_type& own = own_.columns[i];
    uint64_t w[2] = {};
    const column_view* const c = source(i, &row);
    if (c == nullptr || (own.parent >= 0 && is_null(to, size_t(own.parent)))) {
      to[i >> 3] = char(to[i >> 3] | 1 << (i & 7));
      if (*what == found_as::key) *what = found_as::null;
    } else if (own.variable() && c->type->variable()) {
      const std::string_view s = c->string(row);
      const bool held = own.holds(s.size());
      w[0] = held ? s.size() : 0;
      if (!held) *what = found_as::absent;
      if (w[0]) std::memcpy(*tail, s.data(), w[0]);
      *tail += w[0];
    } else if (own.kind != family::structure) {
      if (!read_word(*c, row, own, bits_, w)) *what = found_as::absent;
    }
    std::memcpy(word, w, 8 * own.words());
  }
  static bool is_null(const char* encoded, size_t column) { return encoded[column >> 3] >> (column & 7) & 1; }

 private:
  // Where the cell of a column lies, in the column or in its dictionary; NULL: it is null.
  const column_view* source(size_t i, int64_t* row) const {
    const column_view* c = own_.single() ? &column_ : &given_.columns[i < given_.columns.size() ? i : 0];
    // There may be one of nulls alone.
    if (!c->valid(*row) || c->type->kind == family::null) return nullptr;
    if (!c->values) return c;
    *row = c->dictionary_index(*row);
    return c->values->valid(*row) ? c->values.get() : nullptr;
  }

  const rows& given_;
  const column_view& column_;
  const row_type& own_;
  bool bits_;
  size_t words_ = 0;
};

}  // namespace gpuhash::columns
