// gpuhash_group with values on a CUDA device: the same kernels, with the totals of each group.
#include "libgpuhash/columns/cuda/chain.cuh"

namespace gpuhash::columns {

void reduce_on_device(const group_request& r) {
  if (r.key_bytes == 4)
    r.wants.value_bytes == 4 ? reduce_groups<u32, u32>(r) : reduce_groups<u32, u64>(r);
  else
    r.wants.value_bytes == 4 ? reduce_groups<u64, u32>(r) : reduce_groups<u64, u64>(r);
}

}  // namespace gpuhash::columns
