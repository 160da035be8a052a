// stadium: the bytes of the table.
//
//   ticket-board   | group 0 | group 1 | ... | group G-1 |    one 64-bit word each; 1, 2, 4 or 8 groups are a line, and the
//                                                              number of lines is a prime
//                  |t|t|t|t|t|t|t|t|                          8 tickets of 8 bits, or 4 of 16, 16 of 4, 32 of 2
//   slots          | key | value | key | value | ...          one slot for each ticket, in the order of the tickets
//
//   ticket         | info ... | state |                       state: the two low bits
//     never 00     no key has had this slot since the last exclusive rebuild; the other bits are 0
//     busy  01     an insert has booked the slot and is writing its pair
//     live  11     the slot holds a key
//     dead  10     the slot held a key that was erased
//
// The info bits come from the key: 6 in a ticket of 8 bits, 14 of 16, 2 of 4, none of 2. Two states fit one bit, and four
// are needed, so there is no ticket of 1 bit. A key's path is a sequence of groups: the first by the high half of a product
// with its hash, then the others of its line, then those of the line that is the key's own stride further on, around the
// end. The number of lines is a prime, so a path meets every group. Lines of one group are the paper's double hashing.
//
// A slot's key is written once. A value of 4 or 8 bytes is one word, read and written at once whatever the key's size; a
// wider one is several words of 4 bytes.
//
// Invariants (cited in ops.hpp, tested by check):
//   I1  A ticket goes never -> busy -> live -> dead and no other way, and its info bits stay what they were when it was
//       booked, until an exclusive rebuild. The slot's key is written while it is busy and never again.
//   I2  When a slot became k's, every group before its own on k's path had no ticket that was never booked. By I1 they
//       still have none.
//   I3  A key has at most one slot that is busy or live: an insert that books one has seen, in the word that its booking
//       replaced and in the full groups before it, that no live slot is k's and no busy one has k's info bits.
//   I4  A path ends after path_limit groups, which are whole lines. path_limit == groups makes every path meet every slot.
#pragma once
#include "libgpuhash/hash/hash.hpp"
#include "libgpuhash/tile/kinds.hpp"

GH_BEGIN

enum ticket_state : u32 { never = 0, busy = 1, dead = 2, live = 3 };
inline constexpr u32 state_bits = 2;

GH_FN u32 lowest_bit(u64 w) {
#if defined(__CUDA_ARCH__)
  return u32(__ffsll((long long)w)) - 1;
#else
  return u32(__builtin_ctzll(w));
#endif
}

struct stadium_table {
  u64* tickets;
  unsigned char* slots;
  unsigned char* values;         // slots + value_at, for values that are read and written in words of 4 bytes
  unsigned char* long_values;    // the same, for values of 8 bytes. Every pointer has accesses of one size
  unsigned char* long_slots;     // slots, where all accesses of a slot have 8 bytes (rows.hpp)
  u32* locks;                    // of values that lie behind a bus (rows.hpp)
  const unsigned char* nothing;  // 16 bytes that are no slot's, for reads without a branch
  u64 seed;
  u64 groups;       // a prime number of lines
  u64 path_limit;   // groups
  u64 ones;         // the lowest bit of every ticket of a group
  u32 log_bits;     // of a ticket: 1 << log_bits bits
  u32 log_tickets;  // of a group: 1 << log_tickets tickets
  u32 log_line;     // of a line: 1 << log_line groups
  u32 key_bytes, value_bytes;
  u32 value_at;  // bytes from a slot's start to its value
  u32 stride;    // bytes from a slot to the next
  // For slots that are slow to reach: those in host memory that CUDA reaches over a bus (rows.hpp, serve_rows.cuh), and
  // those in a file (page_order.hpp).
  bool by_rows;  // over a bus
  bool in_file;
  bool order_if_away;  // in a file: only batches that find pages missing in memory are put in order
  u32 log_lanes;       // 1 << log_lanes lanes of a warp share a row
  u32 lock_mask;       // locks - 1
  u32 window_shift;    // a window of the slots has 1 << window_shift bytes
  u64 ordered_from;    // elements of a batch that is served in the order of windows; 0: no batch is

