// An export in parts: the pairs of a table, a few at a time; it needs no memory but the caller's arrays.
//
// A cursor counts the cells that were collected, in their own order or that of `spread`, and then the two side keys; of an ordered
// structure it is the next key. All parts belong to one moment: a stamp of the table says that nothing has changed
// since the first part. Every change clears the stamp (table::changes), which costs a batch one look at a word that is
// seldom written.
#pragma once
#include "libgpuhash/kit/spread.hpp"
#include "libgpuhash/kit/whole_table.hpp"

namespace gpuhash {

inline gpuhash_status table::export_part(gpuhash_export_cursor* c, size_t* n, void* keys, void* values, void* stream,
                                         gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_AND_WAIT(stream);
  if (c->state == GPUHASH_EXPORT_BEGINS) {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    if (!stamp_.load(std::memory_order_relaxed)) stamp_.store(++last_stamp_, std::memory_order_relaxed);
    c->stamp = stamp_.load(std::memory_order_relaxed);
    c->pairs = uint64_t(now.live);
  }
  if (c->stamp != stamp_.load(std::memory_order_relaxed)) return changed_since(c, err);
  void* const out_values = config_.value_bytes ? values : nullptr;
  const gpuhash_status s = engine_->ordered ? collect_in_order(c, n, keys, out_values, stream, err)
                                            : collect_cells(c, n, keys, out_values, stream, err);
  if (s) return s;
  c->given += *n;
  // A launch of a graph may have written, which takes no stamp away.
  if (c->given > c->pairs || (c->state == GPUHASH_EXPORT_DONE && c->given != c->pairs)) return changed_since(c, err);
  return GPUHASH_OK;
}

inline gpuhash_status table::changed_since(gpuhash_export_cursor* c, gpuhash_error* err) const {
  c->state = GPUHASH_EXPORT_CHANGED;
  return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                    "the table has changed since the export's first part, whose %llu pairs so far belong to no moment; "
                    "begin with GPUHASH_EXPORT_CURSOR_INIT, with writers held back",
                    (unsigned long long)c->given);
}

// As many cells as the arrays have room for, again and again until little room is left.
inline gpuhash_status table::collect_cells(gpuhash_export_cursor* c, size_t* n, void* keys, void* values, void* stream,
                                           gpuhash_error* err) {
  const uint32_t kb = config_.key_bytes, vb = config_.value_bytes;
  const size_t room = *n;
  const uint64_t all = cells();
  const cell_order order = c->order == GPUHASH_EXPORT_AS_STORED ? cell_order{} : spread(all, facts_.line_cells);
  size_t found = 0;
  while (c->at < all && room - found > room / 8) {
    uint64_t some = all - c->at;
    const size_t before = found;
    if (const gpuhash_status s = collect_next(order, *c, &some, room, &found, keys, values, stream, err)) {
      *n = found;
      return s;
    }
    if (some == 0) break;
    if (c->given + (found - before) > c->pairs) return changed_since(c, err);
    c->at += some;
  }
  // The two side keys, from their words: half of a word is the key's presence, the rest its value.
  header mine;
  int e = c->at < all ? 0 : api_.copy(&mine, head(), sizeof(mine), stream);
  if (!e) e = api_.wait(stream);
  for (; !e && c->at >= all && c->at < all + 2 && found < room; ++c->at) {
    const uint64_t side = 1 - (c->at - all);
    const unsigned char* const w = side_word(mine, side);
    if (!w) continue;
    const uint64_t key = user_key(~uint64_t(0) - side);
    e = api_.copy(static_cast<char*>(keys) + found * kb, &key, kb, stream);
    if (!e && values) e = api_.copy(static_cast<char*>(values) + found * vb, w + word_half(), vb, stream);
    if (!e) e = api_.wait(stream);
    ++found;
  }
  if (e) return fault(err, e, "exporting");
  c->state = c->at == all + 2 ? GPUHASH_EXPORT_DONE : GPUHASH_EXPORT_GOES_ON;
  *n = found;
  return GPUHASH_OK;
}

