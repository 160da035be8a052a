// gpuhash_isin of <gpuhash/columns.h>: arguments are checked here.
#include "libgpuhash/columns/cuda/isin.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

namespace {

gpuhash_status read_request(const gpuhash_isin_request* given, gpuhash_isin_request* r, gpuhash_error* err) {
  if (const auto s = read_struct(given, *r, "request", "GPUHASH_ISIN_REQUEST_INIT", sizeof(*r), err)) return s;
  if (r->key_bytes != 4 && r->key_bytes != 8)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.key_bytes is %u; keys have 4 or 8 bytes", r->key_bytes);
  if (r->reserved != 0)
    return fail(err, GPUHASH_UNSUPPORTED, "request.reserved is %u, which means nothing: set it to 0", r->reserved);
  if (r->n_among > most_others)
    return fail(err, GPUHASH_UNSUPPORTED, "request.n_among is %zu; one call takes at most 2^29 others: use a table",
                r->n_among);
  return GPUHASH_OK;
}

// Does the request have all arrays that it needs?
gpuhash_status check_memory_of(const gpuhash_isin_request& r, gpuhash_error* err) {
  if (r.n == 0) return GPUHASH_OK;
  if (r.keys == nullptr || r.out == nullptr || (r.among == nullptr && r.n_among))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.keys, among or out is NULL");
  if (uintptr_t(r.keys) % r.key_bytes != 0 || uintptr_t(r.among) % r.key_bytes != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.keys is %p and among %p; keys are aligned to %u bytes", r.keys,
                r.among, r.key_bytes);
  const size_t bytes = isin_scratch(r.n, r.n_among, r.key_bytes);
  if (bytes == 0) return GPUHASH_OK;
  if (r.scratch_bytes < bytes)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.scratch_bytes is %zu, and the call takes %zu: ask gpuhash_isin_scratch", r.scratch_bytes,
                bytes);
  if (r.scratch == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is NULL");
  if (uintptr_t(r.scratch) % 256 != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is %p, which is not aligned to 256 bytes", r.scratch);
  return GPUHASH_OK;
}

}  // namespace

extern "C" {

gpuhash_status gpuhash_isin_scratch(const gpuhash_isin_request* request, size_t* bytes, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (bytes == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "bytes is NULL");
    gpuhash_isin_request r = GPUHASH_ISIN_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    *bytes = isin_scratch(r.n, r.n_among, r.key_bytes);
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_isin(const gpuhash_isin_request* request, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    gpuhash_isin_request r = GPUHASH_ISIN_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    if (const auto s = check_memory_of(r, err)) return s;
    if (r.device.kind != GPUHASH_CUDA)
      return fail(err, GPUHASH_UNSUPPORTED, "gpuhash_isin is for CUDA devices; on the CPU use a gpuhash_index");
    if (const auto s = resolve_device(r.device, err)) return s;
    if (isin_on_cuda == nullptr)
      return fail(err, GPUHASH_UNSUPPORTED,
                  "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
    return isin_on_cuda(
        {r.device.ordinal, r.keys, r.n, r.among, r.n_among, r.key_bytes, r.seed, r.out, r.scratch, r.stream}, err);
  });
}

}  // extern "C"
