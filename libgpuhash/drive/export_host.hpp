// Exports on the CPU: threads of the team copy the live pairs of a table into the caller's arrays.
#pragma once
#include "libgpuhash/drive/host_sizes.hpp"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/engine.hpp"

GH_BEGIN

inline constexpr cut collect_cut = tunable_cut({4096, 1024, 16384, block_size});  // cells

// Live pairs on their way out of a table: a thread's own, until they are enough to be worth room among those of others.
template <class Key, class Value>
class leaving_pairs {
  static constexpr u32 most = tunable("leaving_pairs", 512u);
  static_assert(most >= 64, "slots that lie together come at once: 63 of a slab");
  void* const keys_;
  void* const values_;
  const u32 key_bytes_, value_bytes_;
  uint64_t* const count_;
  const u64 room_;
  u32 n_ = 0;
  Key key_[most];
  Value value_[most];

  template <class T>
  static void copy(void* to, u32 bytes, u64 at, const T* from, u32 n) {
    if (bytes == sizeof(T)) {
      __builtin_memcpy(static_cast<T*>(to) + at, from, n * sizeof(T));
      return;
    }
    for (u32 i = 0; i < n; ++i) write_element<T>(to, bytes, at + i, from[i]);
  }

 public:
  leaving_pairs(const collecting& to)
      : keys_(to.keys),
        values_(to.values),
        key_bytes_(to.key_bytes),
        value_bytes_(to.value_bytes),
        count_(to.count),
        room_(to.room) {}
  GH_FN void need_room(u32 n) {
    if (__builtin_expect(n_ + n > most, 0)) leave();
  }
  // There is no branch on whether a slot holds a pair: half of the slots of a table are empty, and no processor can
  // predict which.
  GH_FN void add(Key k, Value v, bool is_one = true) {
    key_[n_] = k;
    value_[n_] = v;
    n_ += is_one;
  }
  [[gnu::noinline]] void leave() {
    if (n_ == 0) return;
    const u64 at = __atomic_fetch_add(count_, n_, __ATOMIC_RELAXED);
    const u32 n = at >= room_ ? 0 : n_ < room_ - at ? n_ : u32(room_ - at);
    if (keys_) copy(keys_, key_bytes_, at, key_, n);
    if (values_) copy(values_, value_bytes_, at, value_, n);
    n_ = 0;
  }
};

// Cells lo..hi of an order, as runs of cells that lie one after the other: visit(first, many, soon, later), where soon and
// later are cells that a run some runs from now begins with. Lines in an order with a stride are nothing that a processor
// foresees, so that they are asked for. Without a stride there is one run, and soon and later are its own first cell.
inline constexpr u64 lines_ahead = 16;
template <class Visit>
void each_run(const cell_order& order, u64 lo, u64 hi, Visit visit) {
  if (!order.stride) {
    if (lo < hi) visit(lo, hi - lo, lo, lo);
    return;
  }
  const u64 width = order.line_cells, stride = order.stride % order.lines;
  const auto after = [&](u64 line) {
    return line + stride >= order.lines ? line + stride - order.lines : line + stride;
  };
  u64 line = cell_at(order, lo) / width;
  u64 soon = cell_at(order, lo + lines_ahead / 2 * width) / width;
  u64 later = cell_at(order, lo + lines_ahead * width) / width;
  u64 into = lo % width;
  for (u64 i = lo, many; i < hi; i += many, into = 0, line = after(line), soon = after(soon), later = after(later)) {
    many = width - into < hi - i ? width - into : hi - i;
    visit(line * width + into, many, soon * width, later * width);
  }
}

// Live pairs of cells lo..hi of an order, appended in no order. Runs with no writer about.
//
// Of a table whose cells are slots (cells_are_slots) they begin at `slots`, or it says where some begin: slots_at(cell,
// &many), of which at most so many follow. One whose cells are chains of slots may say each_row<Mem>(cell, visit), visit(first
// slot, many), for the cells before plain_cells(), and has ask_for_rows<Mem>(soon, later).
template <class Table>
int collect_on_host(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
  using F = typename Table::format;
  const auto& t = *static_cast<const Table*>(table);
  in_pieces(to.threads, hi - lo, collect_cut, [&](size_t begin, size_t end) {
    leaving_pairs<typename F::key, typename F::value> out(to);
    const auto take = [&](const typename F::word* at, u32 many) __attribute__((always_inline)) {
      out.need_room(many);
      for (u32 s = 0; s < many; ++s) {
        const auto w = host_mem::load<::gpuhash::order::relaxed>(at + s);
        out.add(F::key_of(w), F::value_of(w), is_live<F>(w));
      }
    };
    const auto one = [&](typename F::key k, typename F::value v) {
      out.need_room(1);
      out.add(k, v);
    };
    each_run(order, lo + begin, lo + end, [&](u64 first, u64 many, u64 soon, u64 later) {
      if constexpr (requires { Table::cells_are_slots; }) {
        const auto slots_at = [&](u64 c, u64* n) {
          if constexpr (requires { t.slots_at(c, n); })
            return t.slots_at(c, n);
          else
            return t.slots + c;
        };
        constexpr u32 per_line = 64 / sizeof(typename F::word);
        u64 left = 1;
        if (order.stride) host_mem::prefetch<false>(slots_at(later, &left));
        for (u64 c = first; c < first + many;) {
          left = first + many - c;
          const auto* at = slots_at(c, &left);
          c += left;
          for (; left >= per_line; left -= per_line, at += per_line) take(at, per_line);
          take(at, u32(left));
        }
      } else if constexpr (requires { t.plain_cells(); }) {
        const u64 behind = first + many;
        for (u64 c = first; c < behind; ++c) {
          t.template ask_for_rows<host_mem>(c + lines_ahead / 2 < behind ? c + lines_ahead / 2 : soon,
                                            c + lines_ahead < behind ? c + lines_ahead : later);
          if (c < t.plain_cells())
            t.template each_row<host_mem>(c, take);
          else
            t.template each_live<host_mem>(c, one);
        }
      } else {
        for (u64 c = first; c < first + many; ++c) t.template each_live<host_mem>(c, one);
      }
    });
    out.leave();
  });
  return 0;
}

GH_END
