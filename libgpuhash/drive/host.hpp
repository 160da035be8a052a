// The CPU driver: which thread serves which element of a batch, and in which order memory is read.
//
// A team of threads takes chunks of the batch. A thread goes straight through its chunk, block by block: while it visits
// the home lines of one block, the processor fetches those of a later one. An operation that needs another line asks for
// that one and joins a list of waiting operations, which are visited in rounds when the list is full, so that a long
// probe never stalls the others (asynchronous memory access chaining; Kocberber et al., VLDB 2015).
//
// What bounds it is no longer the latency of memory, but how many instructions lie between two requests for lines: one
// whose page is not in the TLB keeps all that follow it from retiring, so shorter code has more requests under way, and a
// mispredicted branch loses those that were issued after it. Hence homes hashed in vectors, a block at a time; passes
// over a block with all they need in registers; and reads without a branch on whether they are done.
//
//   R1  An element of the caller's arrays is read once. What is needed again is kept: the caller may write to the arrays
//       meanwhile, and a key that is not the one whose home was looked up would corrupt the table.
#pragma once
#include "libgpuhash/drive/combine.hpp"
#include "libgpuhash/drive/contract.hpp"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/kit/parts.hpp"
#include "libgpuhash/kit/side.hpp"
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"

GH_BEGIN

inline constexpr u32 block_size = tunable("block_size", 64u);  // elements per block: one bit of a word for each
inline constexpr u32 blocks_ahead =
    tunable("blocks_ahead", 2u);                     // blocks between the request for a home line and its visit
inline constexpr u32 waiting_room = 2 * block_size;  // operations that wait for a second or later line
inline constexpr u32 blocks_joined = tunable("blocks_joined", 64u);  // after a compare-and-swap was lost
inline constexpr size_t combined_least =
    tunable("combined_least", 2048u);  // elements of a batch; a smaller one is not looked at
inline constexpr cut batch_cut =
    tunable_cut({lone_batch, 4096, 16384, block_size});  // elements that a thread takes at a time
inline constexpr cut combined_cut = tunable_cut({lone_batch, 4096, 131072, block_size});
// A batch that its table serves as the only one is not served by several threads (kit/batches.hpp).
static_assert(batch_cut.alone >= lone_batch && combined_cut.alone >= lone_batch);
inline constexpr cut collect_cut = tunable_cut({4096, 1024, 16384, block_size});  // cells

// An operation that has to visit another line, and whose it is.
template <class Op>
struct waiting_op {
  Op op;
  size_t element;
};

// Batches of several kinds through one driver, to which the table says the kind. Where each kind's own driver would win
// little, it is not worth the time that it takes to compile.
template <class Table>
struct table_of_kind : Table {
  u32 kind;
};
template <class Mixed>
struct op_of_kind : Mixed {
  using table = table_of_kind<typename Mixed::table>;
};

// A table that is small enough to be copied; or else the table itself.
template <class Table>
using own_copy = std::conditional_t<sizeof(Table) <= 128, const Table, const Table&>;

// What a pass over a block keeps in registers: copies, since the compiler has to assume that writing a result changes
// whatever lies in memory.
template <class Op>
struct host_pass {
  using F = typename Op::F;
  using table = typename Op::table;
  using key = typename F::key;
  using index = typename Op::index;
  using tile_type = typename Op::tile_type;
  using waiting = waiting_op<Op>;
  static constexpr u32 kind = Op::fixed_kind;
  static constexpr bool reads = !in_kinds(kind, writing_batches);
  static constexpr bool takes_values = in_kinds(kind, operand_kinds);

  own_copy<table> t;
  const request q;
  totals sum{};
  u32 lost = 0;  // compare-and-swaps
  tile_type tile = tile_for(q);

  GH_FN static tile_type tile_for(const request& q) {
    tile_type made{};
    if constexpr (requires { made.alone; }) made.alone = q.alone;
    return made;
  }
  GH_FN static void prefetch(const void* line) {
    constexpr u32 line_bytes = Op::R * sizeof(typename F::word);
    for (u32 b = 0; b < line_bytes; b += 64) host_mem::prefetch<!reads>(static_cast<const char*>(line) + b);
  }

