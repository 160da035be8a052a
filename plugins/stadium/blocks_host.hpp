// stadium on the CPU: how one thread serves its elements of a batch, and in which order it reads memory.
//
// An operation touches two places that depend on its key: a word of the ticket-board, and then, unless the tickets settle
// it, one slot. Threads take chunks of a batch and go through them in blocks, in three steps that lie a block apart: hash
// the keys and ask for their tickets; look at the tickets and ask for the slots; carry the operations out. What has to go
// on to another group waits in a list, which is served by the same two steps when it is long enough to hide what a read of
// memory takes.
//
// A large batch over slots that are slow to reach is put into the order of their pages first (page_order.hpp).
//
//   R1  An operation reads an element of the caller's arrays once: keys are copied before they are hashed, since the caller
//       may write to the arrays meanwhile.
#pragma once
#include <type_traits>

#include "libgpuhash/drive/host.hpp"
#include "ops.hpp"

GH_BEGIN

inline constexpr u32 widest_key = 256;  // bytes

// A part of a batch in the order in which it is served: list[i] is the number of an element, counted from `first`. Without
// a list, elements come by their numbers.
struct served_order {
  size_t first = 0;
  const u32* list = nullptr;
  u32* page = nullptr;    // of each element, counted from `first`: of the slot that it will touch
  bool puts_off = false;  // an insert that would book a slot in another page is left for the next round
  u64 n_put_off = 0;      // what the driver answers
  size_t element(size_t i) const { return list ? first + list[i] : i; }
};
inline constexpr u32 page_shift = 12;
inline constexpr u32 no_page = ~0u;            // in place of a page: nothing is left to do
inline constexpr u32 page_of_later = ~0u - 1;  // put off
GH_FN u32 page_of(const stadium_table& t, const void* slot) {
  return u32(u64(static_cast<const unsigned char*>(slot) - t.slots) >> page_shift);
}

// Elements that are served in another order lie anywhere in the caller's arrays.
template <class S>
void ask_for_element(const stadium_table& t, const request& q, size_t i) {
  host_mem::prefetch<false>(static_cast<const char*>(q.keys) + i * t.key_bytes);
  if (q.status) host_mem::prefetch<true>(q.status + i);
  if (q.values) host_mem::prefetch<false>(static_cast<const char*>(q.values) + i * S::value_bytes(t));
  if (q.out_values && q.kind != count)
    host_mem::prefetch<true>(static_cast<char*>(q.out_values) + i * S::value_bytes(t));
}

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
  GH_FN typename S::key keep(const stadium_table&, u32, typename S::key k) { return host_read_once(k); }
};

template <class S, u32 Kind>
class alignas(64) stadium_driver {
  using op = stadium_op<host_mem, S, Kind>;
  static constexpr bool reads = Kind == find;  // or count

  struct block {
    op ops[block_size];
    size_t of[block_size];  // whose
    u32 n = 0;
    key_room<S, block_size> keys;
  };

  const stadium_table t_;
  const request q_;
  served_order order_;
  size_t end_ = 0;  // of what is served
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

  // The answer of element i. A value that was found is written already.
  void deposit(size_t i, const op& o) {
    if (q_.status) q_.status[i] = u8(o.res.status);
    if (q_.kind == count)
      static_cast<u64*>(q_.out_values)[i] = o.res.status == yes;
    else if (void* const out = out_at(i))
      if (!answers_with(o.kind(), o.res.status)) __builtin_memset(out, 0, S::value_bytes(t_));
    sum_.live += o.res.live;
    sum_.used += o.res.used;
    sum_.yes += o.res.status == yes;
    sum_.failed += o.res.status > yes;
  }

