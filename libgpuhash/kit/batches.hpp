// table::run: a batch goes through the table in parts.
//
// A batch that cannot add, or whose table may not grow, is one part. In a growing table each part has room claimed for it
// first (room.hpp), and no element of it is lost:
//
//   CPU    A part is looked at when it ends. Elements that found no room are tried again after the table has grown.
//   CUDA   A part that fits surely is queued, and the call returns without waiting for it. Any other part waits until no
//          batch runs, has the table to itself, and is looked at and retried like one on the CPU.
//
// Where the table cannot grow for lack of memory, the rest of the batch runs with the room there is up to its limit, and says
// what failed (full_table.hpp). The next call asks for memory again first.
#pragma once
#include "libgpuhash/kit/full_table.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

// May a batch of this kind write? May it take a key from its slot while another batch runs? Does it change the values
// of keys that stay?
inline bool may_write(uint32_t kind) { return in_kinds(kind, writing_batches); }
inline bool erases(uint32_t kind) { return in_kinds(kind, erasing_batches); }
inline bool changes_values(uint32_t kind) { return in_kinds(kind, changing_kinds); }

static_assert(counting_kinds == 1u << kind_count);
inline request table::request_for(const gpuhash_batch& b) const {
  request q{};
  q.kind = b.op;
  q.combine = b.combine;
  q.value_type = b.value_type;
  q.is_set = config_.value_bytes == 0;
  q.n = b.n;
  q.keys = b.keys;
  q.values = b.values;
  q.out_values = b.out_values;
  q.status = b.out_status;
  q.ops = b.ops;
  q.key_bytes = config_.key_bytes;
  q.value_bytes = config_.value_bytes ? config_.value_bytes : config_.key_bytes;
  if (!config_.value_bytes) {
    q.values = nullptr;
    q.out_values = in_kinds(b.op, counting_kinds) ? b.out_values : nullptr;
  }
  q.threads = threads_of_call;  // run() has asked
  q.stream = b.stream;
  tune(q);
  return q;
}

inline gpuhash_status table::run(const gpuhash_batch& b, gpuhash_error* err) {
  if (poisoned_) return poisoned(err);
  if (b.counts) *b.counts = {0, 0};
  if (b.n == 0) return GPUHASH_OK;
  if (b.flags & GPUHASH_DEDUP_LAST)
    return host->fail(
        err, GPUHASH_UNSUPPORTED,
        "this backend takes duplicates of a batch in some serial order; remove them first, or pass no dedup flag");
  if (b.op == GPUHASH_OP_ACCUMULATE && !config_.value_bytes)
    return host->fail(err, GPUHASH_UNSUPPORTED,
                      "accumulate needs values, and this table is a set; create it with value_bytes 4 or 8");
  if (b.op == GPUHASH_OP_ACCUMULATE && config_.value_bytes > 8)
    return host->fail(err, GPUHASH_UNSUPPORTED, "accumulate joins values of 4 or 8 bytes, and this table's have %u",
                      config_.value_bytes);
  if (in_kinds(b.op, facts_.refused_kinds)) return host->fail(err, GPUHASH_UNSUPPORTED, "%s", facts_.refusal);
  on_device scope(*this);
  if (scope.error) return fault(err, scope.error, "choosing the table's device");
  const request q = request_for(b);
  const bool growing = config_.grow && adds(b.op);
  const bool by_itself = in_kinds(b.op, facts_.exclusive_kinds);
  if (on_cuda()) {
    void* graph = nullptr;
    if (const gpuhash_status s = captured_by(b.stream, &graph, err)) return s;
    if (graph) return capture(q, graph, growing, b.counts != nullptr, err);
  }
  totals sum{};
  if (builder_ && builder_->accepts(q)) {
    bool done = false;
    const gpuhash_status s = run_by_building(q, &sum, &done, err);
    if (b.counts && done) *b.counts = {sum.yes, 0};
    if (s || done) return s;
  }
  uint64_t slots_then = 0;
  gpuhash_status grown = GPUHASH_OK;  // of the last attempt to grow; err says why it failed
  for (size_t done = 0; done < b.n;) {
    part p;
    p.q = part_of(q, done, b.n - done);
    const gpuhash_status s = by_itself   ? run_by_itself(p, b.counts != nullptr, err)
                             : on_cuda() ? run_on_cuda(p, growing, b.counts != nullptr, &grown, err)
                                         : run_on_host(p, growing, &grown, err);
    if (s) return s;
    sum.yes += p.sum.yes;
    sum.failed += p.sum.failed;
    sum.bad_ops += p.sum.bad_ops;
    slots_then = p.slots;
    done += p.q.n;
  }
  if (erases(b.op))
    if (const gpuhash_status s = erased(b.n, b.stream, err)) return s;
  if (b.counts) *b.counts = {sum.yes, sum.failed + sum.bad_ops};
  if (sum.bad_ops) return bad_ops(sum.bad_ops, err);
  if (sum.failed == 0) return GPUHASH_OK;  // where it could not grow, it did without
  failed_ += sum.failed;
  if (grown != GPUHASH_OK) return grown;  // the table wanted to grow and could not
  return exhausted(sum.failed, b.n, slots_then, err);
}