  template <class T>
  GH_FN static T read_once(T v) {
    return host_read_once(v);
  }

  // What element i answers, or seems to if the operation is not done: then it is overwritten later.
  GH_FN void deposit(size_t i, const result<F>& r, bool done = true) {
    if (q.status) q.status[i] = u8(r.status);
    if (q.out_values) {
      if constexpr (kind == count)
        static_cast<u64*>(q.out_values)[i] = r.value;  // 8 bytes whatever the table's values are
      else
        write_element<typename F::value>(q.out_values, q.value_bytes, i, r.value);
    }
    sum.live += r.live, sum.used += r.used;
    sum.yes += done & (r.status == yes), sum.failed += done & (r.status > yes);
  }

  // Start the operation of element i, or serve it at once, and return false, if its key lives in a side slot.
  GH_FN bool start(Op& op, size_t i, key k, index home) {
    typename F::value v = 0;
    if constexpr (takes_values) v = read_once(read_value<F>(q, i));
    return start(op, i, k, home, v, joiner_of(q));
  }
  GH_FN bool start(Op& op, size_t i, key k, index home, typename F::value v, joiner how) {
    u32 kd = kind;
    if constexpr (requires { t.kind; }) kd = t.kind;
    if (kd == mixed) kd = read_once(read_op(q, i));
    if constexpr (table::side_slots)
      if (__builtin_expect(is_side_key(k), 0)) {
        deposit(i, serve_side<F, host_mem>(t.side, kd, how, k, v));
        return false;
      }
    op.start(t, kd, k, v, home);
    return true;
  }

  // Visit the line of an operation. True if that finished it.
  GH_FN bool visit(Op& op) { return visit(op, joiner_of(q)); }
  GH_FN bool visit(Op& op, joiner how) {
    for (;; ++lost) {
      verdict d = op.step(tile, t, how, tile.load(op.line(t)), true);
      if (Op::has_slow && __builtin_expect(d == verdict::slow, 0)) d = op.slow(tile, t, how, true);
      if (d != verdict::again) return d == verdict::done;
    }
  }

  // Visit the line of an operation, and put it on the list if it needs another one.
  GH_FN void serve(Op& op, size_t i, waiting* list, u32& n) {
    if (visit(op)) return deposit(i, op.res);
    prefetch(op.line(t));
    list[n++] = {op, i};
  }

  // Visit the line of a read. True if that finished it; if not, it is as if nothing had happened.
  GH_FN bool look(Op op, size_t i) {
    bool done = visit(op);
    deposit(i, op.res, done);
    asm("" : "+r"(done));  // hides where it comes from: nothing that follows is worth a branch
    return done;
  }

  // Serve up to block_size operations: first(j, op) sets number j up, and may find that there is nothing to do;
  // element(j) is whose it is. Reads are looked at first, all of them without a branch on whether they are done, and
  // those that are not are visited again while their line is in the cache.
  template <class First, class Element>
  GH_FN void serve_all(u32 many, First first, Element element, waiting* list, u32& n) {
    Op op;
    if constexpr (!reads || requires { Op::many_rows; }) {
      for (u32 j = 0; j < many; ++j)
        if (first(j, op)) serve(op, element(j), list, n);
    } else {
      u64 open = 0;  // the highest of `many` bits is number 0
      for (u32 j = 0; j < many; ++j) {
        open *= 2;
        if (first(j, op)) open += !look(op, element(j));
      }
      while (open) {
        const u32 bit = 63 - u32(__builtin_clzll(open)), j = many - 1 - bit;
        open ^= u64(1) << bit;
        if (first(j, op)) serve(op, element(j), list, n);
      }
    }
  }
};

// The keys of a block's elements, their homes, and the lines of those.
template <class Table>
struct home_block {
  typename Table::format::key key[block_size];
  typename Table::index home[block_size];
  const void* line[block_size];
};

