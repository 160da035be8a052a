// Checks of the arrays of one call: present, aligned, within the address space, on the table's device, and not
// overlapping where something is written. A call with small n takes a few hundred nanoseconds in all, so this is
// straight-line code over at most `max_arrays` entries, and every message is made out of line.
#pragma once

#include <cstddef>

#include "libgpuhash/src/error.hpp"

namespace gpuhash {

struct array {
  const char* name;
  const void* data;
  size_t count;          ///< elements
  size_t element_bytes;  ///< 0: nothing is accessed
  bool written;
};

/// Widths of 4 and 8 (and less) align to themselves, wide elements to their 4-byte words.
constexpr size_t alignment_of(size_t element_bytes) {
  return element_bytes <= 2 || element_bytes == 4 || element_bytes == 8 ? element_bytes : 4;
}

class array_check {
 public:
  array_check(gpuhash_device device, gpuhash_error* err) : device_(device), err_(err) {}

  /// An array that must be given when it has elements.
  void need(const array& a) {
    if (a.data == nullptr && a.count != 0 && a.element_bytes != 0) [[unlikely]]
      refuse_null(a);
    else
      take(a);
  }

  /// An array that may be NULL.
  void take(const array& a) {
    if (a.data == nullptr || a.count == 0 || a.element_bytes == 0) return;
    arrays_[n_++] = a;
  }

  /// The first error of the arrays, or GPUHASH_OK.
  gpuhash_status result();

 private:
  static constexpr int max_arrays = 6;

  [[gnu::cold]] void refuse_null(const array& a);
  gpuhash_status check_one(const array& a);
  gpuhash_status check_overlap(const array& a, const array& b);
  gpuhash_status check_device(const array& a);

  gpuhash_device device_;
  gpuhash_error* err_;
  gpuhash_status status_ = GPUHASH_OK;
  int n_ = 0;
  array arrays_[max_arrays];
};

}  // namespace gpuhash