// The message of a call whose elements found no room in a table of so many slots.
inline gpuhash_status table::exhausted(uint64_t failed, uint64_t n, uint64_t slots, gpuhash_error* err) const {
  return host->fail(err, facts_.exhausted.status, "%llu of %llu elements found no %s %llu %s",
                    (unsigned long long)failed, (unsigned long long)n, facts_.exhausted.what, (unsigned long long)slots,
                    facts_.exhausted.way_out);
}

// Growth that fails for lack of memory, the host's own included, leaves the batch to run with the room there is.
template <class Call>
gpuhash_status without_throwing(gpuhash_error* err, Call call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return host->fail(err, GPUHASH_NO_MEMORY, "no memory for the table's own records");
  }
}

// Serves the whole batch by a rebuild. If memory runs out for that, the batch is served like any other.
inline gpuhash_status table::run_by_building(const request& q, totals* sum, bool* done, gpuhash_error* err) {
  exclusive hold(*this, q.stream);
  if (hold.error) return fault(err, hold.error, "waiting for running batches");
  if (graphs_.any()) return GPUHASH_OK;  // C1, C2
  changes();
  const gpuhash_status s = without_throwing(err, [&] { return builder_->build(q, sum, done, err); });
  if (*done) added_ += q.n;
  return s == GPUHASH_NO_MEMORY && !*done ? gpuhash_status(GPUHASH_OK) : s;
}

// A part of a batch whose kind cannot run beside other batches (table_facts).
inline gpuhash_status table::run_by_itself(part& p, bool look, gpuhash_error* err) {
  exclusive hold(*this, p.q.stream);
  if (hold.error) return fault(err, hold.error, "waiting for running batches");
  if (!on_cuda()) {
    serve(p, false);
    return GPUHASH_OK;
  }
  totals* const counters = look ? head()->batch : nullptr;
  if (const gpuhash_status s = queue(p, counters, true, err)) return s;
  return read_counters(p, counters, err);
}

// ---- CPU --------------------------------------------------------------------------------------------------------------

// Would this batch gain by having the table to itself? One that a single thread serves has no need of atomics then.
inline bool table::serves_alone(const request& q) const {
  return may_write(q.kind) && q.parts != parts_never && (q.threads <= 1 || q.n <= lone_batch);
}

// May this batch be served in the order of the table (kit/parts.hpp)? The gate is held.
inline bool table::may_divide(const request& q) const {
  constexpr uint32_t kinds = writing_kinds & ~answering_kinds;  // whose elements take no values back
  if (!engine_->homes || q.parts == parts_never || q.only_failed || !(kinds >> q.kind & 1)) return false;
  if (q.parts == parts_always) return true;
  const uint64_t used = uint64_t(__atomic_load_n(&head()->sum[0].used, __ATOMIC_RELAXED));
  return in_kinds(q.kind, combining_kinds) && q.n >= divided_least && q.n >= slots() / divided_least_share &&
         used + q.n >= slots() / 4 * 3 && bytes_of_slots() >= divided_table && engine_->homes->gains(layout());
}

// Does the order of the table pay for these elements? A sample says so. Equal keys are better combined, which the
// engine does, and keys that are in the table are found at the first look, in any order.
inline bool table::gains_by_order(const request& q) {
  if (q.parts == parts_always) return true;
  if (q.n < estimate_sample || distinct_keys(q, estimate_sample).most < estimate_sample - estimate_sample / 8)
    return false;
  uint64_t present = 0;
  const size_t few = q.n < few_elements ? q.n : few_elements;
  return count_present(q, nullptr, few, &present, nullptr) == GPUHASH_OK && present < few / 2;
}

