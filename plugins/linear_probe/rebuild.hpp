// linear_probe on the CPU: moving a table into a larger or smaller one, in one pass through both.
//
// Homes ascend with the hash, in the old table as in the new one. So the pairs of a window of new groups lie together in
// the old table, from the home of the window's first hash to the first EMPTY slot behind the home of its last (I2). They
// are read, counted by new home, and written where linear probing would have put them: each group's pairs from its first
// slot on, or from where those of the groups before it end. Both tables are read and written in the order of memory, and
// nothing depends on how long a probe is.
//
// The new table is cut into pieces that threads work on. What runs over the end of a piece is kept, and inserted when all
// are done.
#pragma once
#include <new>

#include "layout.hpp"
#include "libgpuhash/drive/host.hpp"

GH_BEGIN

template <class F>
class linear_rebuild {
  using table = linear_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;
  static constexpr u32 window_slots = 2048, buffer_size = 4096, most_over = 4096;

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
    const u64 pieces = to.n_slots < 1u << 18 ? 1 : 4 * threads;
    piece_ = (u64(to.groups) + pieces - 1) / pieces;
  }
  u32 pieces() const { return u32((u64(to_.groups) + piece_ - 1) / piece_); }

  // False: this table is for the driver. Masks do not ascend with the hash, and full tables run over everywhere.
  static bool applies(const table& from, const table& to) {
    return !from.by_mask && !to.by_mask && from.seed == to.seed && to.probe_limit > 2 * window_slots;
  }

  void move_piece(u32 p, over& rest, totals& sum) const {
    const u64 begin = p * piece_;
    const u64 end = begin + piece_ < to_.groups ? begin + piece_ : to_.groups;
    u64 filled = begin << to_.group_bits;  // slots before this one are taken, or belong to nobody any more
    for (u64 a = begin; a < end; a += step_)
      move_window(a, a + step_ < end ? a + step_ : end, end << to_.group_bits, filled, rest, sum);
  }

  // The ordinary insert of a pair whose key is absent, with nobody about.
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

  // Pairs whose new home is one of groups a .. b-1; `filled` is where those before them end.
  void move_window(u64 a, u64 b, u64 piece_end, u64& filled, over& rest, totals& sum) const {
    word pairs[buffer_size];
    u32 home[buffer_size];  // from a on
    u32 at[window_slots + 1] = {};
    const u32 n = read_window(a, b, pairs, home, rest, sum);
    for (u32 i = 0; i < n; ++i) ++at[home[i]];
    for (u64 g = a; g < b; ++g) {
      const u64 first = g << to_.group_bits;
      const u32 here = at[g - a];
      if (filled < first) filled = first;
      at[g - a] = u32(filled - (a << to_.group_bits));
      filled += here;
    }
    word* const base = to_.slots + (a << to_.group_bits);
    const u64 room = piece_end - (a << to_.group_bits);
    for (u32 i = 0; i < n; ++i) {
      const u32 slot = at[home[i]]++;
      if (__builtin_expect(slot < room, 1))
        host_mem::store<order::relaxed>(base + slot, pairs[i]);
      else
        keep(pairs[i], rest, sum);
    }
    const u64 inside = filled < piece_end ? filled : piece_end;
    sum.used += n - (filled - inside);
    filled = inside;
  }

  static void keep(word w, over& rest, totals& sum) {
    if (rest.n < most_over)
      rest.all[rest.n++] = w;
    else
      ++sum.failed;
  }

  u32 read_window(u64 a, u64 b, word* pairs, u32* home, over& rest, totals& sum) const {
    const key low = first_hash(a, to_.groups);
    const key high = b == u64(to_.groups) ? ~key(0) : key(first_hash(b, to_.groups) - 1);
    const u64 begin = u64(reduce(index(low), from_.groups)) << from_.group_bits;
    const u64 end = (u64(reduce(index(high), from_.groups)) + 1) << from_.group_bits;
    u32 n = 0;
    const auto read = [&](u64 i) __attribute__((always_inline)) {
      const word w = host_mem::load<order::relaxed>(from_.slots + i);
      const u64 g = u64(to_.home(F::key_of(w))) - a;
      const bool wanted = is_live<F>(w) & (g < b - a);
      pairs[n] = w;
      home[n] = u32(g);
      n += wanted;
      if (__builtin_expect(n == buffer_size, 0)) keep(pairs[--n], rest, sum);
    };
    for (u64 i = begin; i < end; ++i) read(i);
    // Behind the last home, and around the end of the table.
    for (u64 i = end, left = from_.n_slots - (end - begin); left; --left, ++i) {
      if (i == from_.n_slots) i = 0;
      if (F::key_of(host_mem::load<order::relaxed>(from_.slots + i)) == empty_key<key>) break;
      read(i);
    }
    return n;
  }

  static void add_to(totals* sum, const totals& part) {
    __atomic_fetch_add(&sum->used, part.used, __ATOMIC_RELAXED);
    __atomic_fetch_add(&sum->failed, part.failed, __ATOMIC_RELAXED);
  }

 public:
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
