// stadium on the CPU: large batches in the order of pages.
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
#pragma once
#include <stdlib.h>
#include <sys/mman.h>

#include "blocks_host.hpp"

GH_BEGIN

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

GH_END
