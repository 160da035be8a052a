// stadium on the CPU: which thread serves which element of a batch, and in which order memory is read.
//
// An operation touches two places that depend on its key: a word of the ticket-board, and then, unless the tickets settle
// it, one slot. Threads take chunks of a batch and go through them in blocks, in three steps that lie a block apart: hash
// the keys and ask for their tickets; look at the tickets and ask for the slots; carry the operations out. What has to go
// on to another group waits in a list, which is served by the same two steps when it is long enough to hide what a read of
// memory takes.
//
// A large batch over slots that are slow to reach is put into their order first (`in_order`, at the end).
//
//   R1  An operation reads an element of the caller's arrays once: keys are copied before they are hashed, since the caller
//       may write to the arrays meanwhile.
#pragma once
#include <stdlib.h>
#include <sys/mman.h>

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

  // What element i answers. A value that was found is written already.
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

  // Would it book a slot in another page than was foreseen? Another thread has taken the one that was meant.
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

// ---- batches in the order of slots -----------------------------------------------------------------------------------
//
// Pages of a file that come in random order cost a wait each, and the system reads them one by one. So a large batch is
// put into the order of pages, as far as tickets tell it, by a counting sort:
//
//   place   each element looks at tickets, until they say which slot it will touch. Elements whose keys the tickets know
//           to be absent are done here, and no page is read for them
//   list    element numbers, in the order of windows of pages
//   serve   in that order. The system is asked for pages some thousand elements ahead, all at once
//
// Elements of a batch do not see what the others will book: an insert whose slot is taken meanwhile would go on to a page
// anywhere. It is put off instead; nothing of it has happened. Those that were put off are a batch again. In the last round
// nothing is.

inline constexpr u32 order_chunk = tunable("order_chunk", 1u << 27);  // elements that are put into order at a time
inline constexpr u32 most_rounds = tunable("order_rounds", 6u);
inline constexpr u32 asked_ahead = tunable("asked_ahead", 4096u);   // elements
inline constexpr u32 pages_between = tunable("pages_between", 8u);  // that are read along, rather than to ask twice
inline constexpr cut order_cut = tunable_cut({2 * asked_ahead, 2 * asked_ahead, 16 * asked_ahead, block_size});

class page_lists {
 public:
  page_lists(const stadium_table& t, u32 many) : many_(many) {
    pages_ = ((t.groups << t.log_tickets) * t.stride >> page_shift) + 1;
    if (pages_ >= page_of_later) return;
    shift_ = t.window_shift > page_shift ? t.window_shift - page_shift : 0;
    while (pages_ >> shift_ > many_ / 2) ++shift_;
    windows_ = u32(pages_ >> shift_) + 1;
    memory_ = static_cast<u32*>(malloc((windows_ + 1 + 2 * size_t(many_)) * sizeof(u32)));
  }
  page_lists(const page_lists&) = delete;
  page_lists& operator=(const page_lists&) = delete;
  ~page_lists() { free(memory_); }

  explicit operator bool() const { return memory_ != nullptr; }
  u32* page() const { return memory_; }
  u32* list() const { return memory_ + many_; }
  u32* counts() const { return memory_ + 2 * size_t(many_); }
  u32 window_of(u32 page) const { return page >> shift_; }

  void clear() const { __builtin_memset(counts(), 0, (windows_ + 1) * sizeof(u32)); }
  void enter(u32 element, u32 its) const {
    page()[element] = its;
    __atomic_fetch_add(counts() + window_of(its), 1u, __ATOMIC_RELAXED);
  }
  // Counts become where each window begins. Answers how many elements there are.
  u32 start() const {
    u32 so_far = 0;
    for (u32 w = 0; w < windows_; ++w) {
      const u32 here = counts()[w];
      counts()[w] = so_far;
      so_far += here;
    }
    return so_far;
  }
  void enlist(size_t begin, size_t end) const {
    for (size_t j = begin; j < end; ++j)
      if (page()[j] != no_page)
        list()[__atomic_fetch_add(counts() + window_of(page()[j]), 1u, __ATOMIC_RELAXED)] = u32(j);
  }

