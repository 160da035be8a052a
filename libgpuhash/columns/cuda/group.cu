// gpuhash_group on a CUDA device: groups without values are found here, those with values in reduce.cu.
#include "libgpuhash/columns/cuda/chain.cuh"

namespace gpuhash::columns {

gpuhash_status group_on_cuda(const group_request& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] {
    if (r.n == 0) return launcher(r.stream).fill(r.groups, 0, sizeof(*r.groups));
    if (r.wants.value_bytes) return reduce_on_device(r);
    r.key_bytes == 4 ? find_groups<u32>(r) : find_groups<u64>(r);
  });
}

}  // namespace gpuhash::columns
