// What stadium says when pinned memory is refused, and how it lays rows out: pinned
#include <assert.h>
#include <stdarg.h>

#include "plugins/stadium/layout.hpp"
#include "plugins/stadium/pinned.hpp"

const gpuhash_host_api* gpuhash::host = nullptr;
constinit thread_local uint32_t gpuhash::threads_of_call = 1;

namespace {

gpuhash_status fail(gpuhash_error* err, gpuhash_status code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(err->message, sizeof(err->message), format, args);
  va_end(args);
  return code;
}

int pinned = 0;
int pin_some(void** p, size_t) { return *p = &pinned, ++pinned, 0; }
int pin_none(void**, size_t) { return 2; }
const char* error_text(int) { return "no luck"; }

// A host that has 4096 bytes which cannot be swapped out, and more which can.
gpuhash_status check_memory(uint64_t bytes, uint32_t cannot_be_swapped, gpuhash_error* err) {
  const bool fits = bytes <= (cannot_be_swapped ? 4096 : 1 << 20);
  return fits ? gpuhash_status(GPUHASH_OK) : fail(err, GPUHASH_NO_MEMORY, "4096 are left");
}
gpuhash_status commit_memory(void*, size_t, uint32_t, gpuhash_error*) { return GPUHASH_OK; }

}  // namespace

int main() {
  using namespace gpuhash;
  gpuhash_host_api api{};
  api.fail = fail;
  host = &api;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  if (no_pinned_memory(123456789, "no luck", &err) != GPUHASH_NO_MEMORY) return 1;
  puts(err.message);
  device_api device{};
  device.allocate_pinned = pin_some;
  device.error_text = error_text;
  void* p = nullptr;
  api.struct_size = offsetof(gpuhash_host_api, check_memory);  // a host that cannot say
  api.check_memory = check_memory;
  api.commit_memory = commit_memory;
  printf("%d", pin(device, 4097, &p, &err));
  api.struct_size = sizeof(api);
  printf(" %d", pin(device, 4096, &p, &err));
  printf(" %d %s, %d of 3 were pinned\n", pin(device, 4097, &p, &err), err.message, pinned);
  device.allocate_pinned = pin_none;
  printf("%d %.31s\n", pin(device, 1, &p, &err), err.message);
  for (const auto& [key, value] :
       {std::pair(4, 0), {4, 4}, {8, 0}, {4, 8}, {8, 4}, {8, 8}, {12, 8}, {16, 64}, {256, 256}}) {
    const slot_shape s = row_shape_of(uint32_t(key), uint32_t(value));
    printf("%d+%d: value at %u, row %u, lanes %u\n", key, value, s.value_at, s.stride, 1u << log_lanes_of(s.stride));
  }
}
