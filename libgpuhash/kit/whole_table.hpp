// Exclusive operations on a whole table: info, export, clear, reserve, shrink, flush, find_all, ordered queries.
#pragma once
#include "libgpuhash/kit/exclusive.hpp"
#include "libgpuhash/kit/spread.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

// CUDA: elements that found no room, of queued batches whose calls have returned. Reported once.
inline gpuhash_status table::report_failures(void* stream, gpuhash_error* err) {
  if (!unwatched_) return GPUHASH_OK;
  totals now{};
  if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
  unwatched_ = graphs_.any_that_write();
  const totals reported = std::exchange(reported_, now);
  if (now.bad_ops != reported.bad_ops) return bad_ops(now.bad_ops - reported.bad_ops, err);
  const uint64_t unreported = now.failed - reported.failed;
  if (!unreported) return GPUHASH_OK;
  failed_ += unreported;
  return host->fail(
      err, GPUHASH_FULL,
      "%llu elements of earlier batches, whose calls had returned, found no room: their status is 2 or 3; "
      "reserve more and retry those. This call has done nothing; call it again",
      (unsigned long long)unreported);
}

inline gpuhash_status table::bad_ops(uint64_t n, gpuhash_error* err) {
  return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                    "%llu op codes of an execute are none that this table has (0 to 5, and 3 only where there are "
                    "values): those elements have status 4 and were left out, the others are done",
                    (unsigned long long)n);
}

inline gpuhash_status table::captured_by(void* stream, void** graph, gpuhash_error* err) {
  const char* forbids = nullptr;
  if (const int e = api_.captured_by(stream, graph, &forbids))
    return fault(err, e, "asking whether a stream is captured");
  if (!forbids) return GPUHASH_OK;
  return host->fail(err, GPUHASH_INVALID_ARGUMENT, "the stream %p cannot be used now: %s", stream, forbids);
}
inline gpuhash_status table::refuse_capture(void* stream, gpuhash_error* err) {
  void* graph = nullptr;
  if (!on_cuda()) return GPUHASH_OK;
  if (const gpuhash_status s = captured_by(stream, &graph, err)) return s;
  if (!graph) return GPUHASH_OK;
  return host->fail(
      err, GPUHASH_INVALID_ARGUMENT,
      "the stream is being captured into a CUDA graph, which takes batches only (insert, find, erase, ...); "
      "make this call before or after the capture");
}
// Graphs that live have the addresses of the storage (C1).
inline gpuhash_status table::refuse_to_move(gpuhash_status status, gpuhash_error* err) const {
  if (!graphs_.any()) return GPUHASH_OK;
  return host->fail(
      err, status,
      "the table's storage cannot move, since a CUDA graph was captured from it: destroy the graph first, "
      "or reserve enough before the capture");
}

inline gpuhash_status table::info(gpuhash_table_info* out, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_WITHOUT_STREAM;
  totals now{};
  if (const gpuhash_status s = read_totals(&now, own_stream_, err)) return s;
  out->device = config_.device;
  out->key_bytes = config_.key_bytes;
  out->value_bytes = config_.value_bytes;
  out->traits = facts_.traits;
  out->size = uint64_t(now.live);
  out->used = uint64_t(now.used);
  out->slots = slots();
  out->capacity = capacity(uint64_t(now.live));
  out->bytes = bytes() + sizeof(header);
  out->seed = config_.seed;
  out->rebuilds = rebuilds_;
  out->max_load_factor = config_.max_load_factor;
  return GPUHASH_OK;
}

// The word of a side slot; NULL: its key is absent.
inline const unsigned char* table::side_word(const header& h, uint64_t side) const {
  const size_t half = word_half();
  const unsigned char* const word = h.side + side * (stores_pairs() ? 2 * half : half);
  for (size_t i = 0; i < half; ++i)
    if (word[i] != 0xff) return word;
  return nullptr;
}

