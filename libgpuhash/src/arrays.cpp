// Checks of the arrays of one call: see arrays.hpp.
#include "libgpuhash/src/arrays.hpp"

#include <cstdint>

#include "libgpuhash/src/cuda_driver.hpp"
#include "libgpuhash/src/device.hpp"

namespace gpuhash {

void array_check::refuse_null(const array& a) {
  if (status_ == GPUHASH_OK)
    status_ = fail(err_, GPUHASH_INVALID_ARGUMENT, "%s is NULL, but %zu elements of %zu bytes are asked for", a.name,
                   a.count, a.element_bytes);
}

gpuhash_status array_check::check_one(const array& a) {
  const auto begin = reinterpret_cast<uintptr_t>(a.data);
  size_t bytes = 0;
  if (__builtin_mul_overflow(a.count, a.element_bytes, &bytes) || bytes > PTRDIFF_MAX || begin + bytes < begin)
    return fail(err_, GPUHASH_INVALID_ARGUMENT, "%s: %zu elements of %zu bytes overflow the address space", a.name,
                a.count, a.element_bytes);
  const size_t alignment = alignment_of(a.element_bytes);
  if ((begin & (alignment - 1)) != 0)
    return fail(err_, GPUHASH_INVALID_ARGUMENT, "%s (%p) is not aligned to its elements of %zu bytes", a.name, a.data,
                alignment);
  return GPUHASH_OK;
}

gpuhash_status array_check::check_overlap(const array& a, const array& b) {
  const auto a_begin = reinterpret_cast<uintptr_t>(a.data), b_begin = reinterpret_cast<uintptr_t>(b.data);
  if (a_begin >= b_begin + b.count * b.element_bytes || b_begin >= a_begin + a.count * a.element_bytes)
    return GPUHASH_OK;
  const bool a_written = a.written;
  return fail(err_, GPUHASH_INVALID_ARGUMENT, "%s (%p) overlaps %s (%p); an output needs memory of its own",
              (a_written ? a : b).name, (a_written ? a : b).data, (a_written ? b : a).name, (a_written ? b : a).data);
}

gpuhash_status array_check::check_device(const array& a) {
  if (device_.kind == GPUHASH_CPU && cpu_reaches(a.data)) return GPUHASH_OK;
  const reach r = reach_of(a.data);
  if (device_.kind == GPUHASH_CUDA && (r.cuda == any_cuda || r.cuda == device_.ordinal)) return GPUHASH_OK;
  const gpuhash_device home = r.cpu ? gpuhash_device{GPUHASH_CPU, 0} : gpuhash_device{GPUHASH_CUDA, r.cuda};
  return fail(err_, GPUHASH_INVALID_ARGUMENT, "%s (%p) is memory of %s, but the table is on %s; copy it there first",
              a.name, a.data, device_name(home).text, device_name(device_).text);
}

gpuhash_status array_check::result() {
  if (status_ != GPUHASH_OK) return status_;
  for (int i = 0; i < n_; ++i)
    if (const auto status = check_one(arrays_[i])) return status;
  for (int i = 0; i < n_; ++i)
    for (int j = 0; j < i; ++j)
      if (arrays_[i].written || arrays_[j].written)
        if (const auto status = check_overlap(arrays_[i], arrays_[j])) return status;
  if (known_driver() != nullptr)  // without a driver every pointer is the CPU's
    for (int i = 0; i < n_; ++i)
      if (const auto status = check_device(arrays_[i])) return status;
  return GPUHASH_OK;
}

}  // namespace gpuhash
