// gpuhash_group of <gpuhash/columns.h>: arguments are checked here.
#include <cstddef>

#include "libgpuhash/columns/cuda/group.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

namespace {

bool wants_aggregates(const gpuhash_group_request& r) {
  return r.out_sums != nullptr || r.out_means != nullptr || r.out_low != nullptr || r.out_high != nullptr;
}

gpuhash_status check_values_of(const gpuhash_group_request& r, gpuhash_error* err) {
  if (r.value_bytes == 0) {
    if (wants_aggregates(r))
      return fail(err, GPUHASH_INVALID_ARGUMENT,
                  "request.value_bytes is 0, and aggregates take values: set it to 4 or 8");
    return GPUHASH_OK;
  }
  if (r.value_bytes != 4 && r.value_bytes != 8)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.value_bytes is %u; values have 4 or 8 bytes", r.value_bytes);
  if (r.value_type > GPUHASH_FLOAT)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.value_type is %u; it is GPUHASH_UINT, _INT or _FLOAT",
                r.value_type);
  if (r.out_codes != nullptr)
    return fail(err, GPUHASH_UNSUPPORTED, "request has values and out_codes: ask for the codes in a call of their own");
  return GPUHASH_OK;
}

gpuhash_status read_request(const gpuhash_group_request* given, gpuhash_group_request* r, gpuhash_error* err) {
  if (const auto s =
          read_struct(given, *r, "request", "GPUHASH_GROUP_REQUEST_INIT", offsetof(gpuhash_group_request, values), err))
    return s;
  if (r->key_bytes != 4 && r->key_bytes != 8)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.key_bytes is %u; keys have 4 or 8 bytes", r->key_bytes);
  if (r->order > GPUHASH_ORDER_FIRST)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.order is %u; it is GPUHASH_ORDER_ANY or _FIRST", r->order);
  if (r->n > most_rows)
    return fail(err, GPUHASH_UNSUPPORTED, "request.n is %zu; one call takes at most 2^31 rows: use a table", r->n);
  if (r->out_first != nullptr && r->order != GPUHASH_ORDER_FIRST)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.out_first is given, and order is GPUHASH_ORDER_ANY: set it to GPUHASH_ORDER_FIRST");
  if (r->meanwhile != nullptr && r->host_groups == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.meanwhile is given, and the call does not wait: give host_groups, or leave it out");
  return check_values_of(*r, err);
}

group_wants wants_of(const gpuhash_group_request& r) {
  group_wants w{r.order == GPUHASH_ORDER_FIRST, r.out_counts != nullptr, r.out_codes != nullptr};
  w.value_bytes = r.value_bytes;
  w.value_type = r.value_type;
  w.sums = r.out_sums != nullptr;
  w.means = r.out_means != nullptr;
  const bool floats = r.value_type == GPUHASH_FLOAT, wide = r.value_bytes == 8;
  // Sums of integers of 4 bytes are exact in 8 bytes, those of 8 bytes may wrap, which a mean must not.
  w.totals.whole = !floats && (w.sums || (w.means && !wide));
  w.totals.real = floats ? w.sums || w.means : w.means && wide;
  w.totals.low = r.out_low != nullptr;
  w.totals.high = r.out_high != nullptr;
  return w;
}

size_t scratch_of(const gpuhash_group_request& r) { return r.n ? plan_groups(r.n, r.key_bytes, wants_of(r)).bytes : 0; }

// Does the request have all arrays that it needs?
gpuhash_status check_memory_of(const gpuhash_group_request& r, gpuhash_error* err) {
  if (r.groups == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.groups is NULL");
  if (r.n == 0) return GPUHASH_OK;
  const size_t bytes = scratch_of(r);
  if (r.scratch_bytes < bytes)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.scratch_bytes is %zu, and the call takes %zu: ask gpuhash_group_scratch", r.scratch_bytes,
                bytes);
  if (r.keys == nullptr || r.out_keys == nullptr || r.scratch == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.keys, out_keys or scratch is NULL");
  if (uintptr_t(r.scratch) % 256 != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is %p, which is not aligned to 256 bytes", r.scratch);
  if (uintptr_t(r.keys) % r.key_bytes != 0 || uintptr_t(r.out_keys) % r.key_bytes != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.keys is %p and out_keys %p; keys are aligned to %u bytes",
                r.keys, r.out_keys, r.key_bytes);
  if (r.value_bytes != 0 && r.values == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.values is NULL");
  if (r.value_bytes != 0 && uintptr_t(r.values) % r.value_bytes != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.values is %p; values are aligned to %u bytes", r.values,
                r.value_bytes);
  return GPUHASH_OK;
}

}  // namespace

extern "C" {

gpuhash_status gpuhash_group_scratch(const gpuhash_group_request* request, size_t* bytes, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (bytes == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "bytes is NULL");
    gpuhash_group_request r = GPUHASH_GROUP_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    *bytes = scratch_of(r);
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_group(const gpuhash_group_request* request, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    gpuhash_group_request r = GPUHASH_GROUP_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    if (const auto s = check_memory_of(r, err)) return s;
    if (r.device.kind != GPUHASH_CUDA)
      return fail(err, GPUHASH_UNSUPPORTED, "gpuhash_group is for CUDA devices; on the CPU use a gpuhash_index");
    if (const auto s = resolve_device(r.device, err)) return s;
    if (group_on_cuda == nullptr)
      return fail(err, GPUHASH_UNSUPPORTED,
                  "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
    return group_on_cuda(
        {r.device.ordinal, r.keys,       r.values,    r.n,           r.key_bytes, wants_of(r), r.seed,
         r.out_keys,       r.out_counts, r.out_codes, r.out_sums,    r.out_means, r.out_low,   r.out_high,
         r.groups,         r.scratch,    r.stream,    r.host_groups, r.out_first, r.meanwhile, r.context},
        err);
  });
}

}  // extern "C"
