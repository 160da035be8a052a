// The CPU driver: who serves which key.
//
// A team of threads takes chunks of the batch. Each thread goes straight through its chunk: while it serves element i, the
// home line of element i + ahead is on its way into the cache. An operation that needs another line asks for that one and
// joins a list of waiting operations, which are visited in rounds when the list is full, so that a long probe never stalls
// the others (asynchronous memory access chaining; Kocberber et al., VLDB 2015).
#pragma once
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/side.hpp"
#include "libgpuhash/tile/host.hpp"

GH_BEGIN

inline constexpr u32 ahead = 128;         // elements between the request for a home line and its visit; a power of two
inline constexpr u32 waiting_room = 128;  // operations that wait for a second or later line
inline constexpr size_t chunk_size = 16384;  // keys that a thread takes at a time

template <class Op>
struct host_driver {
  using F = typename Op::F;
  using table = typename Op::table;
  using index = typename Op::index;
  using tile_type = typename Op::tile_type;
  static constexpr u32 line_bytes = Op::R * sizeof(typename F::word);
  static constexpr bool for_write = Op::fixed_kind != find && Op::fixed_kind != count;

  struct waiting {
    Op op;
    size_t element;
  };

  const table& t;
  const request q;  // a copy: the compiler knows that writing results does not change it
  totals sum{};
  tile_type tile{};

  GH_FN static void prefetch(const void* line) {
    for (u32 b = 0; b < line_bytes; b += 64) __builtin_prefetch(static_cast<const char*>(line) + b, for_write);
  }
  GH_FN void deposit(size_t i, const result<F>& r) {
    write_result(q, i, r);
    sum.live += r.live, sum.used += r.used;
    sum.yes += r.status == yes, sum.failed += r.status > yes;
  }

  // The home of element i, its line asked for.
  GH_FN index look_ahead(size_t i) const {
    const index home = t.home(read_key<F>(q, i));
    Op op;
    op.start(t, nop, 0, 0, home);
    prefetch(op.line(t));
    return home;
  }

  // Start the operation of element i. False if there is nothing left to do for it.
  GH_FN bool start(Op& op, size_t i, index home) {
    if (!has_work(q, i)) return false;
    const auto k = read_key<F>(q, i);
    const auto v = read_value<F>(q, i);
    const u32 kd = Op::fixed_kind == mixed ? read_op(q, i) : Op::fixed_kind;
    if constexpr (table::side_slots)
      if (__builtin_expect(is_side_key(k), 0)) {
        deposit(i, serve_side<F, host_mem>(t.side, kd, joiner_of(q), k, v));
        return false;
      }
    op.start(t, kd, k, v, home);
    return true;
  }

  // Visit the operation's line. True if that finished it; else the line that it needs next is asked for.
  GH_FN bool visit(Op& op, size_t i) {
    verdict d;
    do d = op.step(tile, t, joiner_of(q), tile.load(op.line(t)), true);
    while (__builtin_expect(d == verdict::again, 0));
    if (Op::has_slow && __builtin_expect(d == verdict::slow, 0)) d = op.slow(tile, t, joiner_of(q), true);
    if (d == verdict::done)
      deposit(i, op.res);
    else
      prefetch(op.line(t));
    return d == verdict::done;
  }

  // One round: every waiting operation is visited once. Returns how many still wait.
  u32 round(waiting* list, u32 n) {
    u32 kept = 0;
    for (u32 r = 0; r < n; ++r) {
      waiting w = list[r];
      if (!visit(w.op, w.element)) list[kept++] = w;
    }
    return kept;
  }

  void serve(size_t begin, size_t end) {
    index homes[ahead];
    waiting list[waiting_room];
    u32 n = 0;
    for (size_t i = begin; i < end && i < begin + ahead; ++i) homes[i % ahead] = look_ahead(i);
    for (size_t i = begin; i < end; ++i) {
      const index home = homes[i % ahead];
      if (i + ahead < end) homes[i % ahead] = look_ahead(i + ahead);
      Op op;
      if (!start(op, i, home) || visit(op, i)) continue;
      list[n++] = {op, i};
      while (n == waiting_room) n = round(list, n);
    }
    while (n) n = round(list, n);
  }
};

