// gpuhash_bytes_hash and its like of <gpuhash/columns.h>: arguments are checked here.
#include "libgpuhash/columns/cuda/bytes.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/structs.hpp"

using namespace gpuhash;
using namespace gpuhash::columns;

namespace {

gpuhash_status check_offsets(const gpuhash_bytes_column& c, const char* name, gpuhash_error* err) {
  if (c.offset_bytes == 0) {
    if (c.width == 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s has neither offsets nor a width", name);
    return GPUHASH_OK;
  }
  if (c.offset_bytes != 4 && c.offset_bytes != 8)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s.offset_bytes is %u; offsets have 4 or 8 bytes", name,
                c.offset_bytes);
  if (c.width != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s.width is %u, and it has offsets: leave one out", name,
                c.width);
  if (c.offsets == nullptr || uintptr_t(c.offsets) % c.offset_bytes != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s.offsets is %p; offsets are aligned to %u bytes", name,
                c.offsets, c.offset_bytes);
  return GPUHASH_OK;
}

gpuhash_status check_column(const gpuhash_bytes_column& c, const char* name, gpuhash_error* err) {
  if (c.reserved != 0)
    return fail(err, GPUHASH_UNSUPPORTED, "request.%s.reserved is %u, which means nothing: set it to 0", name,
                c.reserved);
  if (c.n == 0) return GPUHASH_OK;
  if (const auto s = check_offsets(c, name, err)) return s;
  const bool is_float = c.offset_bytes == 0 && (c.width == 2 || c.width == 4 || c.width == 8);
  if (c.floats > 1 || (c.floats && !is_float))
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.%s.floats is %u with a width of %u; floats have 2, 4 or 8 bytes", name, c.floats, c.width);
  if (c.data == nullptr && c.offset_bytes == 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.%s.data is NULL, and it has %zu rows", name, size_t(c.n));
  return GPUHASH_OK;
}

gpuhash_status check_both(const gpuhash_bytes_request& r, gpuhash_error* err) {
  if (const auto s = check_column(r.one, "one", err)) return s;
  if (const auto s = check_column(r.other, "other", err)) return s;
  if (r.one.n > most_rows || r.other.n > most_rows - r.one.n)
    return fail(err, GPUHASH_UNSUPPORTED, "request.one.n is %zu and other.n %zu; one call takes at most 2^31 rows",
                size_t(r.one.n), size_t(r.other.n));
  if (r.one.n && r.other.n && r.one.width != r.other.width)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.one.width is %u and other.width %u: pass columns of one width",
                r.one.width, r.other.width);
  return GPUHASH_OK;
}

// Reads a request, and the memory and the device of a call with so many picked rows.
gpuhash_status read_call(const gpuhash_bytes_request* given, uint64_t picked, bytes_call& call, gpuhash_error* err) {
  gpuhash_bytes_request r = GPUHASH_BYTES_REQUEST_INIT;
  if (const auto s = read_struct(given, r, "request", "GPUHASH_BYTES_REQUEST_INIT", sizeof(r), err)) return s;
  if (const auto s = check_both(r, err)) return s;
  if (picked > most_rows)
    return fail(err, GPUHASH_UNSUPPORTED, "n is %zu; one call takes at most 2^31 rows", size_t(picked));
  const uint64_t rows = r.one.n + r.other.n;
  const size_t bytes = bytes_scratch(rows > picked ? rows : picked);
  if (r.scratch_bytes < bytes)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "request.scratch_bytes is %zu, and the call takes %zu: ask gpuhash_bytes_scratch", r.scratch_bytes,
                bytes);
  if (r.scratch == nullptr || uintptr_t(r.scratch) % 256 != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "request.scratch is %p; it is memory that is aligned to 256 bytes",
                r.scratch);
  if (r.device.kind != GPUHASH_CUDA)
    return fail(err, GPUHASH_UNSUPPORTED,
                "gpuhash_bytes_* are for CUDA devices; on the CPU a gpuhash_index takes such columns");
  if (const auto s = resolve_device(r.device, err)) return s;
  if (hash_bytes_on_cuda == nullptr)
    return fail(err, GPUHASH_UNSUPPORTED,
                "this build of gpuhash has no CUDA kernels; install one that was built with nvcc");
  call = {r.device.ordinal, r.stream, r.one, r.other, r.scratch};
  return GPUHASH_OK;
}

