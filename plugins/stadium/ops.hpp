// stadium: insert, insert_or_assign, accumulate, find and erase over a ticket-board.
//
// After the Stadium hash table (Khorasani, Belviranli, Gupta, Bhuyan: "Stadium Hashing", PACT 2015), with tickets that say
// more than whether a slot is taken. The invariants I1-I4 are in layout.hpp.
//
// How an insert proceeds: it books a ticket, state and info bits at once, by a compare-and-swap of the whole group's word;
// writes key and value; and publishes the ticket as live, with release. A thread that reads a live ticket with acquire
// may read the key, and the value or a later one.
//
// Linearization points:
//   insert of an absent key   the publishing of its ticket
//   erase                     its fetch_and, if that found the ticket live
//   find                      the read of the value, while the ticket is live; if the key is erased between the two reads,
//                             the moment before it is
//   assign, accumulate        the write of the value; if the key is erased before that, the moment before it is. No operation
//                             sees a difference: a dead slot stays dead (I1), and a key that comes back gets another slot
//                             with a value of its own
//   find_or_insert            that of insert, or of find
//   pop                       its fetch_and, as erase. It reads the value after that, which is then as it was: nothing that
//                             writes values runs at the same time (exclusive_kinds), since a late assign could not tell
//                             whether pop has seen its value
//   absent                    the load of the word whose `never` ends the path, or of a word in which the key's ticket was
//                             busy: its insert had not taken effect yet
// An insert waits for a busy ticket with its own info bits, which might be its own key's. Its owner writes one pair and
// publishes, and waits for no other thread.
//
// Tickets and slots are also written by
//   rows.hpp, serve_rows.cuh, serve_stack.cuh   slots in host memory: the same steps by several lanes, with I1 to I4 and the rules B1
//                             to B3 of rows.hpp
//   structure.hpp, table_file.hpp   exclusively: a table that is cleared, whose tickets are all `never` again, and a file that
//                             was not closed, in which tickets of unfinished inserts, and with repair=1 of pairs in a wrong
//                             place, become dead (I1)
#pragma once
#include "libgpuhash/tile/mutant.hpp"
#include "pair.hpp"

GH_BEGIN

// The amounts that an operation adds to the table's counters, besides its status.
struct outcome_of {
  u32 status;
  int live, used;
};

// Hides from the compiler where a value comes from, so that it makes no branch of it.
#if defined(__CUDACC__)
#define GH_NO_BRANCH(x)
#else
#define GH_NO_BRANCH(x) asm("" : "+r"(x))
#endif

// Where an operation will touch a slot first, as far as the tickets of a group alone say. `slow`: in slot *place of it.
// `done`: nowhere, and the key is absent. `next`: not in this group. `last`: the path ends here.
template <class Mem>
GH_FN verdict tickets_ahead(const stadium_table& t, u64 group, u64 mine, bool last, bool adding, u32* place) {
  const u64 word = Mem::template load<order::relaxed>(t.tickets + group);  // no slot is read on the strength of it
  const u64 maybe = t.equal(word, mine);
  const u64 open = t.equal(word, 0);
  *place = t.first(maybe ? maybe : open ? open : u64(1) << 63);
  if (maybe && !GH_MUTANT(settled_unseen)) return verdict::slow;
  if (open || last) return adding ? verdict::slow : verdict::done;  // an insert finds out by itself
  return verdict::next;
}

// One operation. Kind is a kind, or `mixed` when it is known at run time only. Everything is done by one lane.
template <class Mem, class S, u32 Kind>
struct stadium_op {
  using key = typename S::key;
  static constexpr u32 fixed_kind = Kind;

  key k;
  u64 at;      // the group to visit
  u64 stride;  // to the next
  u64 mine;    // k's live ticket, in every place of a word
  u64 left;    // groups that may be visited, this one included
  const void* operand;
  void* out;  // for a value that is answered; or NULL
  u32 own_kind;
  outcome_of res;

