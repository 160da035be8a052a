// linear_probe on the CPU: moving a table into a larger or smaller one, in one pass through both.
//
// Homes ascend with the hash, in the old table as in the new one. So the pairs of a window of new groups lie together in
// the old table, from the home of the window's first hash to the first EMPTY slot behind the home of its last (I2). They
// are read, counted by new home, and written where linear probing would have put them: each group's pairs from its first
// slot on, or from where those of the groups before it end. Both tables are read and written in the order of memory, and
// nothing depends on how long a probe is.
//
// A window is put together in the cache, EMPTY slots and all, and then written past the caches: so the new table's memory
// is touched once, and need not be filled before. What memory allows is what bounds it, and the system, which clears
// every page of a new table when it is touched.
//
// The new table is cut into pieces that threads work on. What runs over the end of a piece is kept, and inserted when all
// are done.
#pragma once
#include <string.h>

#include <new>

#include "layout.hpp"
#include "libgpuhash/drive/host.hpp"
#include "libgpuhash/drive/stream.hpp"

GH_BEGIN

template <class F>
class linear_rebuild {
  using table = linear_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;
  static constexpr u32 window_slots = tunable("window_slots", 2048u), most_read = 2 * window_slots,
                       most_over = tunable("window_over", 4096u);
  static constexpr u64 least_cut = tunable("rebuilt_alone", 1u << 18);  // slots
  static_assert(window_slots >= 2 * 16);                                // slots of a group at most

  const table& from_;
  const table& to_;
  u64 step_;   // new groups of a window
  u64 piece_;  // new groups of a piece

  struct over {  // what ran over the end of a piece
    u32 n = 0;
    word all[most_over];
  };

 public:
  linear_rebuild(const table& from, const table& to, u32 threads) : from_(from), to_(to) {
    const u64 wide = u64(to.groups) > u64(from.groups)
                         ? window_slots >> to.group_bits
                         : (u64(window_slots >> from.group_bits) * to.groups) / from.groups;
    step_ = wide ? wide : 1;
    const u64 pieces = to.n_slots < least_cut ? 1 : 4 * threads;
    piece_ = (u64(to.groups) + pieces - 1) / pieces;
  }
  u32 pieces() const { return u32((u64(to_.groups) + piece_ - 1) / piece_); }

  // False: this table is for the driver. Masks do not ascend with the hash, full tables run over everywhere, and where the
  // new table is far smaller, a window has not got room for the old slots of even one new group.
  static bool applies(const table& from, const table& to) {
    const u64 read = (u64(from.groups) / to.groups + 2) << from.group_bits;
    return !from.by_mask && !to.by_mask && from.seed == to.seed && to.probe_limit > 2 * window_slots &&
           read <= most_read;
  }

  void move_piece(u32 p, over& rest, totals& sum) const {
    const u64 begin = p * piece_;
    const u64 end = begin + piece_ < to_.groups ? begin + piece_ : to_.groups;
    window w;
    for (u64 a = begin; a < end; a += step_) move_window(a, a + step_ < end ? a + step_ : end, w, rest, sum);
    for (u32 i = 0; i < w.over; ++i) keep(w.slot[i], rest, sum);
    sum.used -= w.over;
    stream_done();
  }

  // The ordinary insert of a pair whose key is absent, while no other thread writes.
  void insert_over(const over& rest, totals& sum) const {
    for (u32 i = 0; i < rest.n; ++i) {
      const u64 home = u64(to_.home(F::key_of(rest.all[i]))) << to_.group_bits;
      const u64 most = to_.probe_limit - home % to_.widest;  // I4
      u64 far = 0;
      const auto slot = [&] { return to_.slots + (home + far) % to_.n_slots; };
      while (far < most && !(host_mem::load<order::relaxed>(slot()) == empty_word<F>())) ++far;
      if (far < most) host_mem::store<order::relaxed>(slot(), rest.all[i]);
      sum.used += far < most;
      sum.failed += far >= most;
    }
  }

 private:
  // The least hash whose home among n groups is g.
  static key first_hash(u64 g, u64 n) {
    const unsigned __int128 scaled = static_cast<unsigned __int128>(g) << (8 * sizeof(key));
    return key((scaled + n - 1) / n);
  }

  // Slots of the new table from the first of a window on, and what its old slots have to do with them.
  struct window {
    alignas(64) word slot[window_slots + most_over + 1];  // the last one is written and never read
    u32 over = 0;              // so many pairs in front have run over from the windows before
    u32 n = 0;                 // old slots that were read
    u32 home[most_read];       // of each of them, in groups of the window; or `outside`
    word after[most_read];     // those behind the last home
    u32 at[window_slots + 1];  // where each group's next pair goes; `outside` is the last
  };

