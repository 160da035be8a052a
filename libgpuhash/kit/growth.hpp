// How much room a batch needs, and how a growing table comes to have it.
//
// An element needs room only if it adds a key that is absent. While there is room for all elements, no key is looked up. Where
// there is not, the keys of a window of the batch are looked up first: updates of keys that are there grow nothing.
#pragma once
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

inline constexpr size_t counted_at_once = tunable("counted_at_once", 1u << 16);
inline constexpr size_t new_keys_sample = tunable("newcomer_sample", 1024u);
// If there is room for fewer than this share of a batch's elements, an estimate of its keys says whether they need
// more.
inline constexpr size_t guessed_share = 2;
// Nothing is estimated for a batch of which fewer elements than this share may add their key, since these would be hard
// to find; nor for one of fewer keys than this.
inline constexpr size_t picked_share = 4;
inline constexpr uint64_t few_keys_of_batch = tunable("few_keys_of_batch", 256u);
// A table with room for fewer keys grows in larger steps: what a rebuild of it takes is calls, not the moving of keys.
inline constexpr uint64_t small_table = tunable("small_table", uint64_t(1) << 16);
// Where there is no memory to grow as much as it wants, a table grows by a quarter of that, and so on, and at last by what
// the batch needs.
inline constexpr uint64_t least_growth_share = 32;

// Claims room for as many elements of p as possible, and cuts p to these. The gate is held, shared or exclusively.
inline gpuhash_status table::claim_room(part& p, room_ledger::claim* c, gpuhash_error* err) {
  if (may_estimate(p)) {
    bool decided = false;
    const gpuhash_status s = claim_for_distinct(p, c, &decided, err);
    if (s || decided) return s;
  }
  bool looked = false;
  const auto take_window = [&]() -> gpuhash_status {
    looked = true;
    if (const gpuhash_status s = count_new_keys(p, err)) return s;
    *c = room_.take(p.need);
    if (c->granted) p.q.n = p.window;
    return GPUHASH_OK;
  };
  if (on_cuda() && (p.by == part::guessed || p.q.n / guessed_share > room_.left())) {
    const gpuhash_status s = claim_by_guess(p, c, err);
    if (s || p.by == part::guessed) return s;
  }
  if (many_parts(p.q.n))
    if (const gpuhash_status s = take_window()) return s;
  if (c->granted) return GPUHASH_OK;
  *c = room_.take_part(p.q.n);
  if (c->granted) {
    p.q.n = size_t(c->n);
    return GPUHASH_OK;
  }
  return looked ? gpuhash_status(GPUHASH_OK) : take_window();
}

// CUDA: with the room that is left the batch would be served in many parts, and each is waited for, although few of its
// keys may be new.
inline bool table::many_parts(size_t n) const { return on_cuda() && n / most_parts > room_.left(); }

// CPU: a large batch, whose call reads how much room it has used when it ends.
inline bool table::may_estimate(const part& p) const {
  return !on_cuda() && p.q.n >= estimate_least && p.q.kind != GPUHASH_OP_INSERT_MULTI && config_.key_bytes <= 8;
}

// Elements begin .. end - 1 of a batch go to what counts their keys.
template <class To>
auto table::add_keys(To& to, const request& q, size_t begin, size_t end) const {
  if (config_.key_bytes == 8) return to.add(static_cast<const uint64_t*>(q.keys) + begin, end - begin);
  return to.add(static_cast<const uint32_t*>(q.keys) + begin, end - begin);
}

// Keys that a thread counts at least, and how a batch is cut so that each counts as many as the others.
inline constexpr size_t lone_share = tunable("lone_share", size_t(1) << 17);
inline cut shares(const request& q, size_t n) {
  const size_t share = n / q.threads + 1;
  return {0, share < lone_share ? lone_share : share, n};
}