// The pairs of the next cells, behind *found others. *taken: in, cells that are left; out, those that were collected, 0 if
// the next one does not fit behind pairs that are there. If it does not fit at all: what it needs in *found.
inline gpuhash_status table::collect_next(const cell_order& order, const gpuhash_export_cursor& c, uint64_t* taken,
                                          size_t room, size_t* found, void* keys, void* values, void* stream,
                                          gpuhash_error* err) {
  const uint32_t kb = config_.key_bytes, vb = config_.value_bytes ? config_.value_bytes : kb;
  const size_t left = room - *found;
  auto* const counter = reinterpret_cast<uint64_t*>(head()->batch);  // which needs no memory
  uint64_t count = *found;
  const auto collect = [&](uint64_t some, void* to_keys, void* to_values) {
    int e = api_.copy(counter, found, sizeof(uint64_t), stream);
    if (!e)
      e = engine_->collect(layout(), order, c.at, c.at + some,
                           {to_keys, to_values, kb, vb, counter, room, threads(), stream});
    if (!e) e = api_.copy(&count, counter, sizeof(count), stream);
    return e ? e : api_.wait(stream);
  };
  uint64_t some = left;
  if (facts_.chains) {  // so many that a little room is left, usually
    some = uint64_t(double(left) * double(cells()) / double(c.pairs + 1) * (63.0 / 64));
    if (some < 1) some = 1;
  }
  if (some > *taken) some = *taken;
  // Chains may have more pairs than there is room for: on the CPU those are not written, on CUDA all are counted first.
  const bool counts_first = facts_.chains && on_cuda();
  int e = 0;
  while (!(e = counts_first ? collect(some, nullptr, nullptr) : collect(some, keys, values)) && count > room &&
         some > 1)
    some /= 2;
  if (!e && count > room) {
    *taken = 0;
    if (*found) return GPUHASH_OK;
    *found = count;
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "a bucket has %llu pairs, which come at once, and the arrays have room for %llu",
                      (unsigned long long)count, (unsigned long long)room);
  }
  if (!e && counts_first) e = collect(some, keys, values);
  if (e) return fault(err, e, "exporting");
  *found = count;
  *taken = some;
  return GPUHASH_OK;
}

// Pairs from the cursor's key on, and which key comes behind them.
inline gpuhash_status table::collect_in_order(gpuhash_export_cursor* c, size_t* n, void* keys, void* values,
                                              void* stream, gpuhash_error* err) {
  struct {
    uint64_t key, count, next;
    uint8_t there;
  } mine{c->at, 0, 0, 0};
  using place = decltype(mine);
  auto* const there = reinterpret_cast<place*>(head()->batch);  // which needs no memory
  const bool begins = c->state == GPUHASH_EXPORT_BEGINS;
  ordered_request q{};
  q.n = 1;
  q.low = begins ? nullptr : &there->key;
  q.most = *n;
  q.out_keys = keys;
  q.out_values = values;
  q.counts = &there->count;
  q.stream = stream;
  q.alone = 1;
  complete(q);
  int e = api_.copy(there, &mine, sizeof(mine), stream);
  if (!e) e = engine_->ordered->ranges(layout(), q);
  if (!e) e = api_.copy(&mine, there, sizeof(mine), stream);
  if (!e) e = api_.wait(stream);
  const size_t found = mine.count < *n ? size_t(mine.count) : *n;
  if (!e && found) {
    ordered_request above{};
    above.n = 1;
    above.which = GPUHASH_ABOVE;
    above.low = static_cast<char*>(keys) + (found - 1) * config_.key_bytes;
    above.out_keys = &there->next;
    above.found = &there->there;
    above.stream = stream;
    above.alone = 1;
    complete(above);
    e = engine_->ordered->neighbors(layout(), above);
    if (!e) e = api_.copy(&mine, there, sizeof(mine), stream);
    if (!e) e = api_.wait(stream);
  }
  if (e) return fault(err, e, "exporting");
  c->at = mine.next;
  c->state = mine.there ? GPUHASH_EXPORT_GOES_ON : GPUHASH_EXPORT_DONE;
  *n = found;
  return GPUHASH_OK;
}

}  // namespace gpuhash