// Fill a block for elements b .. b + many - 1. Every kind of operation starts at the same line: one of them does for all.
template <class Find>
[[gnu::noinline]] void look_up(const typename Find::table& t, const request& q, home_block<typename Find::table>& to,
                               size_t b, u32 many) {
  const host_pass<Find> p{t, q};
  for (u32 j = 0; j < many; ++j) to.key[j] = read_key<typename Find::F>(p.q, b + j);
  asm volatile("" : : "r"(to.key) : "memory");  // from here on the caller's array is not read again
  for (u32 j = 0; j < many; ++j) {
    auto k = to.key[j];
    if constexpr (requires { p.t.encode(k); }) k = to.key[j] = p.t.encode(k);  // an ordered table's own order
    const auto home = p.t.home(k);
    Find op;
    op.start(p.t, find, 0, 0, home);
    to.home[j] = home;
    to.line[j] = op.line(p.t);
  }
  for (u32 j = many; j < block_size; ++j) to.line[j] = to.line[0];
}

template <class Op, class Find>
class alignas(64) host_driver {
  using pass = host_pass<Op>;
  using F = typename Op::F;
  using table = typename Op::table;
  using block = home_block<typename Find::table>;
  using waiting = waiting_op<Op>;

  // Copies: the originals may share a cache line with what another thread writes all the time.
  own_copy<table> t_;
  const request q_;
  totals sum_{};
  u32 n_ = 0;                                           // operations that wait
  u32 join_ = host_team.join == host_services::blocks;  // accumulate: blocks to join before the next try without
  waiting list_[waiting_room];
  block ring_[blocks_ahead + 1];

  static constexpr bool kind_of_table = requires(const table& t) { t.kind; };
  static constexpr bool may_join = Op::fixed_kind == accumulate || (kind_of_table && Op::fixed_kind == mixed);
  bool joins() const {
    if constexpr (kind_of_table)
      return t_.kind == accumulate;
    else
      return true;
  }

  static u32 size_at(size_t b, size_t end) { return u32(end - b < block_size ? end - b : block_size); }

  void finish(const pass& p, u32 n) {
    sum_.live += p.sum.live, sum_.used += p.sum.used, sum_.yes += p.sum.yes, sum_.failed += p.sum.failed;
    n_ = n;
    if (host_team.join == host_services::as_needed) join_ = p.lost ? blocks_joined : join_ ? join_ - 1 : 0;
  }

  // Visit the home lines of a block and ask for those of another one.
  [[gnu::noinline]] void serve_block(size_t b, u32 many, const block& now, const block& later) {
    if constexpr (may_join)
      if (join_ && joins()) return serve_joined(b, many, now, later);
    pass p{t_, q_};
    u32 n = n_;
    p.serve_all(
        many,
        [&](u32 j, Op& op) __attribute__((always_inline)) {
          p.prefetch(later.line[j]);
          return p.start(op, b + j, now.key[j], now.home[j]);
        },
        [&](u32 j) __attribute__((always_inline)) { return b + j; }, list_, n);
    finish(p, n);
  }

  // accumulate, where swaps are lost: equal keys of a block reach the table together, or a frequent key's line would go
  // back and forth between the cores all the time. An element that follows another one takes effect right after it, or
  // after others that follow it. Of the elements whose homes share an entry of `latest`, only the last one is found.
  [[gnu::noinline]] void serve_joined(size_t b, u32 many, const block& now, const block& later) {
    pass p{t_, q_};
    u32 n = n_;
    typename F::value values[block_size];
    u8 leader[block_size], tail[block_size], next[block_size] = {}, status[block_size], latest[2 * block_size] = {};
    u64 leads = 0;  // bit j: others follow number j
    for (u32 j = 0; j < many; ++j) {
      values[j] = pass::read_once(read_value<F>(p.q, b + j));
      u8& last = latest[now.home[j] % (2 * block_size)];
      bool follows = (last < j) & (now.key[last] == now.key[j]);  // 0 if there is none: number 0 might as well be it
      asm("" : "+r"(follows));                                    // not worth a branch
      const u32 lead = follows ? last : j;
      tail[j] = u8(j);
      next[tail[lead]] = u8(follows ? j : 0);
      tail[lead] = u8(j);
      leader[j] = last = u8(lead);
      leads |= u64(follows) << lead;
    }
    for (u32 j = 0; j < many; ++j) {
      p.prefetch(later.line[j]);
      if (leader[j] != j) continue;
      Op op;
      if (!(leads >> j & 1)) {
        if (p.start(op, b + j, now.key[j], now.home[j], values[j], joiner_of(p.q))) p.serve(op, b + j, list_, n);
        continue;
      }
      const operands<typename F::value> rest{values, next, next[j]};
      joiner how = joiner_of(p.q);
      how.others = &rest;
      status[j] = no;  // a side slot has always room
      if (!p.start(op, b + j, now.key[j], now.home[j], values[j], how)) continue;
      while (!p.visit(op, how)) {
      }
      p.deposit(b + j, op.res);
      status[j] = u8(op.res.status);
    }
    if (leads)
      for (u32 j = 0; j < many; ++j)  // a leader's failure is that of its followers
        if (leader[j] != j) p.deposit(b + j, {status[leader[j]] > yes ? status[leader[j]] : u32(no), 0, 0, 0});
    finish(p, n);
  }

