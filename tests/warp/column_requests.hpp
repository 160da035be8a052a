// Requests of verbs on columns apart from what kernels find: old callers, results on the host, streams that are captured, and
// calls of the driver that fail.
#pragma once
#include <cuda_runtime.h>
#include <stddef.h>
#include <string.h>

#include "gpuhash/columns.h"
#include "tests/warp/checks.hpp"

namespace warp_test {

// A request for the groups of so many keys, which are all 0.
struct zero_keys {
  memory keys, distinct, codes, number;
  uint64_t there = 7;  // how many groups there are, on the host
  gpuhash_error err = GPUHASH_ERROR_INIT;
  gpuhash_group_request q = GPUHASH_GROUP_REQUEST_INIT;
  memory scratch;

  explicit zero_keys(size_t n) : keys(4 * n), distinct(4 * n), codes(8 * n), number(8), scratch(fill(n)) {
    q.scratch = scratch.data();
  }
  size_t fill(size_t n) {
    memset(keys.data(), 0, 4 * n);
    q.n = n, q.keys = keys.data(), q.key_bytes = 4, q.out_keys = distinct.data(), q.device.kind = GPUHASH_CUDA;
    q.out_codes = reinterpret_cast<int64_t*>(codes.data());
    q.groups = reinterpret_cast<uint64_t*>(number.data()), q.host_groups = &there;
    HOLDS(gpuhash_group_scratch(&q, &q.scratch_bytes, &err) == GPUHASH_OK);
    return q.scratch_bytes;
  }
  gpuhash_status run() { return gpuhash_group(&q, &err); }
};

// A caller that was compiled before requests had values: what lies behind its struct is not read.
inline void older_caller() {
  where = "a request without values";
  gpuhash_group_request q = GPUHASH_GROUP_REQUEST_INIT;
  q.struct_size = offsetof(gpuhash_group_request, values);
  q.n = 10, q.key_bytes = 4, q.value_bytes = 77, q.out_low = &q;
  size_t bytes = 0;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  HOLDS(gpuhash_group_scratch(&q, &bytes, &err) == GPUHASH_OK && bytes > 0);
}

// Rows of groups are known in the order of first appearance alone.
inline void first_rows_in_any_order() {
  where = "first rows of groups in any order";
  gpuhash_group_request q = GPUHASH_GROUP_REQUEST_INIT;
  int64_t row = 0;
  q.n = 10, q.key_bytes = 4, q.out_first = &row;
  size_t bytes = 0;
  gpuhash_error err = GPUHASH_ERROR_INIT;
  HOLDS(gpuhash_group_scratch(&q, &bytes, &err) == GPUHASH_INVALID_ARGUMENT && strstr(err.message, "out_first"));
}

// A stream that is being captured into a graph: no call waits for it, and nothing is queued.
inline void on_the_host_from_a_capture() {
  where = "a result on the host, while the stream is being captured";
  zero_keys group(10);
  memory rows(80), number(16);
  uint64_t there[2] = {7, 7};
  gpuhash_join_request j = GPUHASH_JOIN_REQUEST_INIT;
  j.n_left = j.n_right = 10, j.left = j.right = group.keys.data(), j.key_bytes = 4, j.device.kind = GPUHASH_CUDA;
  j.out_left = j.out_right = reinterpret_cast<int64_t*>(rows.data());
  j.out_facts = reinterpret_cast<uint64_t*>(number.data()), j.host_facts = there;
  HOLDS(gpuhash_join_scratch(&j, &j.scratch_bytes, &group.err) == GPUHASH_OK);
  memory more(j.scratch_bytes);
  j.scratch = more.data();
  capturing = true;
  HOLDS(group.run() == GPUHASH_INVALID_ARGUMENT && strstr(group.err.message, "host_groups is given"));
  HOLDS(gpuhash_join(&j, &group.err) == GPUHASH_INVALID_ARGUMENT && strstr(group.err.message, "host_facts is given"));
  HOLDS(*group.q.groups == 0xabababababababab && *j.out_facts == 0xabababababababab);
  HOLDS(group.there == 7 && there[0] == 7);
  capturing = false;
  group.q.host_groups = nullptr, group.q.meanwhile = [](void*) { wrong("gpuhash_group does not wait"); };
  HOLDS(group.run() == GPUHASH_INVALID_ARGUMENT && strstr(group.err.message, "meanwhile is given"));
}

// Whichever call of the driver fails, gpuhash_group returns its error.
inline void driver_calls_that_fail() {
  where = "a call of the driver that fails";
  zero_keys group(600);
  allocations_fail = false;  // gpuhash_group does without pinned memory
  int failed = 0;
  for (bool fails = true; fails; failed += fails) {
    failing_call = failed + 1;
    const gpuhash_status status = group.run();
    fails = failing_call == 0;
    failing_call = 0;
    HOLDS(status == (fails ? GPUHASH_DEVICE_ERROR : GPUHASH_OK));
    if (fails) HOLDS(strstr(group.err.message, "failed on cuda:0"));
  }
  allocations_fail = true;
  HOLDS(failed >= 6);  // launches, and the wait
}

// A short result arrives in pinned memory, which is kept for the next call; in the caller's own where there is none.
inline void on_the_host() {
  where = "a result on the host";
  zero_keys group(10);
  const auto call = [&](size_t pinned) {
    group.there = 7;
    HOLDS(group.run() == GPUHASH_OK && group.there == 1 && allocations.size() == pinned);
  };
  memory_is_out = true;
  call(0);
  memory_is_out = false;
  call(1);
  call(1);
  allocations.clear();  // by a reset of the device
  memory_is_out = true;
  call(0);
  memory_is_out = false;
  call(1);
}

}  // namespace warp_test