 private:
  u64 pages_ = 0;
  u32 many_;
  u32 windows_ = 0;
  u32 shift_ = 0;  // pages of a window
  u32* memory_ = nullptr;
};

template <class S>
class stadium_placer {
  struct walk {
    u64 hash;
    u64 group;
    u64 left;     // groups that may be visited, this one included
    u32 element;  // counted from first_
    bool adding;
  };
  struct block {
    walk of[block_size];
    u32 n = 0;
  };

  const stadium_table t_;
  const request q_;
  const size_t first_;
  const bool again_;  // only those that were put off
  const page_lists& lists_;
  block ring_[2];
  walk waiting_[2 * block_size];
  u32 n_waiting_ = 0;

  void answer_no(size_t i) const {
    const u32 bytes = S::value_bytes(t_);
    if (q_.status) q_.status[i] = no;
    if (!q_.out_values) return;
    if (q_.kind == count)
      static_cast<u64*>(q_.out_values)[i] = 0;
    else
      __builtin_memset(static_cast<char*>(q_.out_values) + i * bytes, 0, bytes);
  }
  // A block is filled with walks that have to go on, and with those of elements from `next` on.
  size_t fill(block& b, size_t next, size_t end) {
    const u32 old = n_waiting_ < block_size ? n_waiting_ : block_size;
    n_waiting_ -= old;
    __builtin_memcpy(b.of, waiting_ + n_waiting_, old * sizeof(walk));
    b.n = old;
    for (; next < end && b.n < block_size; ++next) {
      const size_t i = first_ + next;
      u32& page = lists_.page()[next];
      const bool has_to = again_ ? page == page_of_later : has_work(q_, i);
      page = no_page;
      if (!has_to) continue;
      const u32 kind = q_.kind == mixed ? read_op(q_, i) : q_.kind;
      if (kind == nop) {
        answer_no(i);
        continue;
      }
      const u64 h = S::hash_of(t_, S::read_key(t_, q_.keys, i));
      b.of[b.n++] = {h, t_.home(h), t_.path_limit, u32(next), in_kinds(kind, adding_kinds)};
    }
    for (u32 j = 0; j < b.n; ++j) host_mem::prefetch<false>(t_.tickets + b.of[j].group);
    return next;
  }
  void look(const block& b) {
    for (u32 j = 0; j < b.n; ++j) {
      walk w = b.of[j];
      u32 at = 0;
      verdict d;
      do {
        d = tickets_ahead<host_mem>(t_, w.group, t_.live_ticket(w.hash), w.left == 1, w.adding, &at);
        if (d == verdict::next) w.group = t_.after(w.group, t_.stride_of(w.hash), --w.left);
      } while (d == verdict::next && t_.in_line(w.left));
      if (d == verdict::next) {
        waiting_[n_waiting_++] = w;
      } else if (d == verdict::done) {
        answer_no(first_ + w.element);
      } else {
        lists_.enter(w.element, page_of(t_, t_.slot(w.group, at)));
      }
    }
  }

 public:
  stadium_placer(const stadium_table& t, const request& q, size_t first, bool again, const page_lists& lists)
      : t_(t), q_(q), first_(first), again_(again), lists_(lists) {}

  // Elements begin .. end, counted from first.
  void place(size_t begin, size_t end) {
    u32 now = 0;
    for (size_t next = begin;; now ^= 1) {
      next = fill(ring_[now], next, end);
      look(ring_[now ^ 1]);
      if (!(ring_[now].n | n_waiting_) && next == end) return;
    }
  }
};

// Ask the system for the pages of begin .. end of a list.
inline void ask_for_pages(const stadium_table& t, const served_order& order, size_t begin, size_t end) {
  if (!t.in_file || begin >= end) return;
  u32 from = order.page[order.list[begin]];
  u32 to = from;
  const auto ask = [&] {
    const size_t bytes = (size_t(to - from) + 1) << page_shift;
    madvise(t.slots + (size_t(from) << page_shift), bytes, MADV_WILLNEED);  // no matter if it cannot
  };
  for (size_t i = begin + 1; i < end; ++i) {
    const u32 page = order.page[order.list[i]];
    if (page + pages_between >= from && page <= to + pages_between) {
      from = page < from ? page : from;
      to = page > to ? page : to;
      continue;
    }
    ask();
    from = to = page;
  }
  ask();
}