  // A retry: the elements of a block that failed before, few as a rule, go straight to the list.
  [[gnu::noinline]] void retry_block(size_t b, u32 many, const block& now) {
    pass p{t_, q_};
    u32 n = n_;
    for (u32 j = 0; j < many; ++j) {
      Op op;
      if (!has_work(q_, b + j) || !p.start(op, b + j, now.key[j], now.home[j])) continue;
      p.prefetch(op.line(p.t));
      list_[n++] = {op, b + j};
    }
    finish(p, n);
  }

  // One round: every waiting operation is visited once.
  [[gnu::noinline]] void round() {
    pass p{t_, q_};
    u32 kept = 0;
    for (u32 r = 0; r < n_; r += block_size) {
      const waiting* const from = list_ + r;
      p.serve_all(
          n_ - r < block_size ? n_ - r : block_size,
          [&](u32 j, Op& op) __attribute__((always_inline)) {
            op = from[j].op;
            return true;
          },
          [&](u32 j) __attribute__((always_inline)) { return from[j].element; }, list_, kept);
    }
    finish(p, kept);
  }

 public:
  host_driver(const table& t, const request& q) : t_(t), q_(q) {}

  const totals& serve(size_t begin, size_t end) {
    u32 now = 0, later = 0;  // in the ring
    for (size_t b = begin; b < end && later < blocks_ahead; b += block_size, ++later) {
      look_up<Find>(t_, q_, ring_[later], b, size_at(b, end));
      for (u32 j = 0; j < size_at(b, end); ++j) pass::prefetch(ring_[later].line[j]);
    }
    const auto after = [](u32 i) { return i == blocks_ahead ? 0 : i + 1; };
    for (size_t b = begin; b < end || n_;) {
      if (b >= end || n_ > waiting_room - block_size) {
        round();
        continue;
      }
      const size_t far = b + blocks_ahead * block_size;
      if (far < end) look_up<Find>(t_, q_, ring_[later], far, size_at(far, end));
      if (q_.only_failed)
        retry_block(b, size_at(b, end), ring_[now]);
      else
        serve_block(b, size_at(b, end), ring_[now], ring_[far < end ? later : now]);
      b += block_size, now = after(now), later = after(later);
    }
    return sum_;
  }
};

// Kinds that host_engines may have share the driver of mixed batches.
inline constexpr u32 kinds_of_one_driver = (mixable_kinds & writing_kinds) | 1u << mixed;

// One function for all who call it: it is long.
template <class Op, class Find>
[[gnu::noinline]] totals serve_range(const typename Op::table& t, const request& q, size_t begin, size_t end) {
  host_driver<Op, Find> driver(t, q);
  return driver.serve(begin, end);
}

// Are equal keys of this batch looked for? *always: all of it goes through caches.
inline bool may_combine(const request& q, u32 kind, size_t n, bool* always) {
  const bool never = host_team.join == host_services::never || host_team.join == host_services::blocks ||
                     q.parts == parts_never || q.only_failed || !in_kinds(kind, combining_kinds);
  *always = host_team.join == host_services::always || q.parts == parts_always;
  return !never && (n >= combined_least || *always);
}

