// Rebuilding a table: every live pair of one storage is inserted into another, at once where a structure has a kernel for
// that, or else a step of cells at a time.
#pragma once
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

inline gpuhash_status table::no_place(uint64_t keys, gpuhash_error* err) {
  return host->fail(err, GPUHASH_FULL, "%llu keys found no place while the table was rebuilt; reserve more",
                    (unsigned long long)keys);
}

inline gpuhash_status table::resize(uint64_t keys, void* stream, gpuhash_error* err) {
  gpuhash_status s = try_resize(keys, stream, err);
  if (s != GPUHASH_FULL) return s;
  totals now{};
  if (const gpuhash_status r = read_totals(&now, stream, err)) return r;
  if (keys < uint64_t(now.live)) keys = uint64_t(now.live);
  while (s == GPUHASH_FULL) s = try_resize(keys *= 2, stream, err);
  return s;
}

inline gpuhash_status table::resize_down(uint64_t keys, void* stream, gpuhash_error* err) {
  for (; smaller_for(keys); keys *= 2)
    if (const gpuhash_status s = try_resize(keys, stream, err); s != GPUHASH_FULL) return s;
  return GPUHASH_OK;
}

inline gpuhash_status table::move_pairs(const move& m, uint64_t* moved, void* stream, gpuhash_error* err) {
  *moved = 0;
  for (;;) {
    bool done = false;
    totals sum{};
    if (const gpuhash_status s = move_at_once(m, &done, &sum, stream, err)) return s;
    if (!done) break;
    *moved = uint64_t(sum.used);
    if (!sum.failed) return GPUHASH_OK;
    if (!m.may_add) return no_place(sum.failed, err);
    if (const gpuhash_status s = more_room(stream, err)) return s;
    if (const gpuhash_status s = empty_storage(stream, err)) return s;
  }
  if (m.nothing()) return GPUHASH_OK;
  const uint32_t kb = facts_.exact_widths ? config_.key_bytes : word_half();
  const uint32_t vb = facts_.exact_widths ? config_.value_bytes : config_.value_bytes ? word_half() : 0;
  const uint64_t most = m.live < m.step || m.step == m.cells ? m.live : m.step;  // pairs of a step
  scratch keys(*this, most * kb, stream);
  scratch values(*this, most * vb, stream);
  scratch status(*this, most, stream);
  scratch counter(*this, sizeof(uint64_t), stream);
  scratch sum(*this, sizeof(totals) * total_stripes, stream);
  if (!keys || !values || !status || !counter || !sum)
    return no_memory(err, keys.bytes() + values.bytes() + status.bytes());
  // The driver reads the first element even where there are none.
  int e = api_.fill(keys.get(), 0, kb, stream);
  if (!e && vb) e = api_.fill(values.get(), 0, vb, stream);
  if (e) return fault(err, e, "rebuilding the table");
  request q{};
  q.kind = m.kind;
  q.n = most;
  q.n_there = counter.as<uint64_t>();
  q.keys = keys.get();
  q.values = values.get();
  q.status = status.as<uint8_t>();
  q.key_bytes = kb;
  q.value_bytes = vb ? vb : kb;
  q.threads = threads();
  q.stream = stream;
  tune(q);
  for (uint64_t lo = 0; lo < m.cells; lo += m.step) {
    const uint64_t hi = lo + m.step < m.cells ? lo + m.step : m.cells;
    e = api_.fill(counter.get(), 0, sizeof(uint64_t), stream);
    if (!e)
      e = engine_->collect(
          m.from, cell_order{}, lo, hi,
          {keys.get(), values.get(), q.key_bytes, q.value_bytes, counter.as<uint64_t>(), most, q.threads, stream});
    for (q.only_failed = 0;; q.only_failed = 1) {
      totals part[total_stripes] = {};
      if (!e) e = api_.fill(sum.get(), 0, sum.bytes(), stream);
      if (!e) e = engine_->run(layout(), q, sum.as<totals>());
      if (!e) e = api_.copy(part, sum.get(), sizeof(part), stream);
      if (!e) e = api_.wait(stream);
      if (e) return fault(err, e, "rebuilding the table");
      uint64_t failed = 0;
      for (const totals& s : part) {
        *moved += uint64_t(s.used);
        failed += s.failed;
      }
      if (!failed) break;
      if (!m.may_add) return no_place(failed, err);
      if (const gpuhash_status s = more_room(stream, err)) return s;
    }
  }
  return GPUHASH_OK;
}