// Elements first .. first + many - 1 of the batch. False: nothing was done.
template <class S, u32 Kind>
bool serve_in_order(const stadium_table& t, const request& q, size_t first, u32 many, totals* sum) {
  const page_lists lists(t, many);
  if (!lists) return false;
  served_order order{first, lists.list(), lists.page()};
  for (u32 round = 0;; ++round) {
    lists.clear();
    in_pieces(q.threads, many, batch_cut,
              [&](size_t begin, size_t end) { stadium_placer<S>(t, q, first, round != 0, lists).place(begin, end); });
    const u32 listed = lists.start();
    in_pieces(q.threads, many, batch_cut, [&](size_t begin, size_t end) { lists.enlist(begin, end); });
    order.puts_off = Kind != find && round + 1 < most_rounds && listed > asked_ahead;
    u64 put_off = 0;
    in_pieces(q.threads, listed, order_cut, [&](size_t begin, size_t end) {
      const auto upto = [&](size_t i) { return i < end ? i : end; };
      ask_for_pages(t, order, begin, upto(begin + asked_ahead));
      for (size_t at = begin; at < end; at += asked_ahead) {
        const size_t next = upto(at + asked_ahead);
        ask_for_pages(t, order, next, upto(next + asked_ahead));
        const u64 left = serve_part<S, Kind>(t, q, order, at, next, sum);
        __atomic_fetch_add(&put_off, left, __ATOMIC_RELAXED);
      }
    });
    if (!put_off) return true;
  }
}

// Is each of some pages, taken anywhere, in memory? Then order would gain nothing.
inline bool seems_in_memory(const stadium_table& t) {
  constexpr u32 looked_at = tunable("pages_looked_at", 64u);
  const u64 pages = ((t.groups << t.log_tickets) * t.stride >> page_shift) + 1;
  for (u32 i = 0; i < looked_at; ++i) {
    unsigned char there = 0;
    const u64 page = reduce(mix(t.seed + i), pages);
    if (mincore(t.slots + (page << page_shift), 1, &there) || !(there & 1)) return false;
  }
  return true;
}

// ---- batches ---------------------------------------------------------------------------------------------------------

template <class S, u32 Kind>
int run_pieces(const stadium_table& t, const request& q, totals* sum) {
  const size_t n = q.n_there ? *q.n_there : q.n;
  size_t done = 0;
  if (t.ordered_from && n >= t.ordered_from && !(t.order_if_away && seems_in_memory(t)))
    for (; done < n; done += order_chunk) {
      const u32 many = n - done < order_chunk ? u32(n - done) : order_chunk;
      if (!serve_in_order<S, Kind>(t, q, done, many, sum)) break;
    }
  if (done >= n) return 0;
  if constexpr (Kind != find && !S::wide) {
    bool always = false;
    bool may_be_few = true;
    if (!done && may_combine(q, q.kind, n, &always)) {
      const auto serve = [&](const request& r, size_t begin, size_t end) {
        totals part{};
        serve_part<S, Kind>(t, r, {}, begin, end, &part);
        return part;
      };
      in_pieces(q.threads, n, combined_cut, [&](size_t begin, size_t end) {
        add_totals(sum, serve_combined<sizeof(typename S::key), S::value_size>(q, q.kind, always, &may_be_few, begin,
                                                                               end, part_server(serve)));
      });
      return 0;
    }
  }
  in_pieces(q.threads, n - done, batch_cut,
            [&](size_t begin, size_t end) { serve_part<S, Kind>(t, q, {}, done + begin, done + end, sum); });
  return 0;
}

template <class S>
int run_batch(const void* table, const request& q, totals* sum) {
  const auto& t = *static_cast<const stadium_table*>(table);
  if (!in_kinds(q.kind, writing_batches)) return run_pieces<S, find>(t, q, sum);
  if (q.kind == insert) return run_pieces<S, insert>(t, q, sum);
  return run_pieces<S, mixed>(t, q, sum);
}