template <class Op, class Find>
int run_on_host(const void* table, const request& q, totals* sum) {
  const size_t n = q.n_there ? *q.n_there : q.n;
  const auto& t = *static_cast<const typename Op::table*>(table);
  constexpr bool kind_of_table = requires { t.kind; };
  if constexpr (in_kinds(Op::fixed_kind, combining_kinds) || kind_of_table) {
    using F = typename Op::F;
    u32 kind = Op::fixed_kind;
    if constexpr (kind_of_table) kind = t.kind;
    bool always = false;
    bool may_be_few = true;
    if (may_combine(q, kind, n, &always)) {
      in_pieces(q.threads, n, combined_cut, [&](size_t begin, size_t end) {
        const auto serve = [&](const request& r, size_t b, size_t e) { return serve_range<Op, Find>(t, r, b, e); };
        add_totals(sum, serve_combined<sizeof(typename F::key), F::has_value ? sizeof(typename F::value) : 0>(
                            q, kind, always, &may_be_few, begin, end, part_server(serve)));
      });
      return 0;
    }
  }
  in_pieces(q.threads, n, batch_cut,
            [&](size_t begin, size_t end) { add_totals(sum, serve_range<Op, Find>(t, q, begin, end)); });
  return 0;
}

// A mixed batch: elements are sorted by kind, a chunk at a time, so that each kind is served by its own driver, without a
// branch for each element that no processor can predict. An element takes effect at some point during the call, as always.
inline constexpr size_t sorted_least =
    tunable("sorted_least", 256u);  // elements of a batch; a smaller one is served as it comes

template <class F>
class chunk_by_kind {
  using key = typename F::key;
  using value = typename F::value;

 public:
  static constexpr u32 most = tunable("chunk_by_kind", 16384u);
  static constexpr u32 kinds = erase + 1;

  void read(const request& given, size_t begin, u32 n) {
    const request q = given;  // the compiler knows that no other code writes to it
    for (u32 j = 0; j < n; ++j) kind_of_[j] = u8(read_op(q, begin + j));
    asm volatile("" : : "r"(this) : "memory");  // R1
    // Where the next element of a kind goes is known when the last one has gone there: so several rows of elements go at
    // a time, of which none waits for another.
    const u32 row = n / rows;
    const auto end_of = [&](u32 r) { return r + 1 == rows ? n : (r + 1) * row; };
    u32 next[rows][kinds];
    u32 i = 0;
    for (u32 kind = 0; kind < kinds; ++kind) {
      first_[kind] = i;
      for (u32 r = 0; r < rows; ++r) {
        u32 here = 0;
        for (u32 j = r * row; j < end_of(r); ++j) here += kind_of_[j] == kind;
        next[r][kind] = i;
        i += here;
      }
    }
    first_[kinds] = n;
    const auto put = [&](u32 j, u32* of) __attribute__((always_inline)) {
      const u32 at = of[kind_of_[j]]++;
      place_[j] = uint16_t(at);
      key_[at] = read_key<F>(q, begin + j);
      if (F::has_value && q.values) write_element<value>(value_, q.value_bytes, at, read_value<F>(q, begin + j));
    };
    for (u32 j = 0; j < row; ++j)
      for (u32 r = 0; r < rows; ++r) put(r * row + j, next[r]);
    for (u32 j = rows * row; j < n; ++j) put(j, next[rows - 1]);
  }
  // The elements of a kind as a batch; n is 0 if there are none.
  request batch(const request& q, u32 kind) {
    const u32 i = first_[kind];
    request r = q;
    r.kind = kind;
    r.n = first_[kind + 1] - i;
    r.n_there = nullptr;
    r.ops = nullptr;
    r.keys = key_ + i;
    r.key_bytes = sizeof(key);
    r.values = q.values && in_kinds(kind, operand_kinds) ? value_ + size_t(i) * q.value_bytes : nullptr;
    r.out_values = q.out_values && kind == find ? found_ + size_t(i) * q.value_bytes : nullptr;
    r.status = status_ + i;
    r.threads = 1;
    return r;
  }
  void answer(const request& given, size_t begin, u32 n) {
    const request q = given;
    if (q.status) {
      __builtin_memset(status_, no, first_[nop + 1]);  // no driver serves those
      for (u32 j = 0; j < n; ++j) q.status[begin + j] = status_[place_[j]];
    }
    if (!q.out_values) return;
    const auto nothing = [&](u32 i, u32 end) {
      __builtin_memset(found_ + size_t(i) * q.value_bytes, 0, size_t(end - i) * q.value_bytes);
    };
    nothing(0, first_[find]);
    nothing(first_[find + 1], n);
    for (u32 j = 0; j < n; ++j)
      write_element<value>(q.out_values, q.value_bytes, begin + j,
                           read_element<value>(found_, q.value_bytes, place_[j]));
  }

