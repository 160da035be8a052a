// Joins of two columns on a CUDA device: gives the first row of each key, or the pairs of left and right rows.
//
// The way of codes finds the first row of each key, of the right column with the left one behind it (chain.cuh). Right rows come
// first: so a left row meets a right one if the first row of its key is a right one. Or blocks list the right rows of each
// key, and left rows get words that lead to them (match.cuh). How many pairs the left rows of each tile have is known then, and
// they are written in the order of the left rows (pairs.cuh): at once where right rows do not repeat, else when the caller
// has room for them.
#include "libgpuhash/columns/cuda/join.hpp"

#include "libgpuhash/columns/cuda/chain.cuh"
#include "libgpuhash/columns/cuda/match.cuh"
#include "libgpuhash/columns/cuda/pairs.cuh"

namespace gpuhash::columns {
namespace {

template <class K>
constexpr u32 join_tile = divide_tile<K, u32, nothing>;
template <class K>
u32 tiles_of(uint64_t rows) {
  return u32((rows + join_tile<K> - 1) / join_tile<K>);
}

template <class K>
group_work<K> work_of(const join_request& r, const join_plan& p) {
  char* const s = static_cast<char*>(r.scratch);
  group_request both{};
  both.n = r.n_left + r.n_right, both.key_bytes = r.key_bytes, both.wants = join_wants(!r.out_first),
  both.seed = r.seed;
  both.keys = r.right, both.more = r.left, both.n_more = r.n_left;
  both.scratch = r.scratch, both.out_first = r.out_first, both.repeats = reinterpret_cast<u32*>(r.facts + 1);
  group_work<K> w = work_of<K>(both, p.groups);
  w.keep = r.keep;
  w.list = reinterpret_cast<u32*>(s + p.list);
  w.list_bits = p.list_bits;
  w.met = reinterpret_cast<u32*>(s + p.met);
  w.before = reinterpret_cast<u32*>(s + p.before);
  return w;
}

template <class K>
pairs_work pairs_of(const join_request& r, const group_work<K>& w) {
  pairs_work pairs{};
  pairs.word = w.wants.lists ? w.met : w.first_row + r.n_right;
  pairs.n_left = u32(r.n_left), pairs.n_right = u32(r.n_right);
  pairs.start = w.known + tiles_of<K>(r.n_right);
  pairs.lists = w.wants.lists, pairs.keep = r.keep;
  pairs.repeats = w.repeats;
  pairs.left = reinterpret_cast<long long*>(r.out_left), pairs.right = reinterpret_cast<long long*>(r.out_right);
  pairs.list = w.list, pairs.before = w.before;
  pairs.place_bits = (1u << w.list_bits) - 1;
  return pairs;
}

template <class K>
void join(const join_request& r) {
  const launcher launch(r.stream);
  launch.fill(r.facts, 0, 2 * sizeof(*r.facts));
  const bool lists = !r.out_first;
  if (r.n_left + r.n_right == 0 || (lists && r.n_left == 0)) return;
  const group_work<K> w = work_of<K>(r, plan_join(r.n_left, r.n_right, r.key_bytes, lists));
  group_request both{};
  both.scratch = r.scratch, both.wants = w.wants;
  prepare(launch, both, w);
  divide_rows<K, u32, nothing>(launch, w);
  if (lists) {
    launch.next(match_bins<K>, 1u << w.plan.bits, bin_threads, matching_block<K>::bytes, w);
    go_back<K, u32, true>(launch, w);
  } else {
    group<K, nothing, false, true, true>(launch, w);
    go_back<K, u32>(launch, w);
  }
  const u32 tiles = tiles_of<K>(r.n_left);
  if (tiles == 0) return;
  launch.next(find_pairs, 1, scan_threads, 0, w.known + tiles_of<K>(r.n_right), tiles,
              reinterpret_cast<unsigned long long*>(r.facts));
  launch.next(give_pairs<join_tile<K>>, tiles, join_tile<K> / pairs_each, 0, pairs_of(r, w));
}

// Where right rows repeat, after `join` with the same request but for the room of the pairs. Pairs are written by blocks of as
// many each, or of fewer where there are fewer than rows, which have to be looked at.
template <class K>
void write_pairs(const join_request& r, uint64_t many) {
  if (many == 0) return;
  const launcher launch(r.stream);
  pairs_work pairs = pairs_of(r, work_of<K>(r, plan_join(r.n_left, r.n_right, r.key_bytes, true)));
  constexpr uint64_t most = spreading_block<join_tile<K>>::most;
  const uint64_t for_rows = (r.n_left + 2 * most - 1) / (2 * most), for_pairs = (many + most - 1) / most;
  const uint64_t blocks = for_rows > for_pairs ? for_rows : for_pairs;
  pairs.pairs = many;
  pairs.width = u32((many + blocks - 1) / blocks);
  launch(spread_pairs<join_tile<K>>, unsigned((many + pairs.width - 1) / pairs.width), order_threads, 0, pairs);
}

}  // namespace

gpuhash_status join_on_cuda(const join_request& r, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] {
    const launcher launch(r.stream);
    if (r.host_facts) launch.refuse_captured("host_facts");
    r.key_bytes == 4 ? join<u32>(r) : join<u64>(r);
    if (r.host_facts) launch.bring(r.host_facts, r.facts, 2 * sizeof(*r.facts));
  });
}

gpuhash_status pairs_on_cuda(const join_request& r, uint64_t pairs, gpuhash_error* err) {
  return on_device(r.ordinal, err, [&] { r.key_bytes == 4 ? write_pairs<u32>(r, pairs) : write_pairs<u64>(r, pairs); });
}

}  // namespace gpuhash::columns
