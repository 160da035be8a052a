// The cells of a column of text or bytes, by their layout.
#pragma once

#include <algorithm>

#include "libgpuhash/columns/keys.hpp"
#include "libgpuhash/columns/rows.hpp"

namespace gpuhash::columns {

/// Where a text begins, its length, and where the memory ends that may be read.
struct text {
  const char* begin;
  uint32_t length;
  const char* end;
};

/// The texts of a column that are not null.
template <layout how>
class texts_of {
 public:
  explicit texts_of(const column_view& c) : column_(c) {}
  uint32_t length(int64_t row) const {
    return uint32_t((static_cast<const view_cell*>(column_.data) + column_.first + row)->length);
  }
  text operator[](int64_t row) const {
    const std::string_view s = viewed(column_, row);
    return {s.data(), uint32_t(s.size()), s.data() + std::max<size_t>(s.size(), bytes_key::head_bytes)};
  }

 private:
  const column_view& column_;
};
template <class Offset>
class texts_between {
 public:
  explicit texts_between(const column_view& c)
      : offsets_(static_cast<const Offset*>(c.offsets) + c.first),
        data_(static_cast<const char*>(c.data)),
        end_(c.end) {}
  uint32_t length(int64_t row) const { return uint32_t(offsets_[row + 1] - offsets_[row]); }
  text operator[](int64_t row) const {
    return {data_ + offsets_[row], uint32_t(offsets_[row + 1] - offsets_[row]), end_};
  }

 private:
  const Offset* offsets_;
  const char *data_, *end_;
};
template <>
class texts_of<layout::offsets32> : public texts_between<int32_t> {
  using texts_between::texts_between;
};
template <>
class texts_of<layout::offsets64> : public texts_between<int64_t> {
  using texts_between::texts_between;
};

}  // namespace gpuhash::columns
