// The rows of one ArrowArray: buffers that were checked once against lengths and offsets, and cells read from them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "libgpuhash/columns/type.hpp"

namespace gpuhash::columns {

struct column_view {
  const column_type* type = nullptr;
  const uint8_t* validity = nullptr;  // NULL: no cell is null
  const void* data = nullptr;         // fixed cells, bits, views, or bytes
  const void* offsets = nullptr;
  const void* const* heaps = nullptr;  // of views
  int64_t first = 0;                   // cell of row 0
  int64_t length = 0;
  const char* end = nullptr;            // of the bytes of layouts with offsets
  std::unique_ptr<column_view> values;  // of a dictionary

  bool valid(int64_t row) const {
    const auto at = uint64_t(first + row);
    return validity == nullptr || (validity[at >> 3] >> (at & 7) & 1) != 0;
  }
  template <class T>
  T cell(int64_t row) const {
    T value;
    std::memcpy(&value, static_cast<const T*>(data) + first + row, sizeof(T));
    return value;
  }
  int64_t dictionary_index(int64_t row) const {
    switch (type->index_width) {
      case 1: return type->index_signed ? int64_t(cell<int8_t>(row)) : int64_t(cell<uint8_t>(row));
      case 2: return type->index_signed ? int64_t(cell<int16_t>(row)) : int64_t(cell<uint16_t>(row));
      case 4: return type->index_signed ? int64_t(cell<int32_t>(row)) : int64_t(cell<uint32_t>(row));
      default: return cell<int64_t>(row);
    }
  }
  /// The bytes of a cell of variable width.
  std::string_view string(int64_t row) const;
};

template <class Offset>
inline std::string_view between(const column_view& c, int64_t row) {
  const auto* offsets = static_cast<const Offset*>(c.offsets) + c.first + row;
  return {static_cast<const char*>(c.data) + offsets[0], size_t(offsets[1] - offsets[0])};
}

struct view_cell {  // Arrow's: a string of up to 12 bytes, or where a longer one lies
  int32_t length;
  char head[4];
  int32_t heap, offset;
};

inline std::string_view viewed(const column_view& c, int64_t row) {
  const view_cell* v = static_cast<const view_cell*>(c.data) + c.first + row;
  if (v->length <= 12) return {v->head, size_t(v->length)};
  return {static_cast<const char*>(c.heaps[v->heap]) + v->offset, size_t(v->length)};
}

inline std::string_view column_view::string(int64_t row) const {
  switch (type->how) {
    case layout::offsets32: return between<int32_t>(*this, row);
    case layout::offsets64: return between<int64_t>(*this, row);
    case layout::views: return viewed(*this, row);
    default: return {static_cast<const char*>(data) + uint64_t(first + row) * type->width, type->width};
  }
}

struct rows {
  std::vector<column_view> columns;  // as in row_type, which has to live as long
  int64_t length = 0;
};

/// Look through an array of this type. INVALID_ARGUMENT names what is wrong with it, and the column.
gpuhash_status read_rows(const ArrowArray* array, const row_type& type, rows* out, gpuhash_error* err);

}  // namespace gpuhash::columns
