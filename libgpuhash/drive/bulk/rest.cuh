// Large batches: frequent keys, and the elements that are left over at the end, are served one at a time in the table
// itself.
#pragma once
#include "libgpuhash/drive/bulk/frequent.cuh"
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

// Serves an operation for each frequent key, and the second time also each element that is left over. (After the first
// time, elements that are left over are divided once more.)
template <class F>
struct rest_item {
  typename F::key k;
  typename F::value v;
  u32 at;    // number in the batch: of the element, or of the one that answers for a frequent key
  u32 slot;  // of the frequent key, or none
};
template <class F>
struct rest_items {
  const request& q;
  const bulk_work<F>& w;
  const element_list<F>& list;
  const u32 listed;

  GH_FN rest_items(const request& a_request, const bulk_work<F>& a_work)
      : q(a_request),
        w(a_work),
        list(w.found->divided ? w.rest : w.source),
        listed(w.again && !w.found->combines ? *list.n : 0) {}
  GH_FN u64 number() const { return u64(listed) + frequent_all; }
  // An item for each thread of the block whose number is a multiple of `apart`, from item `first` on. False: there is
  // none, or the item of another thread stands for it. Equal keys of an accumulate are combined, or thousands of
  // operations would wait for one slot.
  GH_FN bool take_for_block(u64 first, u32 apart, rest_item<F>* x) const {
    const u64 i = first + threadIdx.x / apart;
    const bool mine = threadIdx.x % apart == 0 && i < number() && take(i, x);
    if constexpr (F::has_value)
      if (q.kind == accumulate) {
        using join_type = block_join<F, accumulate>;
        GH_BLOCK_MEMORY(join_type, equal);
        const bool leads = equal.join_equal(mine, accumulate, x->k, x->v, joiner_of(q)) == threadIdx.x;
        // The key of an element of an accumulate will be there; if it is not, report_absent gives the element its
        // status at the end.
        if (mine && !leads && q.status) q.status[x->at] = u8(no);
        return mine && leads;
      }
    return mine;
  }

 private:
  // False: no element has this frequent key.
  GH_FN bool take(u64 i, rest_item<F>* x) const {
    if (i < listed) {
      *x = {F::key_of(list.word[i]), F::value_of(list.word[i]), list.at ? list.at[i] : 0, none};
      return true;
    }
    const u32 slot = u32(i - listed), leads = w.leader[slot], last = w.last[slot];
    if (leads == none) return false;
    x->k = w.frequent[slot];
    x->v = q.kind == accumulate ? w.combined[slot]
                                : F::value_of(element_at(q, w, q.kind == assign && last != none ? last : leads));
    x->at = number_at(w, leads);
    x->slot = slot;
    return true;
  }

 public:
  GH_FN void report(const rest_item<F>& x, u32 status, u32* lost) const {
    if (q.status) q.status[x.at] = u8(status);
    if (!lacks_room(status)) return;
    if (w.sums) {
      defer(w, status, F::make(x.k, x.v), x.at);
    } else if (x.slot == none) {
      ++*lost;
    } else {
      w.failed[x.slot] = status;
      w.found->failed = 1;
    }
  }
};

// By tiles, as other batches are served (drive/cuda_homes.cuh), since paths may be long here. A few items go to as many
// tiles, one each.
template <class Partitions>
__global__ void __launch_bounds__(block_threads, rest_blocks<Partitions>)
    serve_rest(const __grid_constant__ typename Partitions::table t, const __grid_constant__ request q,
               const __grid_constant__ bulk_work<typename Partitions::F> w, totals* sum) {
  after_the_one_before();
  using F = typename Partitions::F;
  using op_type = typename Partitions::rest_op;
  constexpr u32 W = op_type::tile_type::lanes;
  const joiner j = joiner_of(q);
  const rest_items<F> items(q, w);
  const u64 n = items.number();
  const u64 blocks = u64(w.blocks) / 2 * rest_blocks<Partitions>;
  const u32 apart = n * W <= blocks * block_threads ? W : 1, at_once = block_threads / apart;
  typename op_type::tile_type tile;
  int live = 0, used = 0;
  u32 good = 0, lost = 0;
  for (u64 from = u64(blockIdx.x) * at_once; from < n; from += blocks * at_once) {
    rest_item<F> x{};
    const bool mine = items.take_for_block(from, apart, &x);
    if (!__any_sync(full_warp, mine)) continue;
    const bool aside = Partitions::table::side_slots && is_side_key(x.k);
    result<F> res = serve_homes<op_type, 1>(tile, t, j, mine && !aside, q.kind, x.k, x.v, t.home(x.k));
    if constexpr (Partitions::table::side_slots)
      if (mine && aside) res = serve_side<F, cuda_mem>(t.side, q.kind, j, x.k, x.v);
    live += res.live;
    used += res.used;
    good += mine && res.status == yes;
    if (mine) items.report(x, res.status, &lost);
  }
  add_sums(sum, q.batch_sum, warp_sum(live), warp_sum(used), warp_sum(int(good)), warp_sum(int(lost)), 0);
}

GH_END
