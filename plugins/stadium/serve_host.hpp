// stadium on the CPU: who serves which key.
//
// An operation touches two places that depend on its key: a word of the ticket-board, and then, unless the tickets settle
// it, one slot. Threads take chunks of a batch and go through them in blocks, in three steps that lie a block apart: hash
// the keys and ask for their tickets; look at the tickets and ask for the slots; carry the operations out. What has to go
// on to another group waits in a list, which is served by the same two steps when it is long enough to hide what a read of
// memory takes.
//
//   R1  An element of the caller's arrays is read once: keys are copied before they are hashed, since the caller may write
//       to the arrays meanwhile.
#pragma once
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"
#include "ops.hpp"

GH_BEGIN

inline constexpr u32 block_size = 64;
inline constexpr u32 waiting_room = 2 * block_size;
inline constexpr u32 widest_key = 256;                             // bytes
inline constexpr cut batch_cut = {8192, 4096, 16384, block_size};  // elements that a thread takes at a time

// Copies of keys, as long as their operations are under way. Small keys lie in the operations.
template <class S, u32 N>
struct key_room {
  u32 words[N][widest_key / 4];
  GH_FN typename S::key keep(const stadium_table& t, u32 j, typename S::key k) {
    __builtin_memcpy(words[j], k, t.key_bytes);
    return words[j];
  }
};
template <class S, u32 N>
  requires(!S::wide)
struct key_room<S, N> {
  GH_FN typename S::key keep(const stadium_table&, u32, typename S::key k) { return k; }
};

template <class S, u32 Kind>
class alignas(64) stadium_driver {
  using op = stadium_op<host_mem, S, Kind>;
  static constexpr bool reads = Kind == find;  // or count

  struct block {
    op ops[block_size];
    u32 of[block_size];  // whose: its distance from base
    size_t base;
    u32 n = 0;
    key_room<S, block_size> keys;
  };

  const stadium_table t_;
  const request q_;
  const joiner joiner_;
  totals sum_{};
  block ring_[3];
  op waiting_[waiting_room];
  size_t waiting_of_[waiting_room];
  u32 n_waiting_ = 0;
  key_room<S, waiting_room> waiting_keys_;

  const void* operand_at(size_t i) const {
    return q_.values ? static_cast<const char*>(q_.values) + i * S::value_bytes(t_) : nullptr;
  }
  void* out_at(size_t i) const {
    if (q_.kind == count || !q_.out_values) return nullptr;
    return static_cast<char*>(q_.out_values) + i * S::value_bytes(t_);
  }

  // What element i answers. A find has written its value.
  void deposit(size_t i, const op& o) {
    if (q_.status) q_.status[i] = u8(o.res.status);
    if (q_.kind == count)
      static_cast<u64*>(q_.out_values)[i] = o.res.status == yes;
    else if (void* const out = out_at(i))
      if (o.kind() != find || o.res.status != yes) __builtin_memset(out, 0, S::value_bytes(t_));
    sum_.live += o.res.live;
    sum_.used += o.res.used;
    sum_.yes += o.res.status == yes;
    sum_.failed += o.res.status > yes;
  }

  // Step 1.
  void hash_keys(block& b, size_t base, u32 many) {
    b.base = base;
    b.n = 0;
    for (u32 j = 0; j < many; ++j) {
      const size_t i = base + j;
      if (q_.only_failed && !lacks_room(q_.status[i])) continue;
      u32 kd = q_.kind;
      if constexpr (Kind == mixed)
        if (q_.kind == mixed) kd = read_op(q_, i);
      op& o = b.ops[b.n];
      o.start(t_, kd, b.keys.keep(t_, b.n, S::read_key(t_, q_.keys, i)), operand_at(i), out_at(i));
      if (kd == nop) {
        deposit(i, o);
        continue;
      }
      host_mem::prefetch<!reads>(t_.tickets + o.at);
      b.of[b.n++] = j;
    }
  }

  // Step 2.
  void look(const block& b) {
    for (u32 j = 0; j < b.n; ++j) ask_for_slot(b.ops[j]);
  }
  void ask_for_slot(const op& o) const {
    const void* const slot = o.slot_ahead(t_);
    if (!slot) return;
    host_mem::prefetch<!reads>(slot);
    if constexpr (S::wide)
      for (u32 at = 64; at < t_.stride + 63; at += 64)
        host_mem::prefetch<!reads>(static_cast<const char*>(slot) + (at < t_.stride ? at : t_.stride - 1));
  }

