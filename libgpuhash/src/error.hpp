// Errors: every refusal is a status code and one sentence, written into the caller's gpuhash_error.
#pragma once

#include <cstddef>

#include "gpuhash/gpuhash.h"

namespace gpuhash {

/// Write `code` and the formatted sentence into `err` (which may be NULL) and return `code`. Writes no further than
/// err->struct_size allows, and always ends the message with a zero byte.
[[gnu::format(printf, 3, 4), gnu::cold]] gpuhash_status fail(gpuhash_error* err, gpuhash_status code,
                                                             const char* format, ...);

/// Empty err, which may be NULL and may hold what an earlier call said. Every function of the C ABI that takes one
/// begins so: after a call that is OK it says OK.
inline void clear(gpuhash_error* err) {
  if (err == nullptr) return;
  constexpr size_t message_at = offsetof(gpuhash_error, message);
  if (err->struct_size >= message_at) [[likely]]
    err->code = GPUHASH_OK;
  if (err->struct_size > message_at) [[likely]]
    err->message[0] = 0;
}

/// Run `body`, which returns a gpuhash_status, and turn exceptions into codes: none may cross the C ABI. Empties err.
template <class Body>
gpuhash_status guarded(gpuhash_error* err, Body&& body) noexcept;

/// The catch clauses of guarded(), out of line.
[[gnu::cold]] gpuhash_status fail_from_exception(gpuhash_error* err) noexcept;

template <class Body>
gpuhash_status guarded(gpuhash_error* err, Body&& body) noexcept {
  clear(err);
  try {
    return body();
  } catch (...) {
    return fail_from_exception(err);
  }
}

}  // namespace gpuhash
