// A growing table that gets no memory.
//
// It is full at limit(), not at its last slot: in a table of which every slot is taken, the search for an absent key reads
// all of them. So once growth was refused, the remaining elements of the call are served in slices:
//
//   F1  All keys of a slice are looked up. Elements whose keys are there are served, and so are operations that add none.
//   F2  Of the elements whose keys are absent as many are served as the ledger (room.hpp) has room for. Where some of their
//       keys are the same, there is room for others, which another look at the slice finds.
//   F3  The other elements say that they found no room. Nothing searches for them again: a refusal costs what a find costs.
//
// A refusal is good for one call. The next call asks for memory before it serves anything, and grows if there is some.
#pragma once
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

// Facts about a slice's elements, in host memory.
struct table::slice {
  static constexpr uint8_t waits = 0xff, on_its_way = 0xfe;  // instead of a status

  slice(size_t wanted, bool mixes) : n(wanted), mixed(mixes) {
    if (n > few_elements) many_.reset(new (std::nothrow) uint8_t[3 * n]);
    if (n > few_elements && !many_) n = few_elements;
    status = many_ ? many_.get() : few_;
    marks = status + n;
    ops = marks + n;
    memset(status, waits, n);
  }

  bool takes_room(size_t i) const { return !marks[i] && (!mixed || adds_in_mix(ops[i])); }
  uint64_t absent() const {  // of those that wait
    uint64_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += status[i] == waits && takes_room(i);
    return sum;
  }
  // Rules F1 and F2. marks: on entry, whether an element's key is there; on return, whether the element is served.
  void choose(uint64_t room) {
    served = left = 0;
    for (size_t i = 0; i < n; ++i) {
      const bool here = status[i] == waits, takes = takes_room(i), serves = here && (!takes || room > 0);
      room -= serves && takes;
      marks[i] = serves ? GPUHASH_ELEMENT_FULL : GPUHASH_NO;  // as if it was to be tried again
      if (serves) status[i] = on_its_way;
      served += serves;
      left += here && !serves;
    }
  }
  void arrive() {  // marks: what the elements say that were served
    for (size_t i = 0; i < n; ++i)
      if (status[i] == on_its_way) status[i] = marks[i];
  }
  uint64_t end() {  // F3: how many found no room
    uint64_t failed = 0;
    for (size_t i = 0; i < n; ++i) {
      if (status[i] == waits) status[i] = GPUHASH_ELEMENT_FULL;
      failed += status[i] == GPUHASH_ELEMENT_FULL || status[i] == GPUHASH_ELEMENT_NO_MEMORY;
    }
    return failed;
  }

  size_t n, served = 0, left = 0;
  const bool mixed;
  uint8_t *status, *marks, *ops;

 private:
  std::unique_ptr<uint8_t[]> many_;
  uint8_t few_[3 * few_elements];  // not of the heap, which may be exhausted
};

// Serves the first slice of p, whose elements have status bytes. On CUDA the table is held exclusively; on the CPU it
// is not held when this is called, and shared for each round.
inline gpuhash_status table::serve_within_limit(part& p, gpuhash_error* err) {
  slice s(p.q.n < refused_slice ? p.q.n : refused_slice, p.q.kind == GPUHASH_OP_EXECUTE);
  p.q.n = s.n;
  p.q.alone = 0;
  if (s.mixed) {
    int e = p.q.out_values ? api_.fill(p.q.out_values, 0, s.n * p.q.value_bytes, p.q.stream) : 0;
    if (!e) e = api_.copy(s.ops, p.q.ops, s.n, p.q.stream);
    if (e) return fault(err, e, "reading the operations of a batch");
  }
  for (bool again = true; again;) {
    // The gate is held until the claim is settled: a recount between the two would give the claimed room to another
    // batch.
    std::optional<host_turn> turn;
    if (!on_cuda()) turn.emplace(host_gate_, false);
    if (const gpuhash_status failed = find_slice(p, s, err)) return failed;
    const room_ledger::claim c = room_.take_rest(s.absent());
    s.choose(c.n);
    const int64_t used_before = p.sum.used;
    const gpuhash_status failed = s.served ? serve_slice(p, s, err) : gpuhash_status(GPUHASH_OK);
    room_.settle(c, uint64_t(p.sum.used - used_before));
    if (failed) return failed;
    again = s.served && s.left && (c.n || room_.left());
  }
  p.sum.failed = s.end();
  int e = api_.copy(p.q.status, s.status, s.n, p.q.stream);
  if (!e) e = api_.wait(p.q.stream);
  return e ? fault(err, e, "a batch") : gpuhash_status(GPUHASH_OK);
}

// marks: is the key there? Called with the gate held, as the next function is.
inline gpuhash_status table::find_slice(const part& p, slice& s, gpuhash_error* err) {
  memset(s.marks, 0, s.n);
  if (p.q.kind == GPUHASH_OP_INSERT_MULTI) return GPUHASH_OK;  // each element takes room
  uint64_t present = 0;
  if (const gpuhash_status failed = count_present(p.q, p.q.status, s.n, &present, err)) return failed;
  int e = api_.copy(s.marks, p.q.status, s.n, p.q.stream);
  if (!e) e = api_.wait(p.q.stream);
  return e ? fault(err, e, "looking keys up") : gpuhash_status(GPUHASH_OK);
}

// The elements that are marked.
inline gpuhash_status table::serve_slice(part& p, slice& s, gpuhash_error* err) {
  if (const int e = api_.copy(p.q.status, s.marks, s.n, p.q.stream)) return fault(err, e, "a batch");
  p.q.only_failed = 1;
  if (on_cuda()) {
    if (const gpuhash_status failed = queue(p, head()->batch, true, err)) return failed;
    if (const gpuhash_status failed = read_counters(p, head()->batch, err)) return failed;
  } else {
    serve(p, false);
  }
  p.q.only_failed = 0;
  int e = api_.copy(s.marks, p.q.status, s.n, p.q.stream);
  if (!e) e = api_.wait(p.q.stream);
  s.arrive();
  return e ? fault(err, e, "a batch") : gpuhash_status(GPUHASH_OK);
}

}  // namespace gpuhash