  // Step 3. True: it is finished.
  bool visit(op& o) {
    verdict d;
    do d = o.step(t_, joiner_);
    while (d == verdict::again);
    return d == verdict::done;
  }
  void serve(block& b) {
    for (u32 j = 0; j < b.n; ++j) {
      op& o = b.ops[j];
      if (visit(o)) {
        deposit(b.base + b.of[j], o);
        continue;
      }
      host_mem::prefetch<!reads>(t_.tickets + o.at);
      o.k = waiting_keys_.keep(t_, n_waiting_, o.k);
      waiting_of_[n_waiting_] = b.base + b.of[j];
      waiting_[n_waiting_++] = o;
    }
  }
  void serve_waiting() {
    for (u32 j = 0; j < n_waiting_; ++j) ask_for_slot(waiting_[j]);
    u32 kept = 0;
    for (u32 j = 0; j < n_waiting_; ++j) {
      op& o = waiting_[j];
      if (visit(o)) {
        deposit(waiting_of_[j], o);
        continue;
      }
      host_mem::prefetch<!reads>(t_.tickets + o.at);
      if (kept != j) o.k = waiting_keys_.keep(t_, kept, o.k);
      waiting_of_[kept] = waiting_of_[j];
      waiting_[kept++] = o;
    }
    n_waiting_ = kept;
  }

 public:
  stadium_driver(const stadium_table& t, const request& q)
      : t_(t), q_(q), joiner_{q.combine, q.value_type, false, nullptr} {}

  const totals& serve(size_t begin, size_t end) {
    const size_t blocks = (end - begin + block_size - 1) / block_size;
    const auto base = [&](size_t b) { return begin + b * block_size; };
    const auto many = [&](size_t b) { return u32(end - base(b) < block_size ? end - base(b) : block_size); };
    for (size_t b = 0; b < blocks + 2; ++b) {
      if (b < blocks) hash_keys(ring_[b % 3], base(b), many(b));
      if (b >= 1 && b <= blocks) look(ring_[(b - 1) % 3]);
      if (b >= 2) {
        while (n_waiting_ > waiting_room - block_size) serve_waiting();
        serve(ring_[(b - 2) % 3]);
      }
    }
    while (n_waiting_) serve_waiting();
    return sum_;
  }
};

// Finds of small keys: the same three steps, the second and third without a branch on what they see. A block is filled up
// with those that have to go on to another group, so that each visit costs the same.
//
// Every pass has the table and the arrays' addresses in variables of its own: the compiler has to assume that writing a
// result changes whatever lies in memory.
template <class S>
class alignas(64) stadium_reader {
  using value = std::conditional_t<S::value_size == 8, u64, u32>;
  using look = stadium_look<host_mem, S>;

  struct visit : stadium_visit<S> {
    size_t element;
  };
  struct block {
    visit of[block_size];
    look seen[block_size];
    u32 n = 0;
  };

  const stadium_table t_;
  const request q_;
  block ring_[3];
  visit waiting_[2 * block_size];
  u32 n_waiting_ = 0;
  u64 found_ = 0;

  // Step 1: up to block_size visits, of elements from `next` on.
  size_t fill(block& b, size_t next, size_t end) {
    const stadium_table t = t_;
    const void* const keys = q_.keys;
    const u32 old = n_waiting_ < block_size ? n_waiting_ : block_size;
    n_waiting_ -= old;
    __builtin_memcpy(b.of, waiting_ + n_waiting_, old * sizeof(visit));
    const u32 fresh = end - next < block_size - old ? u32(end - next) : block_size - old;
    for (u32 j = 0; j < fresh; ++j) {
      visit& v = b.of[old + j];
      v.start(t, S::read_key(t, keys, next + j));
      v.element = next + j;
    }
    b.n = old + fresh;
    for (u32 j = 0; j < b.n; ++j) host_mem::prefetch<false>(t.tickets + b.of[j].group);
    return next + fresh;
  }
  // Step 2.
  void look_at_tickets(block& b) {
    const stadium_table t = t_;
    for (u32 j = 0; j < b.n; ++j) {
      const look seen = look::at(t, b.of[j]);
      host_mem::prefetch<false>(seen.slot);
      b.seen[j] = seen;
    }
  }
  // Step 3.
  void look_at_slots(block& b) {
    const stadium_table t = t_;
    u8* const status = q_.status;
    value* const values = S::value_size && q_.kind == find ? static_cast<value*>(q_.out_values) : nullptr;
    u64* const counts = q_.kind == count ? static_cast<u64*>(q_.out_values) : nullptr;
    u32 open[block_size];
    u32 n_open = 0;
    u64 yes_here = 0;
    for (u32 j = 0; j < b.n; ++j) {
      const look seen = b.seen[j];
      const size_t i = b.of[j].element;
      value v;
      const bool found = seen.finds(t, b.of[j].k, &v);
      if (status) status[i] = found;
      if (values) values[i] = found ? v : value(0);
      if (counts) counts[i] = found;
      yes_here += found;
      open[n_open] = j;
      n_open += !(found | seen.absent);
    }
    found_ += yes_here;
    for (u32 o = 0; o < n_open; ++o) go_on(t, b.of[open[o]], b.seen[open[o]]);
  }
  // A visit that decided nothing, and answered `absent` so far.
  // It is copied first and changed then: a copy of what was written just now would wait for it.
  void go_on(const stadium_table& t, const visit& from, const look& seen) {
    visit& v = waiting_[n_waiting_];
    v = from;
    value* const out =
        S::value_size && q_.out_values && q_.kind == find ? static_cast<value*>(q_.out_values) + v.element : nullptr;
    bool found = false;
    n_waiting_ += seen.rest(t, v, out, &found) == verdict::next;
    if (!found) return;
    if (q_.status) q_.status[v.element] = yes;
    if (q_.kind == count) static_cast<u64*>(q_.out_values)[v.element] = 1;
    ++found_;
  }