// Live slots on their way out of a table, whose pairs have any width.
class leaving_slots {
  static constexpr u32 most = tunable("leaving_slots", 64u);
  static_assert(most >= 32, "a group's tickets come at once");
  const stadium_table& t_;
  const collecting& to_;
  u32 n_ = 0;
  const unsigned char* slot_[most];

 public:
  leaving_slots(const stadium_table& t, const collecting& to) : t_(t), to_(to) {}
  void need_room(u32 n) {
    if (n_ + n > most) leave();
  }
  void add(const unsigned char* slot, bool is_one) {
    slot_[n_] = slot;
    n_ += is_one;
  }
  void leave() {
    u64 at = __atomic_fetch_add(to_.count, n_, __ATOMIC_RELAXED);
    for (u32 i = 0; i < n_ && at < to_.room; ++i, ++at) {
      if (to_.keys) __builtin_memcpy(static_cast<char*>(to_.keys) + at * t_.key_bytes, slot_[i], t_.key_bytes);
      if (to_.values)
        __builtin_memcpy(static_cast<char*>(to_.values) + at * t_.value_bytes, slot_[i] + t_.value_at, t_.value_bytes);
    }
    n_ = 0;
  }
};
template <class Key, u32 ValueBytes>
class leaving_small_slots {
  using value = std::conditional_t<ValueBytes == 8, u64, u32>;
  leaving_pairs<Key, value> out_;

 public:
  leaving_small_slots(const stadium_table&, const collecting& to) : out_(to) {}
  void need_room(u32 n) { out_.need_room(n); }
  // What lies in a slot that is not live may be anything.
  void add(const unsigned char* slot, bool is_one) {
    value v{};
    if constexpr (ValueBytes) __builtin_memcpy(&v, slot + shape_of(sizeof(Key), ValueBytes).value_at, sizeof(v));
    out_.add(*reinterpret_cast<const Key*>(slot), v, is_one);
  }
  void leave() { out_.leave(); }
};
template <class S>
struct leaving {
  using type = leaving_slots;
};
template <class Key, u32 ValueBytes>
struct leaving<small_pair<Key, ValueBytes>> {
  using type = leaving_small_slots<Key, ValueBytes>;
};

// The live slots of cells lo..hi of an order. Runs with no writer about.
template <class S>
int collect_slots(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
  constexpr cut cells_cut = tunable_cut({4096, 1024, 16384, 64});
  const auto& t = *static_cast<const stadium_table*>(table);
  const u32 tickets = 1u << t.log_tickets;
  in_pieces(to.threads, hi - lo, cells_cut, [&](size_t begin, size_t end) {
    typename leaving<S>::type out(t, to);
    each_run(order, lo + begin, lo + end, [&](u64 first, u64 many, u64 soon, u64 later) {
      if (order.stride && !t.in_file) {
        host_mem::prefetch<false>(t.tickets + (later >> t.log_tickets));
        const unsigned char* const slots = t.slots + soon * t.stride;
        for (u32 b = 0; b < tickets * t.stride; b += 64) host_mem::prefetch<false>(slots + b);
      }
      for (u64 c = first; c < first + many;) {
        const u64 group = c >> t.log_tickets;
        u32 i = u32(c - (group << t.log_tickets));
        const u32 upto = first + many - c < tickets - i ? i + u32(first + many - c) : tickets;
        c += upto - i;
        const u64 word = t.tickets[group];
        const u64 is_live = word & word >> 1 & t.ones;
        if (!is_live) continue;  // in a file these are pages that nothing was written to
        const unsigned char* slot = t.slot(group, i);
        out.need_room(upto - i);
        for (; i < upto; ++i, slot += t.stride) out.add(slot, is_live >> t.shift_of(i) & 1);
      }
    });
    out.leave();
  });
  return 0;
}

// Put every live pair of `from` into the empty table `to`, straight from slot to slot.
template <class S>
bool move_slots(const void* from_table, const void* to_table, totals* sum, uint32_t threads) {
  const auto& from = *static_cast<const stadium_table*>(from_table);
  const auto& to = *static_cast<const stadium_table*>(to_table);
  constexpr cut groups_cut = tunable_cut({512, 256, 4096});
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
  return {run_batch<S>, collect_slots<S>, nullptr, nullptr, move_slots<S>};
}

GH_END
