// The CPU driver: who serves which key.
//
// A team of threads takes chunks of the batch. Each thread keeps a ring of operations in flight: it starts one by asking
// for the home line of its key, goes round, and comes back when the line is in the cache. An operation that needs another
// line asks for that one and waits for its next turn, so that a long probe never stalls the others (asynchronous memory
// access chaining; Kocberber et al., "Asynchronous Memory Access Chaining", VLDB 2015).
#pragma once
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/side.hpp"
#include "libgpuhash/tile/host.hpp"

GH_BEGIN

inline constexpr u32 ring_size = 32;        // operations in flight per thread
inline constexpr size_t chunk_size = 16384;  // keys that a thread takes at a time

GH_FN void prefetch_line(const void* p, u32 bytes, bool for_write) {
  for (u32 b = 0; b < bytes; b += 64) {
    if (for_write) __builtin_prefetch(static_cast<const char*>(p) + b, 1);
    else __builtin_prefetch(static_cast<const char*>(p) + b, 0);
  }
}

template <class Op> struct host_driver {
  using F = typename Op::F;
  using table = typename Op::table;
  using tile_type = typename Op::tile_type;
  static constexpr u32 line_bytes = Op::R * sizeof(typename F::word);
  static constexpr bool for_write = Op::fixed_kind != find && Op::fixed_kind != count;

  const table& t;
  const request& q;
  totals sum{};
  tile_type tile{};

  GH_FN void deposit(size_t i, const result<F>& r) {
    write_result(q, i, r);
    sum.live += r.live, sum.used += r.used;
    sum.yes += r.status == yes, sum.failed += r.status > yes;
  }

  // Start the operation of element i, or serve it at once if its key lives in a side slot.
  GH_FN bool start(Op& op, size_t i) {
    if (!has_work(q, i)) return false;
    const auto k = read_key<F>(q, i);
    const auto v = read_value<F>(q, i);
    const u32 kd = Op::fixed_kind == mixed ? read_op(q, i) : Op::fixed_kind;
    if (table::side_slots && __builtin_expect(is_side_key(k), 0)) {
      if constexpr (table::side_slots) deposit(i, serve_side<F, host_mem>(t.side, kd, joiner_of(q), k, v));
      return false;
    }
    op.start(t, kd, k, v, t.home(k));
    prefetch_line(op.line(t), line_bytes, for_write);
    return true;
  }

  GH_FN verdict visit(Op& op) {
    verdict d = op.step(tile, t, joiner_of(q), tile.load(op.line(t)), true);
    if (Op::has_slow && __builtin_expect(d == verdict::slow, 0)) d = op.slow(tile, t, joiner_of(q), true);
    return d;
  }

  void serve(size_t i, size_t end) {
    Op ring[ring_size];
    size_t element[ring_size];
    u32 n = 0;
    while (n < ring_size && i < end) {
      if (start(ring[n], i)) element[n++] = i;
      ++i;
    }
    for (u32 r = 0; n; r = r + 1 < n ? r + 1 : 0) {
      Op& op = ring[r];
      const verdict d = visit(op);
      if (d == verdict::next) prefetch_line(op.line(t), line_bytes, for_write);
      if (d != verdict::done) continue;
      deposit(element[r], op.res);
      bool busy = false;
      while (!busy && i < end) {
        busy = start(op, i);
        element[r] = i++;
      }
      if (!busy && r != --n) ring[r] = ring[n], element[r] = element[n];
    }
  }
};

template <class Op> int run_on_host(const void* table, const request& q, totals* sum) {
  using driver = host_driver<Op>;
  const size_t n = q.n_there ? *q.n_there : q.n;
  const auto& t = *static_cast<const typename Op::table*>(table);
  int64_t live = 0, used = 0;
  uint64_t good = 0, failed = 0;
  const long chunks = long((n + chunk_size - 1) / chunk_size);
#pragma omp parallel for schedule(dynamic) num_threads(q.threads) reduction(+ : live, used, good, failed) if (chunks > 1)
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
template <template <class> class Table, template <class, u32> class Op> struct host_engines {
  template <class F> static int run(const void* t, const request& q, totals* sum) {
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
  template <class Tile, u32 Kind> static int one(const void* t, const request& q, totals* sum) {
    if constexpr (in_kinds(Kind, Table<typename Tile::format>::kinds)) return run_on_host<Op<Tile, Kind>>(t, q, sum);
    else return -1;
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