 public:
  stadium_reader(const stadium_table& t, const request& q) : t_(t), q_(q) {}

  u64 serve(size_t begin, size_t end) {
    block* first = ring_;  // whose step is to come: the first, the second, the third
    block* second = ring_ + 1;
    block* third = ring_ + 2;
    for (size_t next = begin;;) {
      next = fill(*first, next, end);
      look_at_tickets(*second);
      look_at_slots(*third);
      if (!(first->n | second->n | n_waiting_)) return found_;
      block* const empty = third;
      third = second;
      second = first;
      first = empty;
    }
  }
};

template <class S, u32 Kind>
int run_pieces(const stadium_table& t, const request& q, totals* sum) {
  const size_t n = q.n_there ? *q.n_there : q.n;
  in_pieces(q.threads, n, batch_cut, [&](size_t begin, size_t end) {
    if constexpr (Kind == find && !S::wide) {
      stadium_reader<S> reader(t, q);
      __atomic_fetch_add(&sum->yes, reader.serve(begin, end), __ATOMIC_RELAXED);
    } else {
      stadium_driver<S, Kind> driver(t, q);
      add_totals(sum, driver.serve(begin, end));
    }
  });
  return 0;
}

template <class S>
int run_batch(const void* table, const request& q, totals* sum) {
  const auto& t = *static_cast<const stadium_table*>(table);
  if (q.kind == find || q.kind == count) return run_pieces<S, find>(t, q, sum);
  if (q.kind == insert) return run_pieces<S, insert>(t, q, sum);
  return run_pieces<S, mixed>(t, q, sum);
}

// The live slots of cells lo..hi, copied to keys and values at *n, in no order. Runs with no writer about.
inline int collect_slots(const void* table, cell_order order, uint64_t lo, uint64_t hi, void* keys, void* values,
                         uint32_t, uint32_t, uint64_t* n, uint32_t threads, void*) {
  const auto& t = *static_cast<const stadium_table*>(table);
  const auto each = [&](u64 begin, u64 end, auto emit) {
    for (u64 c = begin; c < end; ++c) {
      const u64 cell = cell_at(order, c);
      const u64 group = cell >> t.log_tickets;
      const u32 i = u32(cell - (group << t.log_tickets));
      if (t.state_at(host_mem::load<order::acquire>(t.tickets + group), i) == live) emit(t.slot(group, i));
    }
  };
  constexpr cut cells_cut = {4096, 1024, 16384, 64};
  in_pieces(threads, hi - lo, cells_cut, [&](size_t begin, size_t end) {
    u64 here = 0;
    each(lo + begin, lo + end, [&](const unsigned char*) { ++here; });
    u64 at = __atomic_fetch_add(n, here, __ATOMIC_RELAXED);
    each(lo + begin, lo + end, [&](const unsigned char* slot) {
      if (keys) __builtin_memcpy(static_cast<char*>(keys) + at * t.key_bytes, slot, t.key_bytes);
      if (values) __builtin_memcpy(static_cast<char*>(values) + at * t.value_bytes, slot + t.value_at, t.value_bytes);
      ++at;
    });
  });
  return 0;
}

// Put every live pair of `from` into the empty table `to`, straight from slot to slot.
template <class S>
bool move_slots(const void* from_table, const void* to_table, totals* sum, uint32_t threads) {
  const auto& from = *static_cast<const stadium_table*>(from_table);
  const auto& to = *static_cast<const stadium_table*>(to_table);
  constexpr cut groups_cut = {512, 256, 4096};
  in_pieces(threads, from.groups, groups_cut, [&](size_t begin, size_t end) {
    totals part{};
    stadium_op<host_mem, S, insert> ops[block_size];
    u32 n = 0;
    const auto put = [&] {
      for (u32 j = 0; j < n; ++j)
        if (const void* slot = ops[j].slot_ahead(to)) host_mem::prefetch<true>(slot);
      for (u32 j = 0; j < n; ++j) {
        while (ops[j].step(to, joiner{}) != verdict::done) {
        }
        part.used += ops[j].res.used;
        part.failed += ops[j].res.status > yes;
      }
      n = 0;
    };
    for (u64 group = begin; group < end; ++group) {
      const u64 tickets = from.tickets[group];
      for (u32 i = 0; i < 1u << from.log_tickets; ++i) {
        if (from.state_at(tickets, i) != live) continue;
        const unsigned char* const slot = from.slot(group, i);
        ops[n].start(to, insert, S::read_key(from, slot, 0), slot + S::value_at(from), nullptr);
        host_mem::prefetch<true>(to.tickets + ops[n].at);
        if (++n == block_size) put();
      }
    }
    put();
    add_totals(sum, part);
  });
  return true;
}

template <class S>
constexpr engine engine_of() {
  return {run_batch<S>, collect_slots, nullptr, nullptr, move_slots<S>};
}

GH_END
