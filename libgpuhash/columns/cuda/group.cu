// gpuhash_group on a CUDA device: groups without values are found here, those with values in reduce.cu.
#include "libgpuhash/columns/cuda/chain.cuh"

namespace gpuhash::columns {

gpuhash_status group_on_cuda(const group_request& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] {
    const launcher launch(r.stream);
    if (r.host_groups) launch.refuse_captured("host_groups");
    if (r.n == 0)
      launch.fill(r.groups, 0, sizeof(*r.groups));
    else if (r.wants.value_bytes)
      reduce_on_device(r);
    else
      r.key_bytes == 4 ? find_groups<u32>(r) : find_groups<u64>(r);
    if (r.host_groups) launch.bring(r.host_groups, r.groups, sizeof(*r.groups));
  });
}

}  // namespace gpuhash::columns
