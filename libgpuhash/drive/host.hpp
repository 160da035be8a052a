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
#include "libgpuhash/drive/export_host.hpp"
#include "libgpuhash/drive/host_sizes.hpp"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/drive/mixed_batch.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/kit/parts.hpp"
#include "libgpuhash/kit/side.hpp"
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"

GH_BEGIN

// An operation that has to visit another line, and the element that it serves.
template <class Op>
struct waiting_op {
  Op op;
  size_t element;
};

// Batches of several kinds through one driver, to which the table says the kind. A driver for each kind would gain
// little, and takes long to compile.
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
  template <bool ToWrite = !reads>
  GH_FN static void prefetch(const void* line) {
    constexpr u32 line_bytes = Op::R * sizeof(typename F::word);
    for (u32 b = 0; b < line_bytes; b += 64) host_mem::prefetch<ToWrite>(static_cast<const char*>(line) + b);
  }
  // Lines that all operations read and few write stay in the caches of all threads: who asks for one as if to write takes it
  // away from the others.
  GH_FN static bool asks_to_write(const Op& op) {
    if constexpr (requires { op.may_write_here(); }) return !reads && op.may_write_here();
    return !reads;
  }
  GH_FN void prefetch_next(const Op& op) const {
    asks_to_write(op) ? prefetch<true>(op.line(t)) : prefetch<false>(op.line(t));
  }

  template <class T>
  GH_FN static T read_once(T v) {
    return host_read_once(v);
  }

  // The answer of element i, or a preliminary one if the operation is not done: it is overwritten later.
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
    prefetch_next(op);
    list[n++] = {op, i};
  }

  // Visits the line of a read. True if that finished it; otherwise the operation is unchanged.
  GH_FN bool look(Op op, size_t i) {
    bool done = visit(op);
    deposit(i, op.res, done);
    asm("" : "+r"(done));  // hides where it comes from: nothing that follows is worth a branch
    return done;
  }

  // Serves up to block_size operations: first(j, op) sets number j up, and returns false if there is nothing to do;
  // element(j) is the element of number j. Reads are looked at first, all of them without a branch on whether they are
  // done; reads that are not done are visited again while their line is in the cache.
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
  asm volatile("" : : "r"(to.key) : "memory");        // from here on the caller's array is not read again
  if constexpr (requires { p.t.encode(to.key[0]); })  // an ordered table's own order
    for (u32 j = 0; j < many; ++j) to.key[j] = p.t.encode(to.key[j]);
  if constexpr (requires { Find::find_homes(p.t, to.key, to.home, to.line, many); }) {
    Find::find_homes(p.t, to.key, to.home, to.line, many);
  } else {
    for (u32 j = 0; j < many; ++j) {
      const auto home = p.t.home(to.key[j]);
      Find op;
      op.start(p.t, find, 0, 0, home);
      to.home[j] = home;
      to.line[j] = op.line(p.t);
    }
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
  union {
    waiting list_[waiting_room];  // unset: a call with one key would take longer to set them than to be served
  };
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
      p.prefetch_next(op);
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

// One function for all callers: it is long.
template <class Op, class Find>
[[gnu::noinline]] totals serve_range(const typename Op::table& t, const request& q, size_t begin, size_t end) {
  host_driver<Op, Find> driver(t, q);
  return driver.serve(begin, end);
}

// Are equal keys of this batch combined? *always: the whole batch goes through caches.
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