 private:
  static constexpr u32 rows = 4;
  u32 first_[kinds + 1];  // element of each kind
  key key_[most];         // in the order of kinds, as what follows
  alignas(8) u8 value_[most * sizeof(value)];
  alignas(8) u8 found_[most * sizeof(value)];
  u8 status_[most];
  uint16_t place_[most];  // of each element, in that order
  u8 kind_of_[most];
};

// Elements begin .. end - 1 of a mixed batch. Without memory for the chunk they are served as they come.
template <class F>
totals serve_by_kind(const void* table, const request& q, size_t begin, size_t end,
                     int (*run)(const void* table, const request& q, totals* sum)) {
  totals sum{};
  // Kept by the thread: new pages for each piece took a fifth of the time.
  static thread_local std::unique_ptr<chunk_by_kind<F>> chunk;
  if (!chunk) chunk.reset(new (std::nothrow) chunk_by_kind<F>);
  if (!chunk) {
    request some = part_of(q, begin, end - begin);
    some.n_there = nullptr;
    some.parts = parts_never;
    some.threads = 1;
    run(table, some, &sum);
    return sum;
  }
  for (size_t b = begin; b < end; b += chunk->most) {
    const u32 many = u32(end - b < chunk->most ? end - b : chunk->most);
    chunk->read(q, b, many);
    for (u32 i = nop + 1; i < chunk->kinds; ++i) {  // erase comes first: it may make the room that others look for
      const request some = chunk->batch(q, i == nop + 1 ? u32(erase) : i - 1);
      if (some.n) run(table, some, &sum);
    }
    chunk->answer(q, b, many);
  }
  return sum;
}

template <class F>
int run_by_kind(const void* table, const request& q, totals* sum,
                int (*run)(const void* table, const request& q, totals* sum)) {
  in_pieces(q.threads, q.n_there ? *q.n_there : q.n, combined_cut, [&](size_t begin, size_t end) {
    add_totals(sum, serve_by_kind<F>(table, q, begin, end, run));  // others add to *sum, too
  });
  return 0;
}

// Live pairs on their way out of a table: a thread's own, until they are enough to be worth room among those of others.
template <class Key, class Value>
class leaving_pairs {
  static constexpr u32 most = tunable("leaving_pairs", 512u);
  static_assert(most >= 64, "slots that lie together come at once: 63 of a slab");
  void* const keys_;
  void* const values_;
  const u32 key_bytes_, value_bytes_;
  uint64_t* const count_;
  const u64 room_;
  u32 n_ = 0;
  Key key_[most];
  Value value_[most];

  template <class T>
  static void copy(void* to, u32 bytes, u64 at, const T* from, u32 n) {
    if (bytes == sizeof(T)) {
      __builtin_memcpy(static_cast<T*>(to) + at, from, n * sizeof(T));
      return;
    }
    for (u32 i = 0; i < n; ++i) write_element<T>(to, bytes, at + i, from[i]);
  }