inline gpuhash_status table::export_pairs(size_t* n, void* keys, void* values, void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_AND_WAIT(stream);
  totals now{};
  if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
  const size_t room = *n;
  *n = size_t(now.live);
  if (!keys || now.live == 0) return GPUHASH_OK;
  if (room < size_t(now.live))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "the table holds %llu pairs and the arrays have room for %llu",
                      (unsigned long long)now.live, (unsigned long long)room);
  const uint32_t kb = config_.key_bytes;
  const uint32_t vb = config_.value_bytes ? config_.value_bytes : kb;
  void* const out_values = config_.value_bytes ? values : nullptr;

  auto* const counter = reinterpret_cast<uint64_t*>(head()->batch);  // which needs no memory
  int e = api_.fill(counter, 0, sizeof(uint64_t), stream);
  if (!e)
    e = engine_->collect(layout(), spread(cells(), facts_.line_cells), 0, cells(),
                         {keys, out_values, kb, vb, counter, room, threads(), stream});
  uint64_t found = 0;
  header mine;
  if (!e) e = api_.copy(&found, counter, sizeof(found), stream);
  if (!e) e = api_.copy(&mine, head(), sizeof(mine), stream);
  if (!e) e = api_.wait(stream);
  if (!e && found > room) return host->fail(err, GPUHASH_INTERNAL, "the table holds more pairs than its counters say");
  // The two side keys, from their words: half of a word is the key's presence, the rest its value.
  for (uint64_t side = 2; !e && side-- > 0;) {  // ascending: they come last in an ordered table, too
    const unsigned char* const w = side_word(mine, side);
    if (!w) continue;
    const uint64_t key = user_key(~uint64_t(0) - side);
    if (found >= room) return host->fail(err, GPUHASH_INTERNAL, "the table holds more pairs than its counters say");
    e = api_.copy(static_cast<char*>(keys) + found * kb, &key, kb, stream);
    if (!e && out_values) e = api_.copy(static_cast<char*>(out_values) + found * vb, w + word_half(), vb, stream);
    ++found;
  }
  if (!e) e = api_.wait(stream);
  if (e) return fault(err, e, "exporting");
  *n = size_t(found);
  return GPUHASH_OK;
}

inline gpuhash_status table::clear(void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(stream);
  changes();
  if (const gpuhash_status s = empty_storage(stream, err)) return s;
  int e = api_.fill(head()->side, 0xff, side_bytes, stream);
  if (!e) e = api_.fill(head()->sum, 0, sizeof(head()->sum), stream);
  if (e) return fault(err, e, "clearing the table");
  reported_ = {};
  added_ = graphs_.any_that_write() ? any_number : 0;
  room_.recount(0, limit());
  return GPUHASH_OK;
}

inline gpuhash_status table::reserve(uint64_t keys, void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_AND_WAIT(stream);
  if (const gpuhash_status s = refuse_to_move(GPUHASH_INVALID_ARGUMENT, err)) return s;
  changes();
  if (const gpuhash_status s = make_room(keys, stream, err)) return s;
  ++growths_;
  return GPUHASH_OK;
}

inline gpuhash_status table::shrink(void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_AND_WAIT(stream);
  if (const gpuhash_status s = refuse_to_move(GPUHASH_INVALID_ARGUMENT, err)) return s;
  totals now{};
  changes();
  if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
  return resize_down(uint64_t(now.live), stream, err);
}

inline gpuhash_status table::flush(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_AND_WAIT(stream);
  if (const gpuhash_status s = refuse_to_move(GPUHASH_INVALID_ARGUMENT, err)) return s;
  changes();
  return compact(first, count, stream, err);
}

