// Devices: see device.hpp. The C functions gpuhash_device_* and gpuhash_pointer_device.
#include "libgpuhash/src/device.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/cuda_driver.hpp"
#include "libgpuhash/src/structs.hpp"

namespace gpuhash {

device_name::device_name(gpuhash_device device) {
  if (device.kind == GPUHASH_CPU)
    std::snprintf(text, sizeof text, "cpu");
  else
    std::snprintf(text, sizeof text, "cuda:%d", device.ordinal);
}

gpuhash_status resolve_device(gpuhash_device& device, gpuhash_error* err) {
  if (device.kind == 0) device.kind = GPUHASH_CPU;
  if (device.kind == GPUHASH_CPU) {
    if (device.ordinal == 0) return GPUHASH_OK;
    return fail(err, GPUHASH_INVALID_ARGUMENT, "device cpu:%d does not exist; the CPU is one device, ordinal 0",
                device.ordinal);
  }
  if (device.kind != GPUHASH_CUDA)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "device kind %d is unknown; use GPUHASH_CPU (1) or GPUHASH_CUDA (2)",
                device.kind);
  const cuda_driver& d = driver();
  if (d.count == 0)
    return fail(err, GPUHASH_DEVICE_ERROR, "device cuda:%d cannot be used: %s", device.ordinal, d.reason);
  if (device.ordinal < 0 || device.ordinal >= d.count)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "device cuda:%d does not exist; ordinals here are 0 to %d",
                device.ordinal, d.count - 1);
  return GPUHASH_OK;
}

reach reach_of(const void* p) {
  const cuda_driver* d = known_driver();
  if (d == nullptr) return {true, -1};
  unsigned type = 0;
  int managed = 0, ordinal = -1;
  int attributes[] = {cuda_driver::pointer_memory_type, cuda_driver::pointer_is_managed, cuda_driver::pointer_ordinal};
  void* values[] = {&type, &managed, &ordinal};
  const int code = d->pointer_attributes(3, attributes, values, reinterpret_cast<uintptr_t>(p));
  if (code != 0 || type == 0) return {true, -1};  // CUDA does not know it: ordinary host memory
  if (managed != 0 || type != cuda_driver::memory_type_device) return {true, any_cuda};
  return {false, ordinal};
}

bool cpu_reaches(const void* p) {
  constexpr size_t entries = 16;
  thread_local uintptr_t host_pages[entries] = {};
  const uintptr_t page = reinterpret_cast<uintptr_t>(p) >> 12;
  if (host_pages[page % entries] == page) return true;
  if (!reach_of(p).cpu) return false;
  host_pages[page % entries] = page;
  return true;
}

namespace {

std::string cpu_name() {
  std::string name = "CPU";
  if (std::FILE* file = std::fopen("/proc/cpuinfo", "re")) {
    char line[256];
    while (std::fgets(line, sizeof line, file) != nullptr) {
      if (std::strncmp(line, "model name", 10) != 0) continue;
      const char* value = std::strchr(line, ':');
      if (value != nullptr) name.assign(value + 2, std::strcspn(value + 2, "\n"));
      break;
    }
    std::fclose(file);
  }
  return name;
}

void describe_cpu(gpuhash_device_info& info) {
  std::snprintf(info.name, sizeof info.name, "%s", cpu_name().c_str());
  info.memory_bytes = uint64_t(sysconf(_SC_PHYS_PAGES)) * uint64_t(sysconf(_SC_PAGESIZE));
  info.units = default_threads();
}

gpuhash_status describe_cuda(int ordinal, gpuhash_device_info& info, gpuhash_error* err) {
  const cuda_driver& d = driver();
  cuda_driver::device dev = 0;
  int major = 0, minor = 0, units = 0, version = 0;
  size_t bytes = 0;
  if (d.device_get(&dev, ordinal) || d.device_name(info.name, sizeof info.name, dev) || d.device_memory(&bytes, dev) ||
      d.device_attribute(&major, cuda_driver::attribute_compute_major, dev) ||
      d.device_attribute(&minor, cuda_driver::attribute_compute_minor, dev) ||
      d.device_attribute(&units, cuda_driver::attribute_multiprocessors, dev) || d.driver_version(&version))
    return fail(err, GPUHASH_DEVICE_ERROR, "the driver does not describe cuda:%d", ordinal);
  info.memory_bytes = bytes;
  info.compute_major = uint32_t(major);
  info.compute_minor = uint32_t(minor);
  info.units = uint32_t(units);
  info.driver_version = uint32_t(version);
  return GPUHASH_OK;
}

}  // namespace
}  // namespace gpuhash

using namespace gpuhash;

extern "C" int32_t gpuhash_device_count(int32_t kind, gpuhash_error* err) {
  clear(err);
  if (kind == GPUHASH_CPU) return 1;
  if (kind != GPUHASH_CUDA) {
    fail(err, GPUHASH_INVALID_ARGUMENT, "device kind %d is unknown; use GPUHASH_CPU (1) or GPUHASH_CUDA (2)", kind);
    return 0;
  }
  const cuda_driver& d = driver();
  if (d.count == 0) fail(err, GPUHASH_DEVICE_ERROR, "%s", d.reason);
  return d.count;
}

extern "C" gpuhash_status gpuhash_device_get_info(gpuhash_device device, gpuhash_device_info* out, gpuhash_error* err) {
  return guarded(err, [&] {
    if (const auto status = check_output(out, "out", err)) return status;
    if (const auto status = resolve_device(device, err)) return status;
    gpuhash_device_info info{};
    if (device.kind == GPUHASH_CPU)
      describe_cpu(info);
    else if (const auto status = describe_cuda(device.ordinal, info, err))
      return status;
    write_struct(out, info);
    return gpuhash_status{GPUHASH_OK};
  });
}

extern "C" gpuhash_device gpuhash_pointer_device(const void* p) {
  if (p == nullptr || borrow_driver() == nullptr) return {GPUHASH_CPU, 0};
  const reach r = reach_of(p);
  return r.cpu ? gpuhash_device{GPUHASH_CPU, 0} : gpuhash_device{GPUHASH_CUDA, r.cuda};
}
