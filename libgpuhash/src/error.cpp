// Errors: see error.hpp. Also gpuhash_status_name.
#include "libgpuhash/src/error.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <new>

namespace gpuhash {

gpuhash_status fail(gpuhash_error* err, gpuhash_status code, const char* format, ...) {
  if (err == nullptr) return code;
  constexpr size_t message_at = offsetof(gpuhash_error, message);
  if (err->struct_size >= message_at) err->code = code;
  if (err->struct_size > message_at) {
    // The struct ends with padding, which is not for the message.
    const size_t room = std::min(err->struct_size - message_at, sizeof(err->message));
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(err->message, room, format, arguments);
    va_end(arguments);
  }
  return code;
}

gpuhash_status fail_from_exception(gpuhash_error* err) noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(err, GPUHASH_NO_MEMORY, "no host memory was left for the library's own bookkeeping");
  } catch (const std::exception& e) {
    return fail(err, GPUHASH_INTERNAL, "internal error, please report it: %s", e.what());
  } catch (...) {
    return fail(err, GPUHASH_INTERNAL, "internal error, please report it: an exception of unknown type");
  }
}

}  // namespace gpuhash

extern "C" const char* gpuhash_status_name(gpuhash_status status) {
  switch (status) {
    case GPUHASH_OK: return "OK";
    case GPUHASH_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case GPUHASH_UNSUPPORTED: return "UNSUPPORTED";
    case GPUHASH_NO_MEMORY: return "NO_MEMORY";
    case GPUHASH_FULL: return "FULL";
    case GPUHASH_NOT_FOUND: return "NOT_FOUND";
    case GPUHASH_DEVICE_ERROR: return "DEVICE_ERROR";
    case GPUHASH_POISONED: return "POISONED";
    case GPUHASH_FORKED: return "FORKED";
    case GPUHASH_PLUGIN_ERROR: return "PLUGIN_ERROR";
    case GPUHASH_CORRUPT: return "CORRUPT";
    case GPUHASH_INTERNAL: return "INTERNAL";
  }
  return "UNKNOWN_STATUS";
}
