// slab_hash on the CPU: moving a table into one of another size, in one pass through both.
//
// Buckets ascend with the hash, in the old table as in the new one. So the pairs of a run of new buckets lie in a run of
// old ones; threads take runs of new buckets, and append what belongs there, slab after slab (S2). Keys are not compared:
// pairs that are there are distinct already.
#pragma once
#include "layout.hpp"
#include "libgpuhash/drive/host.hpp"
#include "walk.hpp"

GH_BEGIN

template <class F>
class slab_rebuild {
  using table = slab_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;
  static constexpr u32 window = tunable("window_buckets", 1024u);  // new buckets

  const table& from_;
  const table& to_;

  using end_of_chain = chain_end<host_mem, table>;

 public:
  slab_rebuild(const table& from, const table& to) : from_(from), to_(to) {}

  // False: this table is for the driver, since the paper's hash does not ascend.
  static bool run(const void* from, const void* to, totals* sum, uint32_t threads) {
    const table& f = *static_cast<const table*>(from);
    const table& t = *static_cast<const table*>(to);
    if (!ascend_together(f, t)) return false;
    const slab_rebuild all(f, t);
    const size_t windows = size_t((u64(t.buckets) + window - 1) / window);
    in_pieces(threads, windows + 1, tunable_cut({8, 4, 64}), [&](size_t begin, size_t end) {
      totals part{};
      for (size_t w = begin; w < end; ++w) {
        if (w < windows)
          all.move_window(u64(w) * window, part);
        else
          all.move_side_chains(part);
      }
      __atomic_fetch_add(&sum->used, part.used, __ATOMIC_RELAXED);
      __atomic_fetch_add(&sum->failed, part.failed, __ATOMIC_RELAXED);
    });
    return true;
  }

 private:
  // The least hash whose home among n buckets is b.
  static key first_hash(u64 b, u64 n) {
    const unsigned __int128 scaled = static_cast<unsigned __int128>(b) << (8 * sizeof(key));
    return key((scaled + n - 1) / n);
  }

  void move_window(u64 a, totals& sum) const {
    const u64 n = to_.buckets;
    const u64 b = a + window < n ? a + window : n;
    const key low = first_hash(a, n);
    const key high = b == n ? ~key(0) : key(first_hash(b, n) - 1);
    end_of_chain end[window];
    for (u64 i = a; i < b; ++i) end[i - a] = end_of_chain::of(to_, index(i));
    const index last = reduce(index(high), from_.buckets);
    for (index o = reduce(index(low), from_.buckets); o <= last; ++o)
      from_.template each_word<host_mem>(o, [&](word*, word w) {
        if (!is_live<F>(w)) return;
        const u64 home = u64(to_.home(F::key_of(w))) - a;
        if (home < b - a) count(end[home].append(to_, w), sum);
      });
  }

  void move_side_chains(totals& sum) const {
    for (u32 side = 0; side < 2; ++side) {
      auto end = end_of_chain::of(to_, index(to_.buckets + side));
      from_.template each_word<host_mem>(index(from_.buckets + side), [&](word*, word w) {
        if (is_live<F>(w)) count(end.append(to_, w), sum);
      });
    }
  }

  static void count(bool placed, totals& sum) {
    sum.used += placed;
    sum.failed += !placed;
  }
};

GH_END
