// The kernels of slab_hash and of the stand-alone allocator for the CPU. Compiled once per instruction set, with
// GPUHASH_ISA naming it.
#include "libgpuhash/alloc/slab_batch_host.hpp"
#include "libgpuhash/drive/host.hpp"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"
#include "rebuild.hpp"
#include "walk.hpp"

GH_BEGIN

template <class F>
using small_table = typename slab_table<F>::small;
template <class Tile, u32 Kind>
using op_of_slabs = slab_op<Tile, Kind, true, small_table<typename Tile::format>>;
template <class Tile, u32 Kind>
using op_of_lines = slab_op<Tile, Kind, false, small_table<typename Tile::format>>;

template <class F>
int run(const void* table, const request& q, totals* sum) {
  const auto t = static_cast<const slab_table<F>*>(table)->without_heap();
  if (t.slab_slots * sizeof(typename F::word) == 128)
    return host_engines<small_table, op_of_slabs, 128>::template run<F>(&t, q, sum);
  // Slabs of another size than the default's.
  return host_engines<small_table, op_of_lines, 64, kinds_of_one_driver>::template run<F>(&t, q, sum);
}

constexpr cut walk_cut = tunable_cut({1024, 512, 16384});  // chains

template <class F>
int flush_on_host(const void* table, uint64_t lo, uint64_t hi, totals* sum, uint32_t threads, void*) {
  const auto& t = *static_cast<const slab_table<F>*>(table);
  in_pieces(threads, hi - lo, walk_cut, [&](size_t begin, size_t end) {
    int64_t dropped = 0;
    for (uint64_t b = lo + begin; b < lo + end; ++b)
      dropped += flush_bucket<host_mem>(t, typename slab_table<F>::index(b));
    __atomic_fetch_sub(&sum->used, dropped, __ATOMIC_RELAXED);
  });
  return 0;
}

template <class F>
int values_on_host(const void* table, const request& q, const uint64_t* offsets) {
  const auto& t = *static_cast<const slab_table<F>*>(table);
  in_pieces(q.threads, q.n, walk_cut, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) write_values<host_mem>(t, q, i, offsets);
  });
  return 0;
}

template <class F>
constexpr engine with_walks() {
  return {run<F>, collect_on_host<slab_table<F>>, flush_on_host<F>, values_on_host<F>, slab_rebuild<F>::run};
}
static constinit const engine engines[format_count] = GPUHASH_OF_FORMATS(with_walks);

GH_END

GPUHASH_HOST_KERNELS(slab_hash)
extern "C" const gpuhash::slab_engine* GH_PASTE(gpuhash_slab_hash_slab_engine_, GPUHASH_ISA)() {
  return gpuhash::host_slab_engine();
}