inline distinct_map::range table::distinct_keys(const request& q, size_t n) const {
  distinct_map keys(n);
  if (!keys) return {n, n};
  if (q.threads <= 1 || n < 2 * lone_share) {
    add_keys(keys, q, 0, n);
    return keys.about(n);
  }
  bool all = true;
  in_pieces(q.threads, n, shares(q, n), [&](size_t begin, size_t end) {
    distinct_map mine(n);
    if (!mine) return __atomic_store_n(&all, false, __ATOMIC_RELAXED);
    add_keys(mine, q, begin, end);
    keys.merge(mine, begin);
  });
  return all ? keys.about(n) : distinct_map::range{n, n};
}

// All distinct keys of a batch, if they are few; else nothing.
inline std::unique_ptr<few_distinct> table::few_keys(const request& q, size_t n) const {
  std::unique_ptr<few_distinct> keys(new (std::nothrow) few_distinct);
  if (!keys) return nullptr;
  if (q.threads <= 1 || n < 2 * lone_share) return add_keys(*keys, q, 0, n) ? std::move(keys) : nullptr;
  kit_mutex mutex;
  bool few = true;
  in_pieces(q.threads, n, shares(q, n), [&](size_t begin, size_t end) {
    if (!__atomic_load_n(&few, __ATOMIC_RELAXED)) return;
    const std::unique_ptr<few_distinct> mine(new (std::nothrow) few_distinct);
    const bool mine_are_few = mine && add_keys(*mine, q, begin, end);
    std::lock_guard<kit_mutex> lock(mutex);
    if (!mine_are_few || !keys->add(*mine)) __atomic_store_n(&few, false, __ATOMIC_RELAXED);
  });
  return few ? std::move(keys) : nullptr;
}

// Makes room for the distinct keys of p, or of as many of its elements as an estimate covers. Undecided: the room may
// just suffice, which only serving the elements will show.
inline gpuhash_status table::claim_for_distinct(part& p, room_ledger::claim* c, bool* decided, gpuhash_error* err) {
  *decided = true;
  uint64_t adding = 0;  // in the window
  if (p.by != part::estimated) {
    p.window = p.q.n < most_estimated ? p.q.n : most_estimated;
    if (const gpuhash_status s = adding_elements(p.q, nullptr, p.window, &adding, err)) return s;
    p.need = adding + (p.q.n - p.window);
  }
  *c = room_.take(p.need);
  if (c->granted && p.by == part::estimated) p.q.n = p.window;
  if (c->granted || p.by == part::estimated) return GPUHASH_OK;
  // Few distinct keys may need no growth at all: rather see how far the room there is goes, unless that is not even as far
  // as this sample, so that the batch would go in small pieces.
  const bool few = distinct_keys(p.q, estimate_sample).most < estimate_sample / 2;
  *decided = !few || room_.left() < estimate_sample;
  if (!*decided) return GPUHASH_OK;
  if (const std::unique_ptr<few_distinct> keys = few ? few_keys(p.q, p.window) : nullptr) {
    if (const gpuhash_status s = count_absent(p.q, *keys, &p.need, err)) return s;
    p.need = std::min(p.need, adding);
    *c = room_.take(p.need);
    p.by = c->granted ? part::counted : part::estimated;
    if (c->granted) p.q.n = p.window;
    return GPUHASH_OK;
  }
  distinct_map::range distinct = distinct_keys(p.q, p.window);
  if (adding < distinct.most) distinct.most = adding;
  *c = room_.take(distinct.most);
  if (!c->granted) {
    *decided = room_.left() < distinct.least;
    if (!*decided) return GPUHASH_OK;
    p.by = part::estimated;
    if (const gpuhash_status s = count_new_keys(p, err)) return s;  // those that are there already take no room
    if (p.need > distinct.most) p.need = distinct.most;
    *c = room_.take(p.need);
  }
  if (c->granted) p.q.n = p.window;
  return GPUHASH_OK;
}