// In one pass through both, where the structure has such a way for these two.
inline gpuhash_status table::move_at_once(const move& m, bool* done, totals* sum, void* stream, gpuhash_error* err) {
  if (engine_->rebuild && !m.nothing()) *done = engine_->rebuild(m.from, layout(), sum, threads());
  if (engine_->anew && m.unfilled.p && !m.nothing())
    if (const gpuhash_status s = move_by_parts(m, done, sum, stream, err)) return s;
  if (m.unfilled.p && sum->failed) *done = false;  // too many keys in one place for one pass: the driver moves them all
  if (*done) return GPUHASH_OK;
  *sum = {};
  if (m.unfilled.p)
    if (const int e = api_.fill(m.unfilled.p, 0xff, m.unfilled.bytes, stream))
      return fault(err, e, "initialising the table");
  if (!engine_->move || m.nothing()) return GPUHASH_OK;
  return add_moved(sum, done, stream, err,
                   [&](totals* to) { return engine_->move(m.from, layout(), to, done, stream); });
}

// CUDA: where there is memory for it.
inline gpuhash_status table::move_by_parts(const move& m, bool* done, totals* sum, void* stream, gpuhash_error* err) {
  const uint64_t bytes = engine_->anew->memory(m.from, layout());
  scratch memory(*this, bytes, stream);
  if (!bytes || !memory) return GPUHASH_OK;
  *done = true;
  if (const int e = api_.fill(memory.get(), 0, sizeof(uint64_t), stream)) return fault(err, e, "rebuilding the table");
  return add_moved(sum, done, stream, err,
                   [&](totals* to) { return engine_->anew->run(m.from, layout(), to, memory.get(), stream); });
}

// CUDA: adds to *sum the totals of the work that queue(totals of the device) has queued, unless it says that it has
// queued nothing.
template <class Queue>
gpuhash_status table::add_moved(totals* sum, const bool* done, void* stream, gpuhash_error* err, Queue queue) {
  totals stripe[total_stripes];
  int e = api_.fill(head()->batch, 0, sizeof(stripe), stream);
  if (!e) e = queue(head()->batch);
  if (!e && *done) e = api_.copy(stripe, head()->batch, sizeof(stripe), stream);
  if (!e) e = api_.wait(stream);
  if (e) return fault(err, e, "rebuilding the table");
  if (!*done) return GPUHASH_OK;
  for (const totals& s : stripe) {
    sum->used += s.used;
    sum->failed += s.failed;
  }
  return GPUHASH_OK;
}

inline gpuhash_status table::write_used(const totals& before, uint64_t used, void* stream, gpuhash_error* err) {
  totals now = before;
  now.used = int64_t(used);
  if (const gpuhash_status s = write_totals(now, stream, err)) return s;
  ++rebuilds_;
  return GPUHASH_OK;
}

inline gpuhash_status table::write_totals(const totals& now, void* stream, gpuhash_error* err) {
  totals after[total_stripes] = {};
  after[0] = now;
  int e = api_.copy(head()->sum, after, sizeof(after), stream);
  if (!e) e = api_.wait(stream);
  if (e) return fault(err, e, "rebuilding the table");
  room_.recount(uint64_t(now.used), limit());
  return GPUHASH_OK;
}

}  // namespace gpuhash