gpuhash_status refuse_null(const void* p, const char* name, uint64_t needed, gpuhash_error* err) {
  return p == nullptr && needed ? fail(err, GPUHASH_INVALID_ARGUMENT, "%s is NULL", name) : GPUHASH_OK;
}

}  // namespace

extern "C" {

gpuhash_status gpuhash_bytes_scratch(uint64_t rows, size_t* bytes, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (bytes == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "bytes is NULL");
    if (rows > most_rows)
      return fail(err, GPUHASH_UNSUPPORTED, "rows is %zu; one call takes at most 2^31 rows", size_t(rows));
    *bytes = bytes_scratch(rows);
    return GPUHASH_OK;
  });
}

gpuhash_status gpuhash_bytes_hash(const gpuhash_bytes_request* request, uint64_t seed, uint64_t* hashes,
                                  uint64_t* host_null, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    bytes_call call{};
    if (const auto s = read_call(request, 0, call, err)) return s;
    if (const auto s = refuse_null(hashes, "hashes", call.one.n + call.other.n, err)) return s;
    return hash_bytes_on_cuda(call, seed, hashes, host_null, err);
  });
}

gpuhash_status gpuhash_bytes_check(const gpuhash_bytes_request* request, const int64_t* codes, uint64_t groups,
                                   int64_t* out_first, uint64_t* host_other, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    bytes_call call{};
    if (const auto s = read_call(request, 0, call, err)) return s;
    if (const auto s = refuse_null(codes, "codes", call.one.n + call.other.n, err)) return s;
    if (const auto s = refuse_null(out_first, "out_first", groups, err)) return s;
    if (const auto s = refuse_null(host_other, "host_other", 1, err)) return s;
    return check_bytes_on_cuda(call, codes, groups, out_first, host_other, err);
  });
}

gpuhash_status gpuhash_bytes_keep(const gpuhash_bytes_request* request, int64_t* out_rows, uint64_t* host_rows,
                                  gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    bytes_call call{};
    if (const auto s = read_call(request, 0, call, err)) return s;
    if (const auto s = refuse_null(out_rows, "out_rows", call.one.n + call.other.n, err)) return s;
    if (const auto s = refuse_null(host_rows, "host_rows", 1, err)) return s;
    return keep_bytes_on_cuda(call, out_rows, host_rows, err);
  });
}

gpuhash_status gpuhash_bytes_place(const gpuhash_bytes_request* request, const int64_t* rows, uint64_t n,
                                   void* out_offsets, uint64_t* host_bytes, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    bytes_call call{};
    if (const auto s = read_call(request, n, call, err)) return s;
    if (call.one.offset_bytes == 0)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "request.one has no offsets, and rows of one width need no places");
    if (const auto s = refuse_null(rows, "rows", n, err)) return s;
    if (const auto s = refuse_null(out_offsets, "out_offsets", 1, err)) return s;
    if (const auto s = refuse_null(host_bytes, "host_bytes", 1, err)) return s;
    return place_bytes_on_cuda(call, rows, n, out_offsets, host_bytes, err);
  });
}

gpuhash_status gpuhash_bytes_take(const gpuhash_bytes_request* request, const int64_t* rows, uint64_t n,
                                  const void* offsets, void* out_data, uint8_t* out_validity, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    bytes_call call{};
    if (const auto s = read_call(request, n, call, err)) return s;
    if (const auto s = refuse_null(rows, "rows", n, err)) return s;
    if (const auto s = refuse_null(offsets, "offsets", n && call.one.offset_bytes, err)) return s;
    if (const auto s = refuse_null(out_data, "out_data", n && call.one.offset_bytes == 0, err)) return s;
    return take_bytes_on_cuda(call, rows, n, offsets, out_data, out_validity, err);
  });
}

}  // extern "C"