inline gpuhash_status table::find_all(size_t n, const void* keys, uint64_t* offsets, void* values, size_t max_values,
                                      void* stream, gpuhash_error* err) {
  if (!engine_->values_of)
    return host->fail(err, GPUHASH_UNSUPPORTED, "this backend holds one value per key; use find");
  GPUHASH_EXCLUSIVE_AND_WAIT(stream);
  std::vector<uint64_t> at(n + 1, 0);
  scratch counts(*this, at.size() * sizeof(uint64_t), stream);  // then the offsets, which the caller cannot change
  if (!counts) return no_memory(err, counts.bytes());
  gpuhash_batch b = GPUHASH_BATCH_INIT;
  b.op = GPUHASH_OP_COUNT;
  b.n = n;
  b.keys = keys;
  b.stream = stream;
  request q = request_for(b);
  q.out_values = counts.get();
  totals ignored{};
  int e = n ? engine_->run(layout(), q, on_cuda() ? head()->sum : &ignored) : 0;
  if (!e && n) e = api_.copy(at.data() + 1, counts.get(), n * sizeof(uint64_t), stream);
  if (!e) e = api_.wait(stream);
  for (size_t i = 0; i < n; ++i) at[i + 1] += at[i];
  if (!e) e = api_.copy(counts.get(), at.data(), at.size() * sizeof(uint64_t), stream);
  if (!e) e = api_.copy(offsets, at.data(), at.size() * sizeof(uint64_t), stream);
  if (!e) e = api_.wait(stream);
  if (e) return fault(err, e, "counting values");
  if (!values || !config_.value_bytes || at[n] == 0) return GPUHASH_OK;
  if (max_values < at[n])
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "the keys have %llu values and the array has room for %llu",
                      (unsigned long long)at[n], (unsigned long long)max_values);
  q.out_values = values;
  q.kind = GPUHASH_OP_FIND;
  e = engine_->values_of(layout(), q, counts.as<uint64_t>());
  if (!e) e = api_.wait(stream);
  return e ? fault(err, e, "copying values") : gpuhash_status(GPUHASH_OK);
}

inline void table::complete(ordered_request& q) const {
  q.key_bytes = config_.key_bytes;
  q.value_bytes = config_.value_bytes ? config_.value_bytes : config_.key_bytes;
  if (!config_.value_bytes) q.out_values = nullptr;
  q.threads = threads();
}

// Beside batches, as finds are.
inline gpuhash_status table::ask_ordered(ordered_request& q, int (*serve)(const void*, const ordered_request&),
                                         gpuhash_error* err) {
  if (poisoned_) return poisoned(err);
  on_device scope(*this);
  if (scope.error) return fault(err, scope.error, "choosing the table's device");
  complete(q);
  if (!on_cuda()) {
    host_gate_.lock_shared();
    serve(layout(), q);
    host_gate_.unlock_shared();
    return GPUHASH_OK;
  }
  if (const gpuhash_status s = refuse_capture(q.stream, err)) return s;
  std::lock_guard<kit_mutex> lock(launch_);
  stream_gate::turn turn{false};
  int e = gate_.before_batch(q.stream, &turn);
  turn.alone &= !graphs_.any_that_write();  // C3
  q.alone = turn.alone;
  if (!e) e = serve(layout(), q);
  if (!e) e = gate_.after_batch(q.stream, turn);
  return e ? fault(err, e, "an ordered query") : gpuhash_status(GPUHASH_OK);
}
inline gpuhash_status table::neighbors(ordered_request q, gpuhash_error* err) {
  return ask_ordered(q, engine_->ordered->neighbors, err);
}
inline gpuhash_status table::ranges(ordered_request q, gpuhash_error* err) {
  return ask_ordered(q, engine_->ordered->ranges, err);
}

// No batch writes between the two passes. The second pass is bounded by the room in the arrays, whatever the caller
// does to the offsets meanwhile.
inline gpuhash_status table::range_all(ordered_request q, uint64_t* offsets, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_AND_WAIT(q.stream);
  complete(q);
  q.alone = 1;
  const bool copies = q.out_keys || q.out_values;
  ordered_request counted = q;
  counted.out_keys = counted.out_values = nullptr;
  counted.most = ~size_t(0);
  counted.sums = offsets;
  int e = engine_->ordered->ranges(layout(), counted);
  if (e) return fault(err, e, "counting pairs");
  if (!copies) return GPUHASH_OK;
  uint64_t all = 0;
  e = api_.copy(&all, offsets + q.n, sizeof(all), q.stream);
  if (!e) e = api_.wait(q.stream);
  if (e) return fault(err, e, "counting pairs");
  if (q.most < all)
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "the ranges have %llu pairs and the arrays have room for %llu",
                      (unsigned long long)all, (unsigned long long)q.most);
  q.most = all;
  q.offsets = offsets;
  e = q.n ? engine_->ordered->ranges(layout(), q) : 0;
  return e ? fault(err, e, "copying pairs") : gpuhash_status(GPUHASH_OK);
}

}  // namespace gpuhash
