// The CUDA driver, opened at run time: see cuda_driver.hpp.
#include "libgpuhash/src/cuda_driver.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>
#include <string_view>

#include "libgpuhash/src/fork.hpp"

namespace gpuhash {
namespace {

constexpr const char* library = "libcuda.so.1";

template <class Function>
bool find(void* module, const char* name, Function& out) {
  out = reinterpret_cast<Function>(dlsym(module, name));
  return out != nullptr;
}

// The name of the first function that is missing, or NULL.
const char* bind_staging(void* module, gpuhash_staging_calls& calls) {
  calls.struct_size = sizeof calls;
  if (!find(module, "cuMemcpyAsync", calls.memcpy_async)) return "cuMemcpyAsync";
  if (!find(module, "cuMemsetD8Async", calls.memset_async)) return "cuMemsetD8Async";
  if (!find(module, "cuEventRecord", calls.event_record)) return "cuEventRecord";
  if (!find(module, "cuEventQuery", calls.event_query)) return "cuEventQuery";
  if (!find(module, "cuEventSynchronize", calls.event_synchronize)) return "cuEventSynchronize";
  if (!find(module, "cuStreamWaitEvent", calls.stream_wait_event)) return "cuStreamWaitEvent";
  if (!find(module, "cuStreamSynchronize", calls.stream_synchronize)) return "cuStreamSynchronize";
  if (!find(module, "cuStreamIsCapturing", calls.stream_is_capturing)) return "cuStreamIsCapturing";
  return nullptr;
}

const char* bind(void* module, cuda_driver& d) {
  if (!find(module, "cuInit", d.init)) return "cuInit";
  if (!find(module, "cuGetErrorString", d.get_error_string)) return "cuGetErrorString";
  if (!find(module, "cuDriverGetVersion", d.driver_version)) return "cuDriverGetVersion";
  if (!find(module, "cuDeviceGetCount", d.device_count)) return "cuDeviceGetCount";
  if (!find(module, "cuDeviceGet", d.device_get)) return "cuDeviceGet";
  if (!find(module, "cuDeviceGetName", d.device_name)) return "cuDeviceGetName";
  if (!find(module, "cuDeviceTotalMem_v2", d.device_memory)) return "cuDeviceTotalMem_v2";
  if (!find(module, "cuDeviceGetAttribute", d.device_attribute)) return "cuDeviceGetAttribute";
  if (!find(module, "cuPointerGetAttributes", d.pointer_attributes)) return "cuPointerGetAttributes";
  return bind_staging(module, d.staging);
}

void give_reason(cuda_driver& d, const char* call, int code) {
  std::snprintf(d.reason, sizeof d.reason, "%s says: %s (%d)", call, d.text_of(code), code);
}

void open_driver(cuda_driver& d) {
  void* module = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    std::snprintf(d.reason, sizeof d.reason, "no CUDA driver is installed (%s)", dlerror());
    return;
  }
  if (const char* missing = bind(module, d)) {
    std::snprintf(d.reason, sizeof d.reason, "%s has no %s: the driver is too old", library, missing);
    return;
  }
  if (const int code = d.init(0)) return give_reason(d, "cuInit", code);
  if (const int code = d.device_count(&d.count)) {
    d.count = 0;
    return give_reason(d, "cuDeviceGetCount", code);
  }
  if (d.count == 0) std::snprintf(d.reason, sizeof d.reason, "the driver sees no device");
}

// The states live for ever: other threads may still ask while the process exits.
std::atomic<const cuda_driver*> opened{nullptr};    // by driver()
std::atomic<const cuda_driver*> borrowed{nullptr};  // by borrow_driver()
uint64_t opened_in = 0;

constexpr cuda_driver forked_driver = [] {
  constexpr std::string_view why =
      "this process was forked after CUDA had been initialised; start it with spawn instead of fork";
  cuda_driver d{};
  std::copy(why.begin(), why.end(), d.reason);
  return d;
}();

}  // namespace

const char* cuda_driver::text_of(result code) const {
  const char* text = nullptr;
  return get_error_string(code, &text) == 0 && text != nullptr ? text : "unknown error";
}

const cuda_driver& driver() {
  const cuda_driver* d = opened.load(std::memory_order_acquire);
  if (d == nullptr) {
    const std::lock_guard lock(library_lock[driver_lock]);
    d = opened.load(std::memory_order_relaxed);
    if (d == nullptr) {
      auto* fresh = new cuda_driver{};
      open_driver(*fresh);
      opened_in = fork_generation;
      opened.store(d = fresh, std::memory_order_release);
    }
  }
  return d->count != 0 && opened_in != fork_generation ? forked_driver : *d;
}

const cuda_driver* known_driver() {
  if (const cuda_driver* d = opened.load(std::memory_order_acquire)) return d->count != 0 ? d : nullptr;
  return borrowed.load(std::memory_order_acquire);
}

const cuda_driver* borrow_driver() {
  if (const cuda_driver* d = known_driver()) return d;
  const std::lock_guard lock(library_lock[driver_lock]);  // the child of a fork during a dlopen could open nothing
  void* module = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
  if (module == nullptr) return nullptr;
  auto* fresh = new cuda_driver{};
  const cuda_driver* expected = nullptr;
  if (bind(module, *fresh) == nullptr && borrowed.compare_exchange_strong(expected, fresh)) return fresh;
  delete fresh;
  return expected;
}

}  // namespace gpuhash