 public:
  leaving_pairs(const collecting& to)
      : keys_(to.keys),
        values_(to.values),
        key_bytes_(to.key_bytes),
        value_bytes_(to.value_bytes),
        count_(to.count),
        room_(to.room) {}
  GH_FN void need_room(u32 n) {
    if (__builtin_expect(n_ + n > most, 0)) leave();
  }
  // Without a branch on whether it is one: half of the slots of a table are empty, and no processor can tell which.
  GH_FN void add(Key k, Value v, bool is_one = true) {
    key_[n_] = k;
    value_[n_] = v;
    n_ += is_one;
  }
  [[gnu::noinline]] void leave() {
    if (n_ == 0) return;
    const u64 at = __atomic_fetch_add(count_, n_, __ATOMIC_RELAXED);
    const u32 n = at >= room_ ? 0 : n_ < room_ - at ? n_ : u32(room_ - at);
    if (keys_) copy(keys_, key_bytes_, at, key_, n);
    if (values_) copy(values_, value_bytes_, at, value_, n);
    n_ = 0;
  }
};

// Cells lo..hi of an order, as runs of cells that lie one after the other: visit(first, many, soon, later), where soon and
// later are cells that a run some runs from now begins with. Lines in an order with a stride are nothing that a processor
// foresees, so that they are asked for. Without a stride there is one run, and soon and later are its own first cell.
inline constexpr u64 lines_ahead = 16;
template <class Visit>
void each_run(const cell_order& order, u64 lo, u64 hi, Visit visit) {
  if (!order.stride) {
    if (lo < hi) visit(lo, hi - lo, lo, lo);
    return;
  }
  const u64 width = order.line_cells, stride = order.stride % order.lines;
  const auto after = [&](u64 line) {
    return line + stride >= order.lines ? line + stride - order.lines : line + stride;
  };
  u64 line = cell_at(order, lo) / width;
  u64 soon = cell_at(order, lo + lines_ahead / 2 * width) / width;
  u64 later = cell_at(order, lo + lines_ahead * width) / width;
  u64 into = lo % width;
  for (u64 i = lo, many; i < hi; i += many, into = 0, line = after(line), soon = after(soon), later = after(later)) {
    many = width - into < hi - i ? width - into : hi - i;
    visit(line * width + into, many, soon * width, later * width);
  }
}

// Live pairs of cells lo..hi of an order, appended in no order. Runs with no writer about.
//
// Of a table whose cells are slots (cells_are_slots) they begin at `slots`, or it says where some begin: slots_at(cell,
// &many), of which at most so many follow. One whose cells are chains of slots may say each_row<Mem>(cell, visit), visit(first
// slot, many), for the cells before plain_cells(), and has ask_for_rows<Mem>(soon, later).
template <class Table>
int collect_on_host(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
  using F = typename Table::format;
  const auto& t = *static_cast<const Table*>(table);
  in_pieces(to.threads, hi - lo, collect_cut, [&](size_t begin, size_t end) {
    leaving_pairs<typename F::key, typename F::value> out(to);
    const auto take = [&](const typename F::word* at, u32 many) __attribute__((always_inline)) {
      out.need_room(many);
      for (u32 s = 0; s < many; ++s) {
        const auto w = host_mem::load<::gpuhash::order::relaxed>(at + s);
        out.add(F::key_of(w), F::value_of(w), is_live<F>(w));
      }
    };
    const auto one = [&](typename F::key k, typename F::value v) {
      out.need_room(1);
      out.add(k, v);
    };
    each_run(order, lo + begin, lo + end, [&](u64 first, u64 many, u64 soon, u64 later) {
      if constexpr (requires { Table::cells_are_slots; }) {
        const auto slots_at = [&](u64 c, u64* n) {
          if constexpr (requires { t.slots_at(c, n); })
            return t.slots_at(c, n);
          else
            return t.slots + c;
        };
        constexpr u32 per_line = 64 / sizeof(typename F::word);
        u64 left = 1;
        if (order.stride) host_mem::prefetch<false>(slots_at(later, &left));
        for (u64 c = first; c < first + many;) {
          left = first + many - c;
          const auto* at = slots_at(c, &left);
          c += left;
          for (; left >= per_line; left -= per_line, at += per_line) take(at, per_line);
          take(at, u32(left));
        }
      } else if constexpr (requires { t.plain_cells(); }) {
        const u64 behind = first + many;
        for (u64 c = first; c < behind; ++c) {
          t.template ask_for_rows<host_mem>(c + lines_ahead / 2 < behind ? c + lines_ahead / 2 : soon,
                                            c + lines_ahead < behind ? c + lines_ahead : later);
          if (c < t.plain_cells())
            t.template each_row<host_mem>(c, take);
          else
            t.template each_live<host_mem>(c, one);
        }
      } else {
        for (u64 c = first; c < first + many; ++c) t.template each_live<host_mem>(c, one);
      }
    });
    out.leave();
  });
  return 0;
}