  static constexpr u32 kinds = single_kinds;

  GH_FN u64 cells() const { return groups << log_tickets; }
  GH_FN u64 cell(u64 group, u32 i) const { return (group << log_tickets) + i; }
  GH_FN unsigned char* slot(u64 group, u32 i) const { return slots + cell(group, i) * stride; }
  // The storage of the slots, and facts that follow from it.
  void place_slots(void* p) {
    slots = static_cast<unsigned char*>(p);
    values = slots + value_at;
    long_values = slots + value_at;
    long_slots = slots;
  }
  GH_FN u32 shift_of(u32 i) const { return i << log_bits; }
  GH_FN u32 state_at(u64 word, u32 i) const { return u32(word >> shift_of(i)) & 3; }

  // The highest bit of every ticket of `word` that equals the ticket at its place in `pattern`. Exact: no carry leaves a
  // ticket.
  GH_FN u64 equal(u64 word, u64 pattern) const {
    const u64 differs = word ^ pattern;
    const u64 low = ~(ones << ((1u << log_bits) - 1));
    return ~(((differs & low) + low) | differs | low);
  }
  GH_FN u32 first(u64 hits) const { return lowest_bit(hits) >> log_bits; }

  // The facts that follow from a key's hash: its first group, its stride in groups, and its live ticket in every place
  // of a word.
  GH_FN u64 home(u64 h) const { return reduce(h, groups); }
  GH_FN u64 stride_of(u64 h) const {
    return (1 + reduce(h * 0x9e3779b97f4a7c15ull, (groups >> log_line) - 1)) << log_line;
  }
  GH_FN u64 live_ticket(u64 h) const {
    const u64 info = h & ((u64(1) << ((1u << log_bits) - state_bits)) - 1);
    return (info << state_bits | live) * ones;
  }
  // May a find look at whole lines of so many groups (ops.hpp)?
  bool has_lines_of(u32 many) const { return 1u << log_line == many && log_bits >= 3; }
  // With so many groups of a path left, this one included: is the group to visit in the same line as the one before it?
  GH_FN bool in_line(u64 left) const { return (left & ((u64(1) << log_line) - 1)) != 0; }
  // The group that a path visits after `group`. left: groups that may be visited, that one included.
  GH_FN u64 after(u64 group, u64 by, u64 left) const {
    const u64 others = (u64(1) << log_line) - 1;
    if (left & others) return (group & ~others) | ((group + 1) & others);
    const u64 next = group + by;
    return next >= groups ? next - groups : next;
  }
};

// Where a slot's value begins, and how far apart slots are: words of 8 bytes lie at multiples of 8.
struct slot_shape {
  u32 value_at, stride;
};
constexpr slot_shape shape_of(u32 key_bytes, u32 value_bytes) {
  const u32 unit = key_bytes == 8 || value_bytes == 8 ? 8 : 4;
  const u32 at = value_bytes == 8 ? (key_bytes + 7) / 8 * 8 : key_bytes;
  return {at, (at + value_bytes + unit - 1) / unit * unit};
}
// The same for rows, which cross a bus in pieces of 16 bytes, or whole if they have 4 or 8.
constexpr slot_shape row_shape_of(u32 key_bytes, u32 value_bytes) {
  const u32 at = value_bytes == 8 ? (key_bytes + 7) / 8 * 8 : key_bytes;
  const u32 bytes = at + value_bytes;
  return {at, bytes <= 8 ? bytes : (bytes + 15) / 16 * 16};
}
constexpr u32 log_lanes_of(u32 stride) {
  u32 log = 0;
  while (16u << log < stride) ++log;
  return log;
}

GH_END
