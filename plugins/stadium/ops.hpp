// stadium: insert, insert_or_assign, accumulate, find and erase over a ticket-board.
//
// After the Stadium hash table (Khorasani, Belviranli, Gupta, Bhuyan: "Stadium Hashing", PACT 2015), with tickets that say
// more than whether a slot is taken. The invariants I1-I4 are in layout.hpp.
//
// How an insert proceeds: it books a ticket, state and info bits at once, by a compare-and-swap of the whole group's word;
// writes key and value; and publishes the ticket as live, with release. Whoever reads a live ticket with acquire may read
// the key, and the value or a later one.
//
// Linearization points:
//   insert of an absent key   the publishing of its ticket
//   erase                     its fetch_and, if that found the ticket live
//   find                      the read of the value, while the ticket is live; if the key is erased between the two reads,
//                             the moment before it is
//   assign, accumulate        the write of the value; if the key is erased before that, the moment before it is. Nobody can
//                             tell: a dead slot stays dead (I1), and a key that comes back gets another slot with a value
//                             of its own
//   absent                    the load of the word whose `never` ends the path, or of a word in which the key's ticket was
//                             busy: its insert had not taken effect yet
// An insert waits for a busy ticket with its own info bits, which might be its own key's. Its owner writes one pair and
// publishes, and waits for nobody.
#pragma once
#include "libgpuhash/tile/mutant.hpp"
#include "pair.hpp"

GH_BEGIN

// What an operation adds to the table's counters, besides its status.
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
  void* out;  // of find; or NULL
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
    const u64 seen = Mem::template load<order::relaxed>(t.tickets + at);
    u64 hits = t.equal(seen, mine);
    if (!hits && adding()) hits = t.equal(seen, 0);
    return hits ? t.slot(at, t.first(hits)) : nullptr;
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
    at = t.after(at, stride);
    if (--left) return verdict::next;
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
    Mem::template fetch_or<order::release>(group, u64(live ^ busy) << shift);
    res = {yes, 1, 1};
    return verdict::done;
  }

  GH_FN verdict present(const stadium_table& t, joiner j, u64* group, u32 i) {
    const u32 kd = kind();
    const u32 bytes = S::value_bytes(t);
    const u64 cell = t.cell(at, i);
    if (kd == find || kd == count) {
      if (out && bytes) load_value<Mem>(t, cell, out, bytes);
      res.status = yes;
    } else if (kd == erase) {
      const u64 before = Mem::template fetch_and<order::relaxed>(group, ~(u64(live ^ dead) << t.shift_of(i)));
      const bool won = t.state_at(before, i) == live || GH_MUTANT(stadium_blind_erase);
      res = {won ? u32(yes) : u32(no), won ? -1 : 0, 0};
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
  u64 group;  // to visit
  u64 left;   // groups that may be visited, this one included

  GH_FN void start(const stadium_table& t, typename S::key a_key) {
    k = a_key;
    hash = S::hash_of(t, k);
    group = t.home(hash);
    left = t.path_limit;
  }
};

// A visit of such a find in two steps without a branch, so that a driver may take the first step of many before it takes
// the second one of any. Nearly always the two have decided it. What they leave undecided goes on by rest().
template <class Mem, class S>
struct stadium_look {
  const unsigned char* slot;  // the first one with the key's info bits, while its ticket was live; or one of no key
  bool live_there;            // there is such a slot
  bool absent;                // there is none, and the path ends here

  GH_FN static stadium_look at(const stadium_table& t, const stadium_visit<S>& v) {
    stadium_look l;
    const u64 seen = Mem::template load<order::acquire>(t.tickets + v.group);
    const u64 same = t.equal(seen, t.live_ticket(v.hash));
    l.live_there = same != 0;
    l.absent = !same & (t.equal(seen, 0) != 0);
    const unsigned char* const there = t.slot(v.group, t.first(same | u64(1) << 63));
    l.slot = l.live_there ? there : t.nothing;
    GH_NO_BRANCH(l.slot);
    return l;
  }
  // Was it the key? value: what find answers if it was.
  template <class V>
  GH_FN bool finds(const stadium_table& t, typename S::key k, V* value) const {
    const bool found = live_there & S::template same_key<Mem>(t, slot, k);
    *value = S::value_bytes(t) ? Mem::template load<order::relaxed>(reinterpret_cast<const V*>(slot + S::value_at(t)))
                               : V(0);
    return found;
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
    v.group = t.after(v.group, t.stride_of(v.hash));
    return --v.left ? verdict::next : verdict::done;  // I4
  }
};

GH_END
