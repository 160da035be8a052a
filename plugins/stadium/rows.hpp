// stadium over a bus: operations on slots that lie in host memory, tickets in the device's.
//
// Each access over the bus costs as much as many of the device's own memory, whatever its size. So an operation does not
// touch its slot itself: it says what it wants of it, and its driver reads or writes the whole row at once, several lanes
// of a warp together (serve_rows.cuh). The tickets and the invariants are those of ops.hpp, and so are the linearization
// points.
//
//   B1  Host memory is read and written, never changed by an atomic operation: over a bus that is not atomic for all, or
//       not possible. What has to be exchanged is in the tickets; a value of 4 or 8 bytes is written by the holder of its
//       lock, which lies in the device's memory: its owner reads one value, writes one, and waits for no other thread.
//   B2  All accesses of slots, and the releases and acquires that order them, are of system scope (Mem).
//   B3  The driver writes a row between `look` and `publish`, and orders what its lanes wrote before the call of
//       `publish`; it never waits for another operation in between.
#pragma once
#include "ops.hpp"

GH_BEGIN

// What an operation wants of its slot.
enum class wish : u32 {
  nothing,  // it has gone on, has to look again, or is done
  compare,  // is the slot's key mine? Answer by compared(); values are copied before that
  write,    // write key and value, then call publish()
  update    // it is: change the value under its lock
};

template <class Mem, u32 Kind>
struct row_op {
  u64 at;      // the group to visit
  u64 stride;  // to the next
  u64 mine;    // the key's live ticket, in every place of a word
  u64 left;    // groups that may be visited, this one included
  u64 same;    // tickets of the group that may be the key's and were not compared yet
  u64 seen;    // the word that they were seen in
  u32 own_kind;
  u32 place;  // in the group: the slot that was asked for
  bool looked;
  bool matched;  // the slot is the key's, and its value is to be changed
  bool done;
  outcome_of res;

  GH_FN u32 kind() const { return Kind == mixed ? own_kind : Kind; }
  GH_FN bool adding() const { return in_kinds(kind(), adding_kinds); }
  GH_FN u64 cell(const stadium_table& t) const { return t.cell(at, place); }

  GH_FN void start(const stadium_table& t, u32 kd, u64 h) {
    at = t.home(h);
    stride = t.stride_of(h);
    mine = t.live_ticket(h);
    left = t.path_limit;
    same = seen = 0;
    own_kind = kd;
    place = 0;
    looked = matched = done = false;
    res = {no, 0, 0};
  }

  // One visit of the group's word, up to the next slot of it that has to be touched.
  GH_FN wish look(const stadium_table& t) {
    if (matched) return wish::update;
    if (!looked) {
      seen = Mem::template load<order::acquire>(t.tickets + at);
      same = t.equal(seen, mine);
      looked = true;
    }
    if (same) {
      place = t.first(same);
      return wish::compare;
    }
    looked = false;
    const u64 open = t.equal(seen, 0);
    if (adding()) {
      if (t.equal(seen, mine - (live - busy) * t.ones) && !GH_MUTANT(stadium_no_wait)) {
        Mem::relax();  // I3
        return wish::nothing;
      }
      if (open) return book(t, t.first(open));
    } else if (open) {
      done = true;
      return wish::nothing;
    }
    go_on(t);
    return wish::nothing;
  }

  // Where look() will want to touch a slot first, as far as tickets alone say. `slow`: in slot `place` of group `at`.
  // `done`: nowhere, and the key is absent. `next`: call it again.
  GH_FN verdict look_ahead(const stadium_table& t) {
    const verdict d = tickets_ahead<Mem>(t, at, mine, left == 1, adding(), &place);
    if (d == verdict::next) go_on(t);
    return d;
  }

  // Would an insert book a slot outside of that window of so many bytes? Nothing of it has happened so far.
  GH_FN bool strays(const stadium_table& t, u32 shift, u32 window) const {
    if (!adding() || looked || matched) return false;
    u32 there = 0;
    if (tickets_ahead<Mem>(t, at, mine, left == 1, true, &there) == verdict::next) return false;
    return u32(t.cell(at, there) * t.stride >> shift) != window;
  }

  // Is the value to be written by the driver, before compared()? Wider values may be torn (docs/adr/0013).
  GH_FN bool replaces(const stadium_table& t) const { return kind() == assign && t.value_bytes > 8; }

  GH_FN void compared(const stadium_table& t, bool equal) {
    if (!equal) {
      same = GH_MUTANT(rows_first_match_only) ? 0 : same & (same - 1);
      return;
    }
    const u32 kd = kind();
    matched = (kd == assign || kd == accumulate) && (t.value_bytes == 4 || t.value_bytes == 8);
    done = !matched;
    if (kd == find || kd == count) res.status = yes;
    if (!in_kinds(kd, erasing_kinds)) return;
    const u64 before =
        Mem::template fetch_and<order::relaxed>(t.tickets + at, ~(u64(live ^ dead) << t.shift_of(place)));
    const bool won = t.state_at(before, place) == live || GH_MUTANT(stadium_blind_erase);
    res = {won ? u32(yes) : u32(no), won ? -1 : 0, 0};
  }

  // B1. False: another one has the lock, and this one tries again.
  GH_FN bool lock(const stadium_table& t) const {
    if (!locks()) return true;
    u32* const its = lock_of(t);
    if (Mem::template load<order::relaxed>(its) != 0) {
      Mem::relax();
      return false;
    }
    return Mem::template cas<order::acq_rel>(its, 0u, 1u) == 0;
  }
  GH_FN u64 value(const stadium_table& t) const {
    if (t.value_bytes == 4) return Mem::template load<order::relaxed>(value_words(t, cell(t)));
    return Mem::template load<order::relaxed>(long_value(t, cell(t)));
  }
  // What this operation makes of a value.
  GH_FN u64 changed(const stadium_table& t, u64 v, u64 operand, joiner j) const {
    if (kind() == assign) return operand;
    return t.value_bytes == 4 ? join(j, u32(v), u32(operand)) : join(j, v, operand);
  }
  GH_FN void unlock(const stadium_table& t, u64 v) const {
    if (t.value_bytes == 4)
      Mem::template store<order::relaxed>(value_words(t, cell(t)), u32(v));
    else
      Mem::template store<order::relaxed>(long_value(t, cell(t)), v);
    if (locks()) Mem::template store<order::release>(lock_of(t), 0u);
  }
  GH_FN void updated() { done = true; }

  GH_FN void publish(const stadium_table& t) {
    Mem::template fetch_or<order::release>(t.tickets + at, u64(live ^ busy) << t.shift_of(place));
    res = {yes, 1, 1};
    done = true;
  }

 private:
  GH_FN void go_on(const stadium_table& t) {
    if (left == 1) {  // I4
      res.status = adding() ? u32(full) : u32(no);
      done = true;
      return;
    }
    at = t.after(at, stride, --left);
  }
  GH_FN wish book(const stadium_table& t, u32 i) {
    const u32 shift = t.shift_of(i);
    const u64 ticket = mine & ((u64(1) << (1u << t.log_bits)) - 1);
    const u64 booked = seen | (ticket ^ (live ^ busy)) << shift;
    if (Mem::template cas<order::relaxed>(t.tickets + at, seen, booked) != seen) return wish::nothing;
    place = i;
    return wish::write;
  }
  GH_FN u32* lock_of(const stadium_table& t) const { return t.locks + (cell(t) & t.lock_mask); }
  GH_FN bool locks() const { return !GH_MUTANT(unlocked_value) && !(GH_MUTANT(unlocked_assign) && kind() == assign); }
};

GH_END