// For batches in the order of the table (kit/divided.hpp), of structures that gain by it. Table::homes(): home() is
// always less. Table::gains_by_order(): see homes_engine.
template <class Table>
struct host_homes {
  static uint64_t count(const void* table) { return static_cast<const Table*>(table)->homes(); }
  static bool gains(const void* table) { return static_cast<const Table*>(table)->gains_by_order(); }
  static void parts_of(const void* table, const request& given, size_t begin, uint32_t n, uint32_t shift,
                       uint16_t* parts) {
    const request q = given;  // the compiler knows that no other code writes to them
    own_copy<Table> t = *static_cast<const Table*>(table);
    typename Table::key keys[block_size];
    typename Table::index homes[block_size];
    for (u32 i = 0; i < n; i += block_size) {
      const u32 many = n - i < block_size ? n - i : block_size;
      for (u32 j = 0; j < many; ++j) keys[j] = read_key<typename Table::format>(q, begin + i + j);
      asm volatile("" : : "r"(keys) : "memory");  // R1
      for (u32 j = 0; j < many; ++j) homes[j] = t.home(keys[j]);
      uint16_t* const to = parts + i;
      for (u32 j = 0; j < many; ++j) to[j] = uint16_t(homes[j] >> shift);
    }
  }
  static constexpr homes_engine all = {count, gains, parts_of};
  // An engine whose batches may go this way.
  static constexpr engine added_to(engine e) {
    e.homes = &all;
    return e;
  }
};

// The engines of a structure: Op<Tile, Kind> over Table<F>, one per slot format. A visit reads Bytes of the table: one
// cache line, unless that is too narrow a view of it. Shared: kinds that go through the driver of mixed batches, though they
// may have their own.
template <template <class> class Table, template <class, u32> class Op, u32 Bytes = 64, u32 Shared = 0>
struct host_engines {
  template <class F>
  static int run(const void* t, const request& q, totals* sum) {
    if constexpr (has_structure_members<Table<F>, Op<host_tile<F, Bytes / sizeof(typename F::word)>, find>>())
      return run_kinds<F>(t, q, sum);
    return -1;
  }
  template <class F>
  static int run_kinds(const void* t, const request& q, totals* sum) {
    using tile = host_tile<F, Bytes / sizeof(typename F::word)>;
    if (q.kind == mixed && q.n >= sorted_least && !q.only_failed && q.parts != parts_never)
      return run_by_kind<F>(t, q, sum, run<F>);
    return for_kind<F, Table<F>::kinds>(q.kind, -1, [&]<u32 Kind>() { return one<tile, Kind>(t, q, sum); });
  }
  // Kind is the kernel's. The kernel of mixed batches gets the kind of the batch as data.
  template <class Tile, u32 Kind>
  static int one(const void* t, const request& q, totals* sum) {
    using table = Table<typename Tile::format>;
    if constexpr (in_kinds(Kind, Shared | 1u << mixed)) {
      const table_of_kind<table> with{*static_cast<const table*>(t), Kind == mixed ? q.kind : Kind};
      return run_on_host<op_of_kind<Op<Tile, mixed>>, Op<Tile, find>>(&with, q, sum);
    } else {
      return run_on_host<Op<Tile, Kind>, Op<Tile, find>>(t, q, sum);
    }
  }
  static const engine* all() {
    static constexpr engine table[format_count] = {
        {run<set32>, collect_on_host<Table<set32>>},
        {run<pair32>, collect_on_host<Table<pair32>>},
        {run<set64>, collect_on_host<Table<set64>>},
        {run<pair64>, collect_on_host<Table<pair64>>},
    };
    return table;
  }
};

GH_END