inline void table::serve_in_order(const request& q, totals* sum) {
  const size_t chunks = (q.n + most_divided - 1) / most_divided;
  const size_t chunk = (q.n + chunks - 1) / chunks;
  divided_batch batch(*engine_->homes, layout(), q, chunk);
  std::optional<scratch> memory;
  for (size_t done = 0; done < q.n; done += chunk) {
    const request some = part_of(q, done, q.n - done < chunk ? q.n - done : chunk);
    const bool divided = gains_by_order(some);
    if (divided && !memory) memory.emplace(*this, batch.bytes(), nullptr);
    if (divided && *memory)
      batch.serve(some, memory->get(), sum, engine_->run);
    else
      engine_->run(layout(), some, sum);
  }
}

inline void table::serve(part& p, bool alone) {
  if (may_write(p.q.kind)) changes();
  p.q.alone = alone;
  if (alone && p.q.n > alone_part) p.q.n = alone_part;  // others may have come
  p.slots = slots();
  p.growths = growths_;
  totals now{};
  if (may_divide(p.q))
    serve_in_order(p.q, &now);
  else
    engine_->run(layout(), p.q, &now);
  totals& all = head()->sum[0];
  __atomic_fetch_add(&all.live, now.live, __ATOMIC_RELAXED);
  __atomic_fetch_add(&all.used, now.used, __ATOMIC_RELAXED);
  p.sum.yes += now.yes;
  p.sum.used += now.used;
  p.sum.failed = now.failed;  // a retry serves what failed before
}

inline gpuhash_status table::run_on_host(part& p, bool growing, gpuhash_status* grown, gpuhash_error* err) {
  const bool may_be_alone = serves_alone(p.q);
  if (!growing) {
    const host_turn turn(host_gate_, may_be_alone);
    serve(p, turn.alone);
    return GPUHASH_OK;
  }
  if (*grown != GPUHASH_OK && p.q.n > refused_slice) p.q.n = refused_slice;
  // A retry has to know which elements to leave alone.
  uint8_t few[few_elements];
  scratch many(*this, p.q.status || p.q.n <= few_elements ? 0 : p.q.n < status_part ? p.q.n : status_part, nullptr);
  if (!p.q.status) {
    const size_t room = many.get() ? many.bytes() : few_elements;
    p.q.n = p.q.n < room ? p.q.n : room;
    p.q.status = many.get() ? many.as<uint8_t>() : few;
  }
  for (;;) {
    if (*grown != GPUHASH_OK) return poisoned_ ? *grown : serve_within_limit(p, err);
    {
      const host_turn turn(host_gate_, may_be_alone);
      room_ledger::claim c;
      *grown = claim_room(p, &c, err);
      if (c.granted) serve(p, turn.alone);
      room_.settle(c, uint64_t(p.sum.used));
      if (c.granted) break;
    }
    if (*grown != GPUHASH_OK) continue;  // the room is not known: within the limit, too (R1)
    exclusive hold(*this, nullptr);
    *grown = without_throwing(err, [&] { return grow_for(p, err); });
  }
  while (p.sum.failed && *grown == GPUHASH_OK) {
    {
      exclusive hold(*this, nullptr);
      *grown = without_throwing(err, [&] { return grow_after(p, err); });
    }
    if (*grown != GPUHASH_OK) break;
    p.q.only_failed = 1;
    const int64_t used_before = p.sum.used;
    const host_turn turn(host_gate_, false);
    serve(p, turn.alone);
    room_.add_used(uint64_t(p.sum.used - used_before));
  }
  return poisoned_ ? *grown : gpuhash_status(GPUHASH_OK);
}

// ---- CUDA -------------------------------------------------------------------------------------------------------------

inline gpuhash_status table::run_on_cuda(part& p, bool growing, bool look, gpuhash_status* grown, gpuhash_error* err) {
  // If growth has failed, the call has to know which elements were served.
  if (growing && *grown != GPUHASH_OK) return run_alone(p, growing, look, grown, err);
  scratch counters(*this, look ? sizeof(header::batch) : 0, p.q.stream);
  bool ran = false;
  if (counters) {
    const gpuhash_status s = run_beside(p, growing, counters.as<totals>(), &ran, err);
    if (s || ran) return s;
  }
  return run_alone(p, growing, look, grown, err);
}

