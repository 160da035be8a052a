// gpuhash_join of <gpuhash/columns.h>: arguments are checked here.
#include <cstddef>

#include "libgpuhash/columns/cuda/join.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

namespace {

gpuhash_status read_request(const gpuhash_join_request* given, gpuhash_join_request* r, gpuhash_error* err) {
  if (const auto s = read_struct(given, *r, "request", "GPUHASH_JOIN_REQUEST_INIT",
                                 offsetof(gpuhash_join_request, host_facts), err))
    return s;
  if (r->key_bytes != 4 && r->key_bytes != 8)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.key_bytes is %u; keys have 4 or 8 bytes", r->key_bytes);
  if (r->keep > 1)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.keep is %u; it is 0, or 1: left rows that meet no right row are kept", r->keep);
  if (r->n_left > most_rows || r->n_right > most_rows - r->n_left)
    return fail(err, GPUHASH_UNSUPPORTED,
                "request.n_left is %zu and n_right %zu; one call takes at most 2^31 rows of both: use a table",
                r->n_left, r->n_right);
  if (r->out_first == nullptr && r->n_right > most_right_rows)
    return fail(err, GPUHASH_UNSUPPORTED,
                "request.n_right is %zu; without out_first one call takes at most 2^30 right rows: give out_first",
                r->n_right);
  return GPUHASH_OK;
}

size_t scratch_of(const gpuhash_join_request& r) {
  return r.n_left + r.n_right ? plan_join(r.n_left, r.n_right, r.key_bytes, r.out_first == nullptr).bytes : 0;
}

// Does the request have all arrays that it needs? pairs: how many are written at most; an array of none may be NULL.
gpuhash_status check_memory_of(const gpuhash_join_request& r, uint64_t pairs, gpuhash_error* err) {
  if (r.out_facts == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.out_facts is NULL");
  const size_t bytes = scratch_of(r);
  if (bytes == 0) return GPUHASH_OK;
  if (r.scratch_bytes < bytes)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.scratch_bytes is %zu, and the call takes %zu: ask gpuhash_join_scratch", r.scratch_bytes,
                bytes);
  if (r.scratch == nullptr || (r.n_right && r.right == nullptr))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.right or scratch is NULL");
  if ((r.n_left && r.left == nullptr) || (pairs && (r.out_left == nullptr || r.out_right == nullptr)))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.left, out_left or out_right is NULL");
  if (uintptr_t(r.scratch) % 256 != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is %p, which is not aligned to 256 bytes", r.scratch);
  if (uintptr_t(r.left) % r.key_bytes != 0 || uintptr_t(r.right) % r.key_bytes != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.left is %p and right %p; keys are aligned to %u bytes", r.left,
                r.right, r.key_bytes);
  return GPUHASH_OK;
}

// The same, and is the device one with kernels for joins?
gpuhash_status check_device_of(const gpuhash_join_request& r, const char* function, gpuhash_error* err) {
  if (r.device.kind != GPUHASH_CUDA)
    return fail(err, GPUHASH_UNSUPPORTED, "%s is for CUDA devices; on the CPU use a gpuhash_index", function);
  gpuhash_device device = r.device;
  if (const auto s = resolve_device(device, err)) return s;
  if (join_on_cuda == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED,
                "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
  return GPUHASH_OK;
}

join_request request_of(const gpuhash_join_request& r) {
  return {r.device.ordinal, r.left,     r.right,     r.n_left,    r.n_right, r.key_bytes, r.keep != 0, r.seed,
          r.out_first,      r.out_left, r.out_right, r.out_facts, r.scratch, r.stream,    r.host_facts};
}

}  // namespace

extern "C" {

gpuhash_status gpuhash_join_scratch(const gpuhash_join_request* request, size_t* bytes, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (bytes == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "bytes is NULL");
    gpuhash_join_request r = GPUHASH_JOIN_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    *bytes = scratch_of(r);
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_join(const gpuhash_join_request* request, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    gpuhash_join_request r = GPUHASH_JOIN_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    if (const auto s = check_memory_of(r, r.n_left, err)) return s;
    if (const auto s = check_device_of(r, "gpuhash_join", err)) return s;
    return join_on_cuda(request_of(r), err);
  });
}

gpuhash_status gpuhash_join_pairs(const gpuhash_join_request* request, uint64_t pairs, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    gpuhash_join_request r = GPUHASH_JOIN_REQUEST_INIT;
    if (const auto s = read_request(request, &r, err)) return s;
    if (r.out_first != nullptr)
      return fail(err, GPUHASH_INVALID_ARGUMENT,
                  "request.out_first is %p; pairs are those of a gpuhash_join without it, which lists right rows",
                  static_cast<void*>(r.out_first));
    if (const auto s = check_memory_of(r, pairs, err)) return s;
    if (const auto s = check_device_of(r, "gpuhash_join_pairs", err)) return s;
    return pairs_on_cuda(request_of(r), pairs, err);
  });
}

}  // extern "C"
