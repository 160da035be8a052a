// gpuhash_join of <gpuhash/columns.h>: arguments are checked here.
#include "libgpuhash/columns/cuda/join.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

namespace {

gpuhash_status read_request(const gpuhash_join_request* given, gpuhash_join_request* r, gpuhash_error* err) {
  if (const auto s = read_struct(given, *r, "request", "GPUHASH_JOIN_REQUEST_INIT", sizeof(*r), err)) return s;
  if (r->key_bytes != 4 && r->key_bytes != 8)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.key_bytes is %u; keys have 4 or 8 bytes", r->key_bytes);
  if (r->keep > 1)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.keep is %u; it is 0, or 1: left rows that meet no right row are kept", r->keep);
  if (r->n_left > most_rows || r->n_right > most_rows - r->n_left)
    return fail(err, GPUHASH_UNSUPPORTED,
                "request.n_left is %zu and n_right %zu; one call takes at most 2^31 rows of both: use a table",
                r->n_left, r->n_right);
  return GPUHASH_OK;
}

size_t scratch_of(const gpuhash_join_request& r) {
  const size_t n = r.n_left + r.n_right;
  return n ? plan_groups(n, r.key_bytes, join_wants()).bytes : 0;
}

// Does the request say where everything is?
gpuhash_status check_memory_of(const gpuhash_join_request& r, gpuhash_error* err) {
  if (r.out_facts == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.out_facts is NULL");
  const size_t bytes = scratch_of(r);
  if (bytes == 0) return GPUHASH_OK;
  if (r.scratch_bytes < bytes)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.scratch_bytes is %zu, and the call takes %zu: ask gpuhash_join_scratch", r.scratch_bytes,
                bytes);
  if (r.out_first == nullptr || r.scratch == nullptr || (r.n_right && r.right == nullptr))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.right, out_first or scratch is NULL");
  if (r.n_left && (r.left == nullptr || r.out_left == nullptr || r.out_right == nullptr))
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.left, out_left or out_right is NULL");
  if (uintptr_t(r.scratch) % 256 != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is %p, which is not aligned to 256 bytes", r.scratch);
  if (uintptr_t(r.left) % r.key_bytes != 0 || uintptr_t(r.right) % r.key_bytes != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.left is %p and right %p; keys are aligned to %u bytes", r.left,
                r.right, r.key_bytes);
  return GPUHASH_OK;
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
    if (const auto s = check_memory_of(r, err)) return s;
    if (r.device.kind != GPUHASH_CUDA)
      return fail(err, GPUHASH_UNSUPPORTED, "gpuhash_join is for CUDA devices; on the CPU use a gpuhash_index");
    if (const auto s = resolve_device(r.device, err)) return s;
    if (join_on_cuda == nullptr)
      return fail(err, GPUHASH_UNSUPPORTED,
                  "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
    return join_on_cuda({r.device.ordinal, r.left, r.right, r.n_left, r.n_right, r.key_bytes, r.keep != 0, r.seed,
                         r.out_first, r.out_left, r.out_right, r.out_facts, r.scratch, r.stream},
                        err);
  });
}

}  // extern "C"
