// Errors: every refusal is a status code and one sentence, written into the caller's gpuhash_error.
#pragma once

#include "gpuhash/gpuhash.h"

namespace gpuhash {

/// Write `code` and the formatted sentence into `err` (which may be NULL) and return `code`. Writes no further than
/// err->struct_size allows, and always ends the message with a zero byte.
[[gnu::format(printf, 3, 4), gnu::cold]] gpuhash_status fail(gpuhash_error* err, gpuhash_status code,
                                                             const char* format, ...);

/// Run `body`, which returns a gpuhash_status, and turn exceptions into codes: none may cross the C ABI.
template <class Body>
gpuhash_status guarded(gpuhash_error* err, Body&& body) noexcept;

/// The catch clauses of guarded(), out of line.
[[gnu::cold]] gpuhash_status fail_from_exception(gpuhash_error* err) noexcept;

template <class Body>
gpuhash_status guarded(gpuhash_error* err, Body&& body) noexcept {
  try {
    return body();
  } catch (...) {
    return fail_from_exception(err);
  }
}

}  // namespace gpuhash
