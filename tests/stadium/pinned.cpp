// What stadium says when pinned memory is refused, and how it lays rows out: pinned
#include <assert.h>
#include <stdarg.h>

#include "plugins/stadium/layout.hpp"
#include "plugins/stadium/pinned.hpp"

const gpuhash_host_api* gpuhash::host = nullptr;

namespace {

gpuhash_status fail(gpuhash_error* err, gpuhash_status code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(err->message, sizeof(err->message), format, args);
  va_end(args);
  return code;
}

}  // namespace

int main() {
  using namespace gpuhash;
  gpuhash_host_api api{};
  api.fail = fail;
  host = &api;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  if (no_pinned_memory(123456789, "no luck", &err) != GPUHASH_NO_MEMORY) return 1;
  puts(err.message);
  printf("%d %d\n", may_pin(4096), may_pin(uint64_t(1) << 60));
  for (const auto& [key, value] :
       {std::pair(4, 0), {4, 4}, {8, 0}, {4, 8}, {8, 4}, {8, 8}, {12, 8}, {16, 64}, {256, 256}}) {
    const slot_shape s = row_shape_of(uint32_t(key), uint32_t(value));
    printf("%d+%d: value at %u, row %u, lanes %u\n", key, value, s.value_at, s.stride, 1u << log_lanes_of(s.stride));
  }
}