  GH_FN u32 kind() const { return Kind == mixed ? own_kind : Kind; }
  GH_FN bool adding() const { return in_kinds(kind(), adding_kinds); }

  GH_FN void start(const stadium_table& t, u32 kd, key a_key, const void* an_operand, void* to) {
    const u64 h = S::hash_of(t, a_key);
    k = a_key;
    at = t.home(h);
    stride = t.stride_of(h);
    mine = t.live_ticket(h);
    left = t.path_limit;
    operand = an_operand;
    out = to;
    own_kind = kd;
    res = {no, 0, 0};
  }

  // The slot that the next visit will probably touch, for prefetching; or NULL.
  GH_FN const void* slot_ahead(const stadium_table& t) const {
    u64 group = at;
    for (u64 others = left;;) {
      const u64 seen = Mem::template load<order::relaxed>(t.tickets + group);
      const u64 open = t.equal(seen, 0);
      u64 hits = t.equal(seen, mine);
      if (!hits && adding()) hits = open;
      if (hits) return t.slot(group, t.first(hits));
      if (open || !t.in_line(--others)) return nullptr;
      group = t.after(group, stride, others);
    }
  }

  // Visit a group. `again`: the same one, `next`: operation has moved on to another one.
  GH_FN verdict step(const stadium_table& t, joiner j) {
    u64* const group = t.tickets + at;
    const u64 seen = Mem::template load<order::acquire>(group);
    for (u64 same = t.equal(seen, mine); same; same &= same - 1) {
      const u32 i = t.first(same);
      const unsigned char* const slot = t.slot(at, i);
      if (S::template same_key<Mem>(t, slot, k) || GH_MUTANT(stadium_info_is_key)) return present(t, j, group, i);
      if (GH_MUTANT(first_match_only) && kind() == find) break;
    }
    u64 open = t.equal(seen, 0);
    if (GH_MUTANT(rebooked_slot) && adding() && !open) open = t.equal(seen & t.ones * 3, u64(dead) * t.ones);
    if (adding()) {
      if (t.equal(seen, mine - (live - busy) * t.ones) && !GH_MUTANT(stadium_no_wait)) {
        Mem::relax();  // I3
        return verdict::again;
      }
      if (open) return book(t, group, seen, t.first(open));
    } else if (open) {
      return verdict::done;
    }
    at = t.after(at, stride, --left);
    if (left) return verdict::next;
    res.status = adding() ? u32(full) : u32(no);  // I4
    return verdict::done;
  }

 private:
  GH_FN verdict book(const stadium_table& t, u64* group, u64 seen, u32 i) {
    const u32 shift = t.shift_of(i);
    const u64 ticket = mine & ((u64(1) << (1u << t.log_bits)) - 1);
    const u64 booked = seen | (ticket ^ (live ^ busy)) << shift;
    if (Mem::template cas<order::relaxed>(group, seen, booked) != seen) return verdict::again;
    S::template put_key<Mem>(t, t.slot(at, i), k);
    if (S::value_bytes(t)) store_value<Mem>(t, t.cell(at, i), operand, S::value_bytes(t));
    if (kind() == find_or_insert && out && S::value_bytes(t)) load_value<Mem>(t, t.cell(at, i), out, S::value_bytes(t));
    Mem::template fetch_or<order::release>(group, u64(live ^ busy) << shift);
    res = {yes, 1, 1};
    return verdict::done;
  }

  GH_FN verdict present(const stadium_table& t, joiner j, u64* group, u32 i) {
    const u32 kd = kind();
    const u32 bytes = S::value_bytes(t);
    const u64 cell = t.cell(at, i);
    if (kd == find || kd == count || kd == find_or_insert) {
      if (out && bytes) load_value<Mem>(t, cell, out, bytes);
      res.status = status_of(kd, true);
    } else if (in_kinds(kd, erasing_kinds)) {
      const u64 before = Mem::template fetch_and<order::relaxed>(group, ~(u64(live ^ dead) << t.shift_of(i)));
      const bool won = t.state_at(before, i) == live || GH_MUTANT(stadium_blind_erase);
      res = {won ? u32(yes) : u32(no), won ? -1 : 0, 0};
      if (kd == pop && won && out && bytes) load_value<Mem>(t, cell, out, bytes);
    } else if (kd == assign && bytes) {
      store_value<Mem>(t, cell, operand, bytes);
    } else if (kd == accumulate) {
      if (bytes == 4) join_value<Mem>(value_words(t, cell), operand, j);
      if (bytes == 8) join_value<Mem>(long_value(t, cell), operand, j);
    }
    return verdict::done;
  }
};

