// gpuhash_group on a CUDA device: groups without values are found here, those with values in reduce.cu.
#include <optional>

#include "libgpuhash/columns/cuda/chain.cuh"

namespace gpuhash::columns {

namespace {

void run(const launcher& launch, const group_request& r) {
  if (r.n == 0)
    launch.fill(r.groups, 0, sizeof(*r.groups));
  else if (r.wants.value_bytes)
    reduce_on_device(r);
  else
    r.key_bytes == 4 ? find_groups<u32>(r) : find_groups<u64>(r);
  if (r.meanwhile) r.meanwhile(r.context);
}

// Do the kernels show the number of groups? In the order of first appearance one block knows it; in any other one the last
// block to end does, for which blocks count each other: those of long columns are too many, but for codes alone.
bool kernels_show(const group_request& r) { return r.n <= few_rows || r.wants.numbered() || r.wants.codes_at_once(); }

// The kernels write the number of groups where the host reads it: a copy takes the host 7 us more. They have all ended when
// the memory is given back, whatever fails.
void show(const launcher& launch, const group_request& r) {
  try {
    run(launch, r);
  } catch (const cuda_failure&) {
    cudaStreamSynchronize(static_cast<cudaStream_t>(r.stream));
    throw;
  }
  launch.wait();
  *r.host_groups = *r.shown;
}

}  // namespace

gpuhash_status group_on_cuda(const group_request& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] {
    const launcher launch(r.stream);
    std::optional<pinned_bytes> pinned;
    group_request request = r;
    if (r.host_groups) {
      launch.refuse_captured("host_groups");
      if (r.n && kernels_show(r)) request.shown = static_cast<uint64_t*>(pinned.emplace().at());
    }
    if (request.shown) return show(launch, request);
    run(launch, request);
    if (r.host_groups) launch.bring(r.host_groups, r.groups, sizeof(*r.groups));
  });
}

}  // namespace gpuhash::columns
