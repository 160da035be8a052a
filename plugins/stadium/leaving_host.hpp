// stadium on the CPU: the live slots of a table are read out, for an export or for a move into a larger table.
#pragma once
#include <type_traits>

#include "libgpuhash/drive/host.hpp"
#include "ops.hpp"

GH_BEGIN

// Live slots on their way out of a table, whose pairs have any width.
class leaving_slots {
  static constexpr u32 most = tunable("leaving_slots", 64u);
  static_assert(most >= 32, "a group's tickets come at once");
  const stadium_table& t_;
  const collecting& to_;
  u32 n_ = 0;
  const unsigned char* slot_[most];

 public:
  leaving_slots(const stadium_table& t, const collecting& to) : t_(t), to_(to) {}
  void need_room(u32 n) {
    if (n_ + n > most) leave();
  }
  void add(const unsigned char* slot, bool is_one) {
    slot_[n_] = slot;
    n_ += is_one;
  }
  void leave() {
    u64 at = __atomic_fetch_add(to_.count, n_, __ATOMIC_RELAXED);
    for (u32 i = 0; i < n_ && at < to_.room; ++i, ++at) {
      if (to_.keys) __builtin_memcpy(static_cast<char*>(to_.keys) + at * t_.key_bytes, slot_[i], t_.key_bytes);
      if (to_.values)
        __builtin_memcpy(static_cast<char*>(to_.values) + at * t_.value_bytes, slot_[i] + t_.value_at, t_.value_bytes);
    }
    n_ = 0;
  }
};
template <class Key, u32 ValueBytes>
class leaving_small_slots {
  using value = std::conditional_t<ValueBytes == 8, u64, u32>;
  leaving_pairs<Key, value> out_;

 public:
  leaving_small_slots(const stadium_table&, const collecting& to) : out_(to) {}
  void need_room(u32 n) { out_.need_room(n); }
  // The contents of a slot that is not live are not defined.
  void add(const unsigned char* slot, bool is_one) {
    value v{};
    if constexpr (ValueBytes) __builtin_memcpy(&v, slot + shape_of(sizeof(Key), ValueBytes).value_at, sizeof(v));
    out_.add(*reinterpret_cast<const Key*>(slot), v, is_one);
  }
  void leave() { out_.leave(); }
};
template <class S>
struct leaving {
  using type = leaving_slots;
};
template <class Key, u32 ValueBytes>
struct leaving<small_pair<Key, ValueBytes>> {
  using type = leaving_small_slots<Key, ValueBytes>;
};

// The live slots of cells lo..hi of an order. Runs with no writer about.
template <class S>
int collect_slots(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
  constexpr cut cells_cut = tunable_cut({4096, 1024, 16384, 64});
  const auto& t = *static_cast<const stadium_table*>(table);
  const u32 tickets = 1u << t.log_tickets;
  in_pieces(to.threads, hi - lo, cells_cut, [&](size_t begin, size_t end) {
    typename leaving<S>::type out(t, to);
    each_run(order, lo + begin, lo + end, [&](u64 first, u64 many, u64 soon, u64 later) {
      if (order.stride && !t.in_file) {
        host_mem::prefetch<false>(t.tickets + (later >> t.log_tickets));
        const unsigned char* const slots = t.slots + soon * t.stride;
        for (u32 b = 0; b < tickets * t.stride; b += 64) host_mem::prefetch<false>(slots + b);
      }
      for (u64 c = first; c < first + many;) {
        const u64 group = c >> t.log_tickets;
        u32 i = u32(c - (group << t.log_tickets));
        const u32 upto = first + many - c < tickets - i ? i + u32(first + many - c) : tickets;
        c += upto - i;
        const u64 word = t.tickets[group];
        const u64 is_live = word & word >> 1 & t.ones;
        if (!is_live) continue;  // in a file these are pages that nothing was written to
        const unsigned char* slot = t.slot(group, i);
        out.need_room(upto - i);
        for (; i < upto; ++i, slot += t.stride) out.add(slot, is_live >> t.shift_of(i) & 1);
      }
    });
    out.leave();
  });
  return 0;
}

// Put every live pair of `from` into the empty table `to`, straight from slot to slot.
template <class S>
bool move_slots(const void* from_table, const void* to_table, totals* sum, uint32_t threads) {
  const auto& from = *static_cast<const stadium_table*>(from_table);
  const auto& to = *static_cast<const stadium_table*>(to_table);
  constexpr cut groups_cut = tunable_cut({512, 256, 4096});
  in_pieces(threads, from.groups, groups_cut, [&](size_t begin, size_t end) {
    totals part{};
    stadium_op<host_mem, S, insert> ops[block_size];
    u32 n = 0;
    const auto put = [&] {
      for (u32 j = 0; j < n; ++j)
        if (const void* slot = ops[j].slot_ahead(to)) host_mem::prefetch<true>(slot);
      for (u32 j = 0; j < n; ++j) {
        while (ops[j].step(to, joiner{}) != verdict::done) {
        }
        part.used += ops[j].res.used;
        part.failed += ops[j].res.status > yes;
      }
      n = 0;
    };
    for (u64 group = begin; group < end; ++group) {
      const u64 tickets = from.tickets[group];
      for (u32 i = 0; i < 1u << from.log_tickets; ++i) {
        if (from.state_at(tickets, i) != live) continue;
        const unsigned char* const slot = from.slot(group, i);
        ops[n].start(to, insert, S::read_key(from, slot, 0), slot + S::value_at(from), nullptr);
        host_mem::prefetch<true>(to.tickets + ops[n].at);
        if (++n == block_size) put();
      }
    }
    put();
    add_totals(sum, part);
  });
  return true;
}

GH_END
