// Large batches: what is left is served one element at a time, in the table itself.
#pragma once
#include "libgpuhash/drive/bulk/frequent.cuh"
#include "libgpuhash/drive/bulk/one_lane.cuh"
#include "libgpuhash/drive/bulk/work.cuh"

GH_BEGIN

// What is served one at a time: elements that are left, and an operation for each frequent key. The first time these only:
// what else is left goes the same way again.
template <class F>
struct rest_item {
  typename F::key k;
  typename F::value v;
  u32 at;    // its number in the batch; of a frequent key, the leader's
  u32 slot;  // of a frequent key; or nobody
};
template <class F>
struct rest_items {
  const request& q;
  const parts_work<F>& w;
  const part_list<F>& list;
  const u32 listed;

  GH_FN rest_items(const request& a_request, const parts_work<F>& a_work)
      : q(a_request),
        w(a_work),
        list(w.found->divided ? w.rest : w.source),
        listed(w.again && !w.found->joins ? *list.n : 0) {}
  GH_FN u64 number() const { return u64(listed) + frequent_all; }
  // An item for each thread of the block whose number is a multiple of `apart`, from item `first` on. False: there is none, or
  // another thread's stands for it. Equal keys of an accumulate are joined: thousands of them would wait for one slot.
  GH_FN bool take_for_block(u64 first, u32 apart, rest_item<F>* x) const {
    const u64 i = first + threadIdx.x / apart;
    const bool mine = threadIdx.x % apart == 0 && i < number() && take(i, x);
    if constexpr (F::has_value)
      if (q.kind == accumulate) {
        using join_type = block_join<F, accumulate>;
        GH_BLOCK_MEMORY(join_type, equal);
        const bool leads = equal.join_equal(mine, accumulate, x->k, x->v, joiner_of(q)) == threadIdx.x;
        // Its key is there then; if not, all of its elements hear of that at last.
        if (mine && !leads && q.status) q.status[x->at] = u8(no);
        return mine && leads;
      }
    return mine;
  }

 private:
  // False: a frequent key that nobody names.
  GH_FN bool take(u64 i, rest_item<F>* x) const {
    if (i < listed) {
      *x = {F::key_of(list.word[i]), F::value_of(list.word[i]), list.at ? list.at[i] : 0, nobody};
      return true;
    }
    const u32 slot = u32(i - listed), leads = w.leader[slot], last = w.last[slot];
    if (leads == nobody) return false;
    x->k = w.frequent[slot];
    x->v = q.kind == accumulate ? w.joined[slot]
                                : F::value_of(element_at(q, w, q.kind == assign && last != nobody ? last : leads));
    x->at = number_at(w, leads);
    x->slot = slot;
    return true;
  }

 public:
  GH_FN void tell(const rest_item<F>& x, u32 status, u32* lost) const {
    if (q.status) q.status[x.at] = u8(status);
    if (!lacks_room(status)) return;
    if (w.sums) {
      put_off(w, status, F::make(x.k, x.v), x.at);
    } else if (x.slot == nobody) {
      ++*lost;
    } else {
      w.failed[x.slot] = status;
      w.found->failed = 1;
    }
  }
};

// By tiles, as the driver for other batches does it (drive/cuda_homes.cuh): paths may be long here. Few items by many warps,
// an item for each tile.
template <class Parts>
__global__ void __launch_bounds__(block_threads, rest_blocks<Parts>)
    serve_rest(const __grid_constant__ typename Parts::table t, const __grid_constant__ request q,
               const __grid_constant__ parts_work<typename Parts::F> w, totals* sum) {
  after_the_one_before();
  using F = typename Parts::F;
  using op_type = typename Parts::rest_op;
  constexpr u32 W = op_type::tile_type::lanes;
  const joiner j = joiner_of(q);
  const rest_items<F> items(q, w);
  const u64 n = items.number();
  const u64 blocks = u64(w.blocks) / 2 * rest_blocks<Parts>;
  const u32 apart = n * W <= blocks * block_threads ? W : 1, at_once = block_threads / apart;
  typename op_type::tile_type tile;
  int live = 0, used = 0;
  u32 good = 0, lost = 0;
  for (u64 from = u64(blockIdx.x) * at_once; from < n; from += blocks * at_once) {
    rest_item<F> x{};
    const bool mine = items.take_for_block(from, apart, &x);
    if (!__any_sync(full_warp, mine)) continue;
    const bool aside = Parts::table::side_slots && is_side_key(x.k);
    result<F> res = serve_homes<op_type, 1>(tile, t, j, mine && !aside, q.kind, x.k, x.v, t.home(x.k));
    if constexpr (Parts::table::side_slots)
      if (mine && aside) res = serve_side<F, cuda_mem>(t.side, q.kind, j, x.k, x.v);
    live += res.live;
    used += res.used;
    good += mine && res.status == yes;
    if (mine) items.tell(x, res.status, &lost);
  }
  add_sums(sum, q.batch_sum, warp_sum(live), warp_sum(used), warp_sum(int(good)), warp_sum(int(lost)), 0);
}

GH_END
