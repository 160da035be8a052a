// What the cells of a column are: an ArrowSchema, read once, checked, and flattened.
//
// A row is one column, or a struct of columns. Structs in structs are flattened as well: `columns` lists them before
// their children, each with the number of the struct that it is a field of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gpuhash/columns.h"
#include "libgpuhash/src/error.hpp"

namespace gpuhash::columns {

// Cells of two families are never equal, but for integers and floats.
enum class family : uint8_t {
  null,  // of any family: all cells are null
  boolean,
  integer,
  floating,
  instant,        // dates, timestamps without a time zone
  zoned_instant,  // timestamps with a time zone
  time_of_day,
  duration,
  decimal,
  text,
  bytes,
  structure  // has no cells but its validity
};

// How the cells lie in their buffers.
enum class layout : uint8_t { none, bits, fixed, fixed_bytes, offsets32, offsets64, views };

struct column_type {
  family kind = family::null;
  layout how = layout::none;
  uint32_t width = 0;        // bytes of a fixed cell
  bool is_signed = false;    // integers
  bool nullable = true;      // a field that is not is written back so
  int64_t nanoseconds = 0;   // of one tick of a time; 0: no time
  int32_t scale = 0;         // decimals
  bool dictionary = false;   // cells are numbers of values, which are of this type;
  uint32_t index_width = 0;  // so many bytes wide,
  bool index_signed = false;
  int32_t parent = -1;                                          // the struct that it is a field of
  uint32_t fields = 0;                                          // of a struct
  std::string format;                                           // Arrow's, of the cells or of a dictionary's values
  std::string name;                                             // the field's
  bool variable() const { return how >= layout::fixed_bytes; }  // bytes of any number, or of the column's own
  bool holds(size_t bytes) const { return how != layout::fixed_bytes || bytes == width; }  // of text and bytes
  uint32_t words() const {  // of 8 bytes in an encoded row
    return kind == family::decimal ? 2 : kind == family::structure || kind == family::null ? 0 : 1;
  }
};

struct row_type {
  std::vector<column_type> columns;
  bool single() const { return columns.size() == 1; }
};

constexpr size_t most_columns = 4096;
constexpr int most_depth = 32;

/// Reads a schema. UNSUPPORTED names a type that has no equality here, INVALID_ARGUMENT a struct that is no schema.
gpuhash_status read_type(const ArrowSchema* schema, row_type* out, gpuhash_error* err);

/// May rows of type `given` be looked up among those of `own`? INVALID_ARGUMENT names the two columns that never match.
/// bits: floats compare by their bits, and with floats of their width alone.
gpuhash_status match(const row_type& given, const row_type& own, bool bits, gpuhash_error* err);

/// For messages: "int64", "text", "timestamp[ms]".
std::string describe(const column_type& type);
/// "column 'x'", or "the column" of rows without fields.
std::string place(const row_type& type, size_t column);

}  // namespace gpuhash::columns