  // Step 1.
  void hash_keys(block& b, size_t base, u32 many) {
    b.n = 0;
    if (order_.list)
      for (size_t j = base + block_size; j < base + block_size + many && j < end_; ++j)
        ask_for_element<S>(t_, q_, order_.element(j));
    for (u32 j = 0; j < many; ++j) {
      const size_t i = order_.element(base + j);
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
      b.of[b.n++] = i;
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

  // Would the insert book a slot in another page than was foreseen? Another thread has taken the slot that was meant.
  bool put_off(const op& o, size_t i) {
    if (!order_.puts_off || !o.adding()) return false;
    const void* const slot = o.slot_ahead(t_);
    u32& foreseen = order_.page[i - order_.first];
    if (!slot || page_of(t_, slot) == foreseen) return false;
    foreseen = page_of_later;
    ++order_.n_put_off;
    return true;
  }
  // Step 3. True: it is finished, or left.
  bool visit(op& o, size_t i) {
    if (put_off(o, i)) return true;
    verdict d;
    do d = o.step(t_, joiner_);
    while (d == verdict::again || (d == verdict::next && t_.in_line(o.left)));
    if (d != verdict::done) return false;
    deposit(i, o);
    return true;
  }
  void serve(block& b) {
    for (u32 j = 0; j < b.n; ++j) {
      op& o = b.ops[j];
      if (visit(o, b.of[j])) continue;
      host_mem::prefetch<!reads>(t_.tickets + o.at);
      o.k = waiting_keys_.keep(t_, n_waiting_, o.k);
      waiting_of_[n_waiting_] = b.of[j];
      waiting_[n_waiting_++] = o;
    }
  }
  void serve_waiting() {
    for (u32 j = 0; j < n_waiting_; ++j) ask_for_slot(waiting_[j]);
    u32 kept = 0;
    for (u32 j = 0; j < n_waiting_; ++j) {
      op& o = waiting_[j];
      if (visit(o, waiting_of_[j])) continue;
      host_mem::prefetch<!reads>(t_.tickets + o.at);
      if (kept != j) o.k = waiting_keys_.keep(t_, kept, o.k);
      waiting_of_[kept] = waiting_of_[j];
      waiting_[kept++] = o;
    }
    n_waiting_ = kept;
  }

 public:
  stadium_driver(const stadium_table& t, const request& q, const served_order& order)
      : t_(t), q_(q), order_(order), joiner_{q.combine, q.value_type, false, nullptr} {}
  u64 n_put_off() const { return order_.n_put_off; }

  const totals& serve(size_t begin, size_t end) {
    const size_t blocks = (end - begin + block_size - 1) / block_size;
    end_ = end;
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

#if GH_ROW_BYTES
// A line of 64 bytes in two registers.
struct line_at_once {
  static constexpr u32 groups = 8;
  GH_FN static line_bits look(const stadium_table& t, const u64* line, u64 mine) {
    __m256i half[2];
    for (u32 h = 0; h < 2; ++h)
      asm volatile("vmovdqa %1, %0" : "=x"(half[h]) : "m"(reinterpret_cast<const __m256i*>(line)[h]) : "memory");
    const auto equal = [&](u64 pattern) {
      const __m256i p = _mm256_set1_epi64x((long long)pattern);
      const u64 low = u32(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half[0], p)));
      const u64 bytes = low | u64(u32(_mm256_movemask_epi8(_mm256_cmpeq_epi8(half[1], p)))) << 32;
      const u32 two = t.log_bits - 3;  // both bytes of a ticket of 16 bits
      return bytes & bytes << two & (0xaaaaaaaaaaaaaaaaull | (u64(two) - 1));
    };
    return {equal(mine), equal(0)};
  }
};
#else
using line_at_once = word_by_word<host_mem, 8>;
#endif

// Finds of small keys: the same three steps, the second and third without a branch on what they see. A block is filled up
// with those that have to go on to another group, so that each visit costs the same.
//
// Every pass has the table and the arrays' addresses in variables of its own: the compiler has to assume that writing a
// result changes whatever lies in memory.
template <class S, class Look>
class alignas(64) stadium_reader {
  using value = std::conditional_t<S::value_size == 8, u64, u32>;

  struct visit : stadium_visit<S> {
    size_t element;
  };
  struct block {
    visit of[block_size];
    Look seen[block_size];
    u32 n = 0;
  };

  const stadium_table t_;
  const request q_;
  const served_order order_;
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
      v.element = order_.element(next + j);
      v.start(t, S::read_key(t, keys, v.element));
    }
    b.n = old + fresh;
    if (order_.list)
      for (size_t j = next + block_size; j < next + fresh + block_size && j < end; ++j)
        ask_for_element<S>(t, q_, order_.element(j));
    for (u32 j = 0; j < b.n; ++j) host_mem::prefetch<false>(t.tickets + b.of[j].group);
    return next + fresh;
  }
  // Step 2.
  void look_at_tickets(block& b) {
    const stadium_table t = t_;
    for (u32 j = 0; j < b.n; ++j) {
      Look& seen = b.seen[j];  // in its place: a copy of what was written just now would wait for it
      seen.look(t, b.of[j]);
      host_mem::prefetch<false>(seen.slot);
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
      const Look& seen = b.seen[j];
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
  void go_on(const stadium_table& t, const visit& from, const Look& seen) {
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
  stadium_reader(const stadium_table& t, const request& q, const served_order& order) : t_(t), q_(q), order_(order) {}

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

// Serve begin .. end of an order. Answers how many were put off.
template <class S, u32 Kind>
u64 serve_part(const stadium_table& t, const request& q, const served_order& order, size_t begin, size_t end,
               totals* sum) {
  if constexpr (Kind == find && !S::wide) {
    const auto by = [&](auto&& reader) { __atomic_fetch_add(&sum->yes, reader.serve(begin, end), __ATOMIC_RELAXED); };
    if (t.has_lines_of(line_at_once::groups))
      by(stadium_reader<S, stadium_line_look<host_mem, S, line_at_once>>(t, q, order));
    else
      by(stadium_reader<S, stadium_look<host_mem, S>>(t, q, order));
    return 0;
  } else {
    stadium_driver<S, Kind> driver(t, q, order);
    add_totals(sum, driver.serve(begin, end));
    return driver.n_put_off();
  }
}

GH_END