// Queues a part beside other batches. claims: only the elements of p that surely have room; *ran says whether there
// were any.
inline gpuhash_status table::run_beside(part& p, bool claims, totals* counters, bool* ran, gpuhash_error* err) {
  room_ledger::claim c;
  {
    std::lock_guard<kit_mutex> lock(launch_);
    if (claims) {
      if (many_parts(p.q.n)) return GPUHASH_OK;
      c = room_.take_part(p.q.n);
      if (c.granted && !estimate_->fits_surely(c.n)) {
        room_.settle(c, 0);
        c = {};
      }
      if (!c.granted) return GPUHASH_OK;
      p.q.n = size_t(c.n);
    } else if (config_.grow) {
      c = room_.take_nothing();
    }
    *ran = true;
    if (const gpuhash_status s = queue(p, counters, false, err)) return s;
  }
  const gpuhash_status s = read_counters(p, counters, err);
  if (counters && !s) room_.settle_beside(c, uint64_t(p.sum.used));
  return s;
}

// Runs when no other batch does: the elements of p for which there is room, or for which room can be made.
inline gpuhash_status table::run_alone(part& p, bool growing, bool look, gpuhash_status* grown, gpuhash_error* err) {
  exclusive hold(*this, p.q.stream);
  if (hold.error) return fault(err, hold.error, "waiting for running batches");
  room_ledger::claim c;
  if (growing && *grown == GPUHASH_OK) {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, p.q.stream, err)) return s;
    room_.recount(uint64_t(now.used), limit());
    *grown = without_throwing(err, [&] { return estimate_->refresh(p.q.stream, err); });
    while (*grown == GPUHASH_OK && !c.granted) {
      *grown = claim_room(p, &c, err);
      if (*grown == GPUHASH_OK && !c.granted) *grown = without_throwing(err, [&] { return grow_for(p, err); });
    }
    if (poisoned_) return *grown;
    if (c.granted && p.by != part::guessed &&
        !estimate_->fits_surely(p.q.n)) {  // it may be that only few elements are new
      room_.settle(c, 0);
      if (const gpuhash_status s = count_new_keys(p, err)) return s;
      c = room_.take(p.need);
      p.q.n = p.window;
      if (p.need && !estimate_->fits_surely(p.need) && !graphs_.any())
        without_throwing(nullptr, [&] { return estimate_->preallocate(p.q.stream, nullptr); });
      if (poisoned_) return poisoned(err);
    }
    const bool sure = c.granted && p.by != part::guessed && estimate_->fits_surely(p.q.n);
    if (sure && !look) return queue(p, nullptr, true, err);
    if (!sure) estimate_->invalidate();  // what this part takes is not counted
  }
  // A retry has to know which elements to leave alone.
  const bool refused = growing && *grown != GPUHASH_OK;
  std::optional<scratch> many;
  if (growing && !p.q.status) {
    const size_t most = refused ? refused_slice : status_part;
    for (size_t n = p.q.n < most ? p.q.n : most; !(many && many->get()) && n > few_elements / 8; n /= 8)
      many.emplace(*this, n, p.q.stream);
    const size_t room = many && many->get() ? many->bytes() : few_elements;
    p.q.n = p.q.n < room ? p.q.n : room;
    p.q.status = many && many->get() ? many->as<uint8_t>() : head()->status;
  }
  if (refused) return serve_within_limit(p, err);
  gpuhash_status s = queue(p, head()->batch, true, err);
  if (!s) s = read_counters(p, head()->batch, err);
  if (c.granted)
    room_.settle(c, uint64_t(p.sum.used));
  else
    room_.add_used(uint64_t(p.sum.used));
  while (growing && !s && p.sum.failed && *grown == GPUHASH_OK) {
    *grown = without_throwing(err, [&] { return grow_after(p, err); });
    if (*grown != GPUHASH_OK) break;
    estimate_->invalidate();
    p.q.only_failed = 1;
    const int64_t used_before = p.sum.used;
    s = queue(p, head()->batch, true, err);
    if (!s) s = read_counters(p, head()->batch, err);
    room_.add_used(uint64_t(p.sum.used - used_before));
  }
  // There were more keys than estimated. Without memory to grow the table stays fuller than its limit.
  if (p.by == part::guessed && !s && *grown == GPUHASH_OK && p.sum.used > 0 && room_.used() > limit()) {
    part one_more = p;
    one_more.need = 1;
    without_throwing(nullptr, [&] { return grow_for(one_more, nullptr); });
    if (poisoned_) return poisoned(err);
  }
  return poisoned_ && !s ? *grown : s;
}