  // Pairs whose new home is one of groups a .. b-1.
  void move_window(u64 a, u64 b, window& w, over& rest, totals& sum) const {
    constexpr u32 last = window_slots + most_over;
    const u32 outside = u32(b - a);
    const u32 slots = outside << to_.group_bits;
    memset(static_cast<void*>(w.slot + w.over), 0xff, sizeof(word) * (slots > w.over ? slots - w.over : 0));
    memset(w.at, 0, sizeof(w.at[0]) * (outside + 1));
    const word* const first = from_.slots + read_homes(a, b, w);
    const u32 straight = w.n;
    read_after(a, b, w, rest, sum);
    for (u32 i = 0; i < w.n; ++i) ++w.at[w.home[i]];
    u32 filled = w.over;
    for (u32 g = 0; g < outside; ++g) {
      const u32 begin = g << to_.group_bits;
      const u32 here = w.at[g];
      if (filled < begin) filled = begin;
      w.at[g] = filled;
      filled += here;
    }
    sum.used += w.n - w.at[outside];
    w.at[outside] = last;
    const auto place = [&](u32 home, word pair) __attribute__((always_inline)) {
      const u32 slot = w.at[home];
      w.at[home] = slot + (home != outside);
      w.slot[slot < last ? slot : last] = pair;
    };
    for (u32 i = 0; i < straight; ++i) place(w.home[i], first[i]);
    for (u32 i = straight; i < w.n; ++i) place(w.home[i], w.after[i - straight]);
    if (__builtin_expect(filled > last, 0)) {
      sum.failed += filled - last;
      sum.used -= filled - last;
      filled = last;
    }
    stream(to_.slots + (a << to_.group_bits), w.slot, slots);
    w.over = filled > slots ? filled - slots : 0;
    memmove(static_cast<void*>(w.slot), w.slot + slots, sizeof(word) * w.over);
  }

  static void keep(word w, over& rest, totals& sum) {
    if (rest.n < most_over)
      rest.all[rest.n++] = w;
    else
      ++sum.failed;
  }

  // The homes of the pairs in the old slots that are homes of the window's hashes. Returns the first of those slots.
  u64 read_homes(u64 a, u64 b, window& w) const {
    const key low = first_hash(a, to_.groups);
    const key high = b == u64(to_.groups) ? ~key(0) : key(first_hash(b, to_.groups) - 1);
    const u64 begin = u64(reduce(index(low), from_.groups)) << from_.group_bits;
    const u64 end = (u64(reduce(index(high), from_.groups)) + 1) << from_.group_bits;
    const word* const slots = from_.slots + begin;
    const table t = to_;
    w.n = u32(end - begin);
    for (u32 i = 0; i < w.n; ++i) w.home[i] = home_in(t, slots[i], index(a), u32(b - a));
    return begin;
  }
  GH_FN static u32 home_in(const table& t, word w, index a, u32 outside) {
    const key k = F::key_of(w);
    const index g = reduce(index(hash(k, t.seed)), t.groups) - a;
    const bool stays = int(k < dead_key<key>) & int(g < outside);  // no branch
    return stays ? u32(g) : outside;
  }

  // Behind the last home, and around the end of the table.
  void read_after(u64 a, u64 b, window& w, over& rest, totals& sum) const {
    const u32 straight = w.n;
    const u32 outside = u32(b - a);
    const key high = b == u64(to_.groups) ? ~key(0) : key(first_hash(b, to_.groups) - 1);
    u64 i = (u64(reduce(index(high), from_.groups)) + 1) << from_.group_bits;
    for (u64 left = from_.n_slots - straight; left; --left, ++i) {
      if (i == from_.n_slots) i = 0;
      const word pair = from_.slots[i];
      if (F::key_of(pair) == empty_key<key>) break;
      const u32 home = home_in(to_, pair, index(a), outside);
      if (home == outside) continue;
      if (__builtin_expect(w.n == most_read, 0)) {
        keep(pair, rest, sum);
        continue;
      }
      w.after[w.n - straight] = pair;
      w.home[w.n++] = home;
    }
  }

  static void add_to(totals* sum, const totals& part) {
    __atomic_fetch_add(&sum->used, part.used, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->failed, part.failed, __ATOMIC_RELAXED);
  }

 public:
  // Writes every slot of `to`, whatever is there.
  static bool run(const void* from, const void* to, totals* sum, uint32_t threads) {
    const table& f = *static_cast<const table*>(from);
    const table& t = *static_cast<const table*>(to);
    if (!applies(f, t)) return false;
    const linear_rebuild all(f, t, threads);
    over* const rest = new (std::nothrow) over[all.pieces()];
    if (!rest) return false;
    in_pieces(threads, all.pieces(), {1, 1, 1}, [&](size_t begin, size_t end) {
      for (size_t p = begin; p < end; ++p) {
        totals part{};
        all.move_piece(u32(p), rest[p], part);
        add_to(sum, part);
      }
    });
    for (u32 p = 0; p < all.pieces(); ++p) all.insert_over(rest[p], *sum);
    delete[] rest;
    return true;
  }
};

GH_END