template <class Op>
int run_on_host(const void* table, const request& q, totals* sum) {
  using driver = host_driver<Op>;
  const size_t n = q.n_there ? *q.n_there : q.n;
  const auto& t = *static_cast<const typename Op::table*>(table);
  int64_t live = 0, used = 0;
  uint64_t good = 0, failed = 0;
  const long chunks = long((n + chunk_size - 1) / chunk_size);
#pragma omp parallel for schedule(dynamic) num_threads(q.threads) \
    reduction(+ : live, used, good, failed) if (chunks > 1)
  for (long c = 0; c < chunks; ++c) {
    driver d{t, q};
    const size_t begin = size_t(c) * chunk_size, end = begin + chunk_size < n ? begin + chunk_size : n;
    d.serve(begin, end);
    live += d.sum.live, used += d.sum.used, good += d.sum.yes, failed += d.sum.failed;
  }
  __atomic_fetch_add(&sum->live, live, __ATOMIC_RELAXED);
  __atomic_fetch_add(&sum->used, used, __ATOMIC_RELAXED);
  __atomic_fetch_add(&sum->yes, good, __ATOMIC_RELAXED);
  __atomic_fetch_add(&sum->failed, failed, __ATOMIC_RELAXED);
  return 0;
}

// Live pairs of cells lo..hi, appended at *n in no order. Runs with no writer about.
template <class Table>
int collect_on_host(const void* table, uint64_t lo, uint64_t hi, void* keys, void* values, uint32_t key_bytes,
                    uint32_t value_bytes, uint64_t* n, uint32_t threads, void*) {
  using F = typename Table::format;
  const auto& t = *static_cast<const Table*>(table);
  const long chunks = long((hi - lo + chunk_size - 1) / chunk_size);
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (chunks > 1)
  for (long c = 0; c < chunks; ++c) {
    const u64 begin = lo + u64(c) * chunk_size, end = begin + chunk_size < hi ? begin + chunk_size : hi;
    u64 here = 0;
    for (u64 i = begin; i < end; ++i) t.template each_live<host_mem>(i, [&](auto, auto) { ++here; });
    u64 at = __atomic_fetch_add(n, here, __ATOMIC_RELAXED);
    for (u64 i = begin; i < end; ++i)
      t.template each_live<host_mem>(i, [&](typename F::key k, typename F::value v) {
        if (keys) write_element<typename F::key>(keys, key_bytes, at, k);
        if (values) write_element<typename F::value>(values, value_bytes, at, v);
        ++at;
      });
  }
  return 0;
}

// The engines of a structure: Op<Tile, Kind> over Table<F>, one per slot format. A CPU visit is one cache line.
template <template <class> class Table, template <class, u32> class Op>
struct host_engines {
  template <class F>
  static int run(const void* t, const request& q, totals* sum) {
    using tile = host_tile<F, Table<F>::host_slots>;
    switch (q.kind) {
      case insert: return one<tile, insert>(t, q, sum);
      case assign: return one<tile, assign>(t, q, sum);
      case accumulate: return one<tile, accumulate>(t, q, sum);
      case find: return one<tile, find>(t, q, sum);
      case erase: return one<tile, erase>(t, q, sum);
      case insert_multi: return one<tile, insert_multi>(t, q, sum);
      case count: return one<tile, count>(t, q, sum);
      case erase_all: return one<tile, erase_all>(t, q, sum);
      case mixed: return one<tile, mixed>(t, q, sum);
    }
    return -1;
  }
  template <class Tile, u32 Kind>
  static int one(const void* t, const request& q, totals* sum) {
    if constexpr (in_kinds(Kind, Table<typename Tile::format>::kinds))
      return run_on_host<Op<Tile, Kind>>(t, q, sum);
    else
      return -1;
  }
  static const engine* all() {
    static const engine table[format_count] = {
        {run<set32>, collect_on_host<Table<set32>>, nullptr, nullptr},
        {run<pair32>, collect_on_host<Table<pair32>>, nullptr, nullptr},
        {run<set64>, collect_on_host<Table<set64>>, nullptr, nullptr},
        {run<pair64>, collect_on_host<Table<pair64>>, nullptr, nullptr},
    };
    return table;
  }
};

GH_END