// A find of a small key, as long as it is under way.
template <class S>
struct stadium_visit {
  typename S::key k;
  u64 hash;
  u64 group;      // to visit
  u64 left;       // groups that may be visited, this one included
  u64 unsettled;  // of a line that is looked at as a whole: the tickets that were not compared yet

  GH_FN void start(const stadium_table& t, typename S::key a_key) {
    k = a_key;
    hash = S::hash_of(t, k);
    group = t.home(hash);
    left = t.path_limit;
    unsettled = ~u64(0);
  }
  GH_FN void go_on(const stadium_table& t) {
    --left;
    group = t.after(group, t.stride_of(hash), left);
  }
  // From the first group of a line that was visited as a whole.
  GH_FN void leave_line(const stadium_table& t) {
    const u64 others = (u64(1) << t.log_line) - 1;
    unsettled = ~u64(0);
    left -= others + 1;
    group = t.after((group & ~others) | ((group - 1) & others), t.stride_of(hash), left);
  }
};

// Is it a live slot of that key? value: what a find answers if it is.
template <class Mem, class S, class V>
GH_FN bool slot_has(const stadium_table& t, const unsigned char* slot, bool is_live, typename S::key k, V* value) {
  const bool found = is_live & S::template same_key<Mem>(t, slot, k);
  *value =
      S::value_bytes(t) ? Mem::template load<order::relaxed>(reinterpret_cast<const V*>(slot + S::value_at(t))) : V(0);
  return found;
}

// A visit of such a find in two steps without a branch, so that a driver may take the first step of many before it takes
// the second one of any. Nearly always the two have decided it. What they leave undecided goes on by rest().
template <class Mem, class S>
struct stadium_look {
  const unsigned char* slot;  // the first one with the key's info bits, while its ticket was live; or one of no key
  bool live_there;            // there is such a slot
  bool absent;                // there is none, and the path ends here

  GH_FN void look(const stadium_table& t, const stadium_visit<S>& v) {
    const u64 seen = Mem::template load<order::acquire>(t.tickets + v.group);
    const u64 same = t.equal(seen, t.live_ticket(v.hash));
    const unsigned char* there = t.slot(v.group, t.first(same | u64(1) << 63));
    GH_NO_BRANCH(there);
    slot = same ? there : t.nothing;
    live_there = same != 0;
    absent = !same & (t.equal(seen, 0) != 0);
  }
  template <class V>
  GH_FN bool finds(const stadium_table& t, typename S::key k, V* value) const {
    return slot_has<Mem, S>(t, slot, live_there, k, value);
  }
  // Neither found nor absent: the slot was another key's, and the group may have more of these info bits; or the group is
  // full, and v goes on to the next one. `next`: the find has to visit v.group. `done`: *found says how it ended.
  GH_FN verdict rest(const stadium_table& t, stadium_visit<S>& v, void* out, bool* found) const {
    *found = false;
    if (live_there && !GH_MUTANT(hasty_look)) {
      stadium_op<Mem, S, find> whole;
      whole.start(t, find, v.k, nullptr, out);
      whole.at = v.group;
      whole.left = v.left;
      if (whole.step(t, joiner{}) == verdict::done) {
        *found = whole.res.status == yes;
        return verdict::done;
      }
    }
    v.go_on(t);
    return v.left ? verdict::next : verdict::done;  // I4
  }
};