// Elements among the first n of a batch that may take room. there, if not NULL: what a find of their keys has answered.
inline gpuhash_status table::adding_elements(const request& q, const uint8_t* there, size_t n, uint64_t* adding,
                                             gpuhash_error* err) {
  *adding = n;
  if (q.kind != GPUHASH_OP_EXECUTE) return GPUHASH_OK;
  *adding = 0;
  if (!on_cuda()) {
    for (size_t done = 0; done < n;) {
      const size_t end = n - done < counted_at_once ? n : done + counted_at_once;
      uint32_t here = 0;  // narrow, for vectors
      if (there)
        for (; done < end; ++done) here += takes_room_in_mix(q.ops[done], there[done]);
      else
        for (; done < end; ++done) here += adds_in_mix(q.ops[done]);
      *adding += here;
    }
    return GPUHASH_OK;
  }
  auto* const sum = reinterpret_cast<uint64_t*>(head()->batch);
  int e = api_.fill(sum, 0, sizeof(*sum), q.stream);
  if (!e) e = api_.count_adding(q.ops, there, n, sum, q.stream);
  if (!e) e = api_.copy(adding, sum, sizeof(*sum), q.stream);
  if (!e) e = api_.wait(q.stream);
  return e ? fault(err, e, "reading the operations of a batch") : gpuhash_status(GPUHASH_OK);
}

// CUDA: how many keys will a batch add? It is no promise.
inline gpuhash_status table::expect_new_keys(part& p, gpuhash_error* err) {
  const request& q = p.q;
  const uint32_t kb = config_.key_bytes;
  if (p.expected || q.n < 2 * most_picked || kb > 8 || q.kind == GPUHASH_OP_INSERT_MULTI) return GPUHASH_OK;
  uint64_t adding = 0;
  if (const gpuhash_status s = adding_elements(q, nullptr, q.n, &adding, err)) return s;
  if (adding < q.n / picked_share) return GPUHASH_OK;
  scratch ranks(*this, ranks_of_sketch * sizeof(u32), q.stream), picked(*this, most_picked * kb, q.stream);
  std::unique_ptr<u32[]> here(new (std::nothrow) u32[ranks_of_sketch]);
  if (!ranks || !picked || !here) return GPUHASH_OK;
  int e = api_.fill(ranks.get(), 0, ranks.bytes(), q.stream);
  if (!e) e = api_.sketch_keys(q.keys, q.ops, q.n, kb, ranks.as<u32>(), q.stream);
  if (!e) e = api_.pick_keys(q.keys, q.ops, q.n, kb, picked.get(), most_picked, q.stream);
  if (!e) e = api_.copy(here.get(), ranks.get(), ranks.bytes(), q.stream);
  if (!e) e = api_.wait(q.stream);
  if (e) return fault(err, e, "looking at the keys of a batch");
  request sample = q;
  sample.kind = GPUHASH_OP_INSERT;
  sample.keys = picked.get();
  uint64_t present = 0;
  if (const gpuhash_status s = count_present(sample, nullptr, most_picked, &present, err)) return s;
  const double absent = double(adding) * (1 - double(present) / double(most_picked));
  const double distinct = distinct_by_ranks(here.get()) * (1 + sketch_margin());
  p.expected = part::expectation{.new_keys = uint64_t(ceil(std::min(absent, distinct))),
                                 .mostly_new = present < most_picked / 2,
                                 .few_keys = distinct < few_keys_of_batch};
  return GPUHASH_OK;
}