// Divides the batch by parts of the table, if that pays and there is memory for it. held: the table is held
// exclusively. Batches that would not need to wait are held back by that; but a divided batch keeps the whole device
// busy anyway.
inline int table::queue_by_parts(const request& q, bool held, bool* queued) {
  if (!engine_->parts || q.parts == parts_never || graphs_.any()) return 0;  // C2
  const uint64_t bytes = engine_->parts->memory(layout(), q);
  if (!bytes) return 0;
  scratch work(*this, bytes, q.stream);
  if (!work) return 0;
  *queued = true;
  int e = held ? 0 : gate_.before_exclusive(q.stream);
  request by_itself = q;
  by_itself.keys_stay = engine_->in_place && changes_values(q.kind);
  if (!e) e = engine_->parts->run(layout(), by_itself, head()->sum, work.get(), engine_->run);
  if (!e && !held) e = gate_.after_exclusive(q.stream);
  return e;
}

// Called under launch_. held: the table is held exclusively, too.
inline gpuhash_status table::queue(part& p, totals* counters, bool held, gpuhash_error* err) {
  const bool writes = may_write(p.q.kind);
  if (writes) changes();
  p.slots = slots();
  p.growths = growths_;
  request q = p.q;
  q.batch_sum = counters;
  q.added = added_;
  if (adds(q.kind)) added_ += q.n;
  int e = counters ? api_.fill(counters, 0, sizeof(totals) * total_stripes, q.stream) : 0;
  bool by_parts = false;
  if (!e && writes) e = queue_by_parts(q, held, &by_parts);
  if (!by_parts) {
    stream_gate::turn turn{writes};
    turn.erases = erases(q.kind);
    turn.keys_stay = engine_->in_place && changes_values(q.kind);
    if (!e) e = gate_.before_batch(q.stream, &turn);
    turn.alone &= !graphs_.any_that_write();  // C3
    turn.keys_stay &= !graphs_.any_that_write();
    q.alone = turn.alone;
    q.keys_stay = turn.keys_stay;
    if (!e) e = engine_->run(layout(), q, head()->sum);
    if (!e) e = gate_.after_batch(q.stream, turn);
  }
  if (adds(q.kind) && !counters) unwatched_ = true;
  return e ? fault(err, e, "running a batch") : gpuhash_status(GPUHASH_OK);
}

// If the batch cannot be captured, nothing is queued, and the capture goes on.
inline gpuhash_status table::capture(request q, void* graph, bool growing, bool counts, gpuhash_error* err) {
  if (growing)
    return host->fail(
        err, GPUHASH_INVALID_ARGUMENT,
        "the stream is being captured, and in a CUDA graph a table cannot grow: create it with grow = 0 and "
        "the capacity it needs, or capture finds only");
  if (counts)
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "the stream is being captured, and counts are known only when the batch has run: pass none");
  if (in_kinds(q.kind, facts_.exclusive_kinds))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "the stream is being captured, and this backend's %s has the table to itself, which a CUDA graph "
                      "cannot arrange: call it outside of the capture",
                      kind_rows[q.kind].name);
  const bool writes = may_write(q.kind);
  std::lock_guard<kit_mutex> lock(launch_);
  if (writes) changes();
  int e = graphs_.add(api_, graph, writes);
  if (!e) e = gate_.before_capture(q.stream, writes);
  if (!e) e = engine_->run(layout(), q, head()->sum);
  if (adds(q.kind)) added_ = any_number;
  if (adds(q.kind)) unwatched_ = true;
  if (!e) return GPUHASH_OK;
  return host->fail(err, e == api_.out_of_memory ? GPUHASH_NO_MEMORY : GPUHASH_DEVICE_ERROR,
                    "capturing a batch failed: %s; the graph is not complete", api_.error_text(e));
}

// Waits for a part that has counters of its own, and adds these to p.sum.
inline gpuhash_status table::read_counters(part& p, const totals* counters, gpuhash_error* err) {
  if (!counters) return GPUHASH_OK;
  totals stripe[total_stripes];
  int e = api_.copy(stripe, counters, sizeof(stripe), p.q.stream);
  if (!e) e = api_.wait(p.q.stream);
  if (e) return fault(err, e, "a batch");
  p.sum.failed = 0;  // a retry serves what failed before
  for (const totals& s : stripe) {
    p.sum.bad_ops += s.bad_ops;
    p.sum.yes += s.yes;
    p.sum.used += s.used;
    p.sum.failed += s.failed;
  }
  return GPUHASH_OK;
}

}  // namespace gpuhash