// The highest bits of the bytes of a word, side by side.
GH_FN u64 gathered(u64 high) { return (high >> 7 & 0x0101010101010101ull) * 0x0102040810204080ull >> 56; }

// Which tickets of a line are a key's, or were never booked: a bit for each byte of the line, and of a ticket of 16 bits
// that of its second byte.
struct line_bits {
  u64 same, open;
  GH_FN void add(const stadium_table& t, u32 g, u64 word, u64 mine) {
    same |= gathered(t.equal(word, mine)) << 8 * g;
    open |= gathered(t.equal(word, 0)) << 8 * g;
  }
};
template <class Mem, u32 Groups>
struct word_by_word {
  static constexpr u32 groups = Groups;
  GH_FN static line_bits look(const stadium_table& t, const u64* line, u64 mine) {
    line_bits seen{};
    for (u32 g = 0; g < Groups; ++g) seen.add(t, g, Mem::template load<order::acquire>(line + g), mine);
    return seen;
  }
};

// The same as stadium_look for a whole line, where t.has_lines_of(Line::groups). The words of a line may be read in any
// order: a key that has a live slot while all of them are read is seen there, since that slot lies before the end of its
// path (I2).
template <class Mem, class S, class Line>
struct stadium_line_look {
  const unsigned char* slot;  // the first one with the key's info bits, while its ticket was live; or one of no key
  u64 same;                   // all of them, in the order of the path, from v.group on
  bool live_there;            // there is such a slot
  bool ends;                  // the path ends in this line
  bool absent;                // there is no such slot, and the path ends here

  GH_FN void look(const stadium_table& t, const stadium_visit<S>& v) {
    const line_bits seen = Line::look(t, t.tickets + (v.group & ~u64(others)), t.live_ticket(v.hash));
    const u32 turn = u32(v.group & others) * 8;
    const u64 open = turned(seen.open, turn);
    const u32 end = lowest_bit(open | u64(1) << 63) | 7;  // of the first group with a ticket that was never booked
    const u64 maybe = turned(seen.same, turn) & (~u64(0) >> (63 - end)) & v.unsettled;
    const unsigned char* there = t.slots + cell_of(t, v, maybe | u64(1) << 63) * t.stride;
    GH_NO_BRANCH(there);
    slot = maybe ? there : t.nothing;
    same = maybe;
    live_there = maybe != 0;
    ends = open != 0;
    absent = !maybe & (open != 0 || GH_MUTANT(full_line_ends_path));
  }
  // The number of that slot.
  GH_FN u64 cell(const stadium_table& t, const stadium_visit<S>& v) const { return cell_of(t, v, same); }
  template <class V>
  GH_FN bool finds(const stadium_table& t, typename S::key k, V* value) const {
    return slot_has<Mem, S>(t, slot, live_there, k, value);
  }
  // Neither found nor absent: the slot was another key's, which it stays (I1), or the line is full. See stadium_look::rest.
  GH_FN verdict rest(const stadium_table& t, stadium_visit<S>& v, void*, bool* found) const {
    *found = false;
    if (same & (same - 1) && !GH_MUTANT(hasty_look)) {
      v.unsettled = GH_MUTANT(forgotten_line) ? 0 : ~(same ^ (same - 1));
      return verdict::next;
    }
    if (ends) return verdict::done;
    v.leave_line(t);
    return v.left ? verdict::next : verdict::done;  // I4
  }

 private:
  static constexpr u32 others = Line::groups - 1;
  static constexpr u32 bits_there = 8 * Line::groups;
  GH_FN static u64 turned(u64 bits, u32 by) {
    return (bits >> by | bits << ((bits_there - by) & 63)) & (~u64(0) >> (64 - bits_there));
  }
  GH_FN static u64 cell_of(const stadium_table& t, const stadium_visit<S>& v, u64 bits) {
    const u32 bit = lowest_bit(bits);
    const u64 group = (v.group & ~u64(others)) | ((v.group + bit / 8) & others);
    return t.cell(group, bit % 8 >> (t.log_bits - 3));
  }
};

GH_END