// CUDA: keys that repeat need less room than there are elements. If few of them are new, all of p runs at once. An
// element that finds no room has that status, and is tried again in a larger table.
inline gpuhash_status table::claim_by_guess(part& p, room_ledger::claim* c, gpuhash_error* err) {
  if (p.by != part::guessed) {
    if (const gpuhash_status s = expect_new_keys(p, err)) return s;
    // Nothing is estimated if a batch has few distinct keys: these are in the table after its first elements, and
    // looking the others up then shows that they need no room.
    if (!p.expected || p.expected->few_keys || p.expected->new_keys > p.q.n / guessed_share) return GPUHASH_OK;
    *c = room_.take(p.expected->new_keys);
    if (c->granted || p.expected->mostly_new)
      p.by = part::guessed;  // where most keys are there, rather count the others than grow
    p.need = p.expected->new_keys;
    p.window = p.q.n;
    return GPUHASH_OK;
  }
  *c = room_.take(p.need);
  return GPUHASH_OK;
}

// How many elements of a window of p may each take a slot: p.need of p.window.
inline gpuhash_status table::count_new_keys(part& p, gpuhash_error* err) {
  const uint64_t wanted = room_.limit() < least_looked_up ? least_looked_up : room_.limit();
  if (p.by != part::estimated) p.window = p.q.n < wanted ? p.q.n : size_t(wanted);
  uint64_t adding = 0;
  if (const gpuhash_status s = adding_elements(p.q, nullptr, p.window, &adding, err)) return s;
  p.need = adding;
  if (p.q.kind == GPUHASH_OP_INSERT_MULTI || p.need == 0) return GPUHASH_OK;
  // Where most of a sample is new there is no need to look at the rest.
  uint64_t taking = 0;
  const size_t sample = p.window < new_keys_sample ? p.window : new_keys_sample;
  if (const gpuhash_status s = taking_elements(p.q, sample, &taking, err)) return s;
  if (double(taking) * double(p.window) > double(adding) / 2 * double(sample)) return GPUHASH_OK;
  if (const gpuhash_status s = taking_elements(p.q, p.window, &taking, err)) return s;
  if (taking < p.need) p.need = taking;
  if (p.by == part::estimated) return GPUHASH_OK;
  return look_further(p, err);
}

// If keys repeat, a small table has room for many elements: the window is made wider as long as there is room for its
// new keys.
inline gpuhash_status table::look_further(part& p, gpuhash_error* err) {
  while (p.window < p.q.n && p.need <= room_.left()) {
    const size_t rest = p.q.n - p.window, more = rest < p.window ? rest : p.window;
    const request next = part_of(p.q, p.window, more);
    uint64_t taking = 0;
    if (const gpuhash_status s = taking_elements(next, more, &taking, err)) return s;
    const uint64_t need = p.need + taking;
    if (need > room_.left()) break;
    p.need = need;
    p.window += more;
  }
  return GPUHASH_OK;
}

// How many of the first n elements of a batch may take a slot, judged by which of their keys are in the table now?
inline gpuhash_status table::taking_elements(const request& q, size_t n, uint64_t* taking, gpuhash_error* err) {
  uint64_t present = 0;
  if (q.kind != GPUHASH_OP_EXECUTE) {
    const gpuhash_status s = count_present(q, nullptr, n, &present, err);
    *taking = n - present;
    return s;
  }
  uint64_t adding = 0;
  if (const gpuhash_status s = adding_elements(q, nullptr, n, &adding, err)) return s;
  *taking = adding;
  scratch there(*this, adding ? n : 0, q.stream);
  if (!there.get()) return GPUHASH_OK;
  if (const gpuhash_status s = count_present(q, there.as<uint8_t>(), n, &present, err)) return s;
  const gpuhash_status s = adding_elements(q, there.as<uint8_t>(), n, taking, err);
  *taking = std::min(adding, *taking);
  return s;
}

// Of keys that are few.
inline gpuhash_status table::count_absent(const request& batch, const few_distinct& keys, uint64_t* absent,
                                          gpuhash_error* err) {
  request q = batch;
  uint32_t narrow[few_distinct::most];
  for (size_t i = 0; i < keys.size(); ++i) narrow[i] = uint32_t(keys.keys()[i]);
  q.keys = config_.key_bytes == 8 ? static_cast<const void*>(keys.keys()) : narrow;
  uint64_t present = 0;
  const gpuhash_status s = count_present(q, nullptr, keys.size(), &present, err);
  *absent = keys.size() - present;
  return s;
}

// there: if not NULL, receives of each key whether it is there.
inline gpuhash_status table::count_present(const request& batch, uint8_t* there, size_t n, uint64_t* present,
                                           gpuhash_error* err) {
  request q = part_of(batch, 0, n);
  q.kind = GPUHASH_OP_FIND;
  q.values = nullptr;
  q.out_values = nullptr;
  q.status = there;
  q.ops = nullptr;
  q.only_failed = 0;
  totals stripe[total_stripes] = {};
  if (!on_cuda()) {
    engine_->run(layout(), q, stripe);
  } else {
    q.batch_sum = head()->batch;
    int e = api_.fill(q.batch_sum, 0, sizeof(stripe), q.stream);
    if (!e) e = engine_->run(layout(), q, head()->sum);
    if (!e) e = api_.copy(stripe, q.batch_sum, sizeof(stripe), q.stream);
    if (!e) e = api_.wait(q.stream);
    if (e) return fault(err, e, "looking keys up");
  }
  *present = 0;
  for (const totals& s : stripe) *present += s.yes;
  return GPUHASH_OK;
}

// Make room for p.need more slots, unless another thread has done it meanwhile. Exclusively.
inline gpuhash_status table::grow_for(part& p, gpuhash_error* err) {
  changes();
  totals now{};
  if (const gpuhash_status s = read_totals(&now, p.q.stream, err)) return s;
  const uint64_t live = uint64_t(now.live);
  const uint64_t used = uint64_t(now.used);
  const uint64_t dead = used > live ? used - live : 0;
  const uint64_t most = limit();
  room_.recount(used, most);
  if (room_.left() >= p.need) return GPUHASH_OK;
  if (const gpuhash_status s = refuse_to_move(GPUHASH_FULL, err)) return s;
  // A rebuild in place is enough where it frees as much as growing would.
  const bool in_place = dead > used / 2 && most >= live + p.need;
  const bool by_guess = p.by != part::counted;
  const bool far_too_small = !by_guess && p.need == p.window && p.q.n / 4 > most;
  const uint64_t steps = p.q.n / 16 > most && most < small_table ? 16 : 4;
  uint64_t wanted = in_place ? most : far_too_small ? steps * most : next_limit(most, used + p.need);
  if (far_too_small && on_cuda()) {
    if (const gpuhash_status s = expect_new_keys(p, err)) return s;
    const uint64_t expected = p.q.kind == GPUHASH_OP_INSERT_MULTI ? p.q.n : p.expected ? p.expected->new_keys : 0;
    if (wanted < live + expected) wanted = live + expected;
  }
  if (by_guess && wanted < live + p.need + p.need / 4) wanted = live + p.need + p.need / 4;  // once, and some to spare
  gpuhash_status s = resize(wanted, p.q.stream, err);
  for (uint64_t more = wanted > most ? (wanted - most) / 4 : 0;
       s == GPUHASH_NO_MEMORY && more > most / least_growth_share; more /= 4)
    s = resize(most + more, p.q.stream, err);
  const uint64_t least = live + p.need > most ? live + p.need : most;
  if (s == GPUHASH_NO_MEMORY && least < wanted) s = resize(least, p.q.stream, err);
  if (s == GPUHASH_OK) ++growths_;
  return s;
}

// Elements of p found no room. Makes room, unless another thread has done so since p ran. The table is held
// exclusively.
inline gpuhash_status table::grow_after(const part& p, gpuhash_error* err) {
  if (growths_ != p.growths) return GPUHASH_OK;
  changes();
  if (const gpuhash_status s = refuse_to_move(GPUHASH_FULL, err)) return s;
  const gpuhash_status s = more_room(p.q.stream, err);
  if (s == GPUHASH_OK) ++growths_;
  return s;
}

}  // namespace gpuhash
