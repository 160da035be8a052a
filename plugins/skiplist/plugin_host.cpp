// The kernels of skiplist for the CPU. Compiled once per instruction set, with GPUHASH_ISA naming it.
#include <string.h>

#include <vector>

#include "build.hpp"
#include "host_find.hpp"
#include "host_range.hpp"
#include "host_update.hpp"
#include "host_walk.hpp"
#include "libgpuhash/drive/host.hpp"
#include "libgpuhash/kit/kernels.hpp"
#include "ops.hpp"
#include "walk.hpp"

GH_BEGIN

template <class Tile, u32 Kind>
using op_of_skiplist = host_update<Tile, Kind>;
// The part of an update after its search is one function for all kinds anyhow.
template <u32 Bytes>
using engines_of = host_engines<skip_table, op_of_skiplist, Bytes, kinds_of_one_driver>;

// act.operator()<R>(), where R is how many words a chunk of the table has.
template <class F, class Act>
int with_chunk(const void* table, Act act) {
  switch (static_cast<const skip_table<F>*>(table)->slots) {
    case 8: act.template operator()<8>(); return 0;
    case 16: act.template operator()<16>(); return 0;
    case 32: act.template operator()<32>(); return 0;
  }
  return -1;
}

// Finds and counts go through the upper levels together.
template <class F>
int run_reads(const void* table, const request& q, totals* sum) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  return with_chunk<F>(table, [&]<u32 R> {
    if (q.kind == find)
      host_finds<F, R, find>(t, q).serve(sum);
    else
      host_finds<F, R, count>(t, q).serve(sum);
  });
}

template <class F>
int run(const void* table, const request& q, totals* sum) {
  constexpr u32 word = sizeof(typename F::word);
  if (!in_kinds(q.kind, writing_batches)) return run_reads<F>(table, q, sum);
  switch (static_cast<const skip_table<F>*>(table)->slots) {
    case 8: return engines_of<8 * word>::template run<F>(table, q, sum);
    case 16: return engines_of<16 * word>::template run<F>(table, q, sum);
    case 32: return engines_of<32 * word>::template run<F>(table, q, sum);
  }
  return -1;
}

// All pairs in order; cells and their order are of no account. No batch writes meanwhile.
template <class F>
int collect(const void* table, cell_order, uint64_t, uint64_t, const collecting& to) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  ordered_request q{};
  q.threads = to.threads;
  q.key_bytes = to.key_bytes;
  q.value_bytes = to.value_bytes;
  return with_chunk<F>(table, [&]<u32 R> {
    const u64 all = host_ranges<F, R>(t, q).chunks(~u64(0));
    q.out_keys = to.keys;
    q.out_values = to.values;
    *to.count += host_ranges<F, R>(t, q).chunks(all, *to.count);
  });
}

template <class F>
int neighbors(const void* table, const ordered_request& q) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  return with_chunk<F>(table, [&]<u32 R> { host_neighbors<F, R>(t, q).serve(); });
}
template <class F>
int ranges(const void* table, const ordered_request& given) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  ordered_request q = given;
  if (q.sums) q.counts = q.sums + 1;
  if (const int e = with_chunk<F>(table, [&]<u32 R> { host_ranges<F, R>(t, q).serve(); })) return e;
  if (q.sums) {
    q.sums[0] = 0;
    for (size_t i = 0; i < q.n; ++i) q.sums[i + 1] += q.sums[i];
  }
  return 0;
}

template <class F>
int build(const void* table, size_t n, const void* keys, const void* values, uint32_t key_bytes, uint32_t value_bytes,
          uint32_t per, uint32_t threads, void*) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  return with_chunk<F>(
      table, [&]<u32 R> { dense_writer<F, R>(t, n, per, threads).write(keys, key_bytes, values, value_bytes); });
}
// A batch into an empty table, if its keys ascend.
template <class F>
bool build_ascending(const void* table, const request& q, uint32_t per) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  bool done = false;
  with_chunk<F>(table, [&]<u32 R> {
    done = dense_writer<F, R>(t, q.n, per, q.threads).write(q.keys, q.key_bytes, q.values, q.value_bytes);
  });
  if (done && q.status) memset(q.status, yes, q.n);
  return done;
}

// A batch that a rebuild takes over (build.hpp).
template <class F>
size_t work_bytes(const build_request& b) {
  return batch_builder<F>::work_bytes(b.batch->n);
}
template <class F>
int sort_batch(const void* table, build_request& b) {
  batch_builder<F> builder(*static_cast<const skip_table<F>*>(table), b);
  builder.sort();
  builder.count(b);
  return 0;
}
template <class F>
int merge_batch(const void* table, const build_request& b, void* keys, void* values) {
  batch_builder<F>(*static_cast<const skip_table<F>*>(table), b)
      .merge(static_cast<typename F::key*>(keys), static_cast<typename F::value*>(values));
  return 0;
}

// A batch behind the end. Most that are none have such a key soon.
template <class F>
int look_at_end(const void* table, const request& q, table_end* end, void* keys, void* values) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  skip_walk<host_mem, skip_table<F>>{t}.write_end(end, static_cast<typename F::key*>(keys),
                                                  static_cast<typename F::value*>(values));
  for (size_t i = 0; i < q.n && !end->falls_short; ++i) end->falls_short = t.encode(read_key<F>(q, i)) < end->from;
  return 0;
}
template <class F>
int extend(const void* table, const table_end& end, size_t n, const void* keys, const void* values, uint32_t key_bytes,
           uint32_t value_bytes, uint32_t per, uint32_t threads, void*) {
  const auto& t = *static_cast<const skip_table<F>*>(table);
  const dense_shape s = dense_shape::behind(end, n, per, t.levels);
  return with_chunk<F>(table,
                       [&]<u32 R> { write_behind<F, R>(t, s, n, keys, values, key_bytes, value_bytes, per, threads); });
}

template <class F>
constinit const ordered_engine ordered_of = {neighbors<F>,   ranges<F>,     build<F>,       combining_kinds,
                                             work_bytes<F>,  sort_batch<F>, merge_batch<F>, build_ascending<F>,
                                             look_at_end<F>, extend<F>};

template <class F>
constexpr engine one() {
  return {run<F>, collect<F>, nullptr, nullptr, nullptr, nullptr, &ordered_of<F>};
}
static constinit const engine engines[format_count] = {one<pair32>(), one<pair32>(), one<pair64>(), one<pair64>()};

GH_END

GPUHASH_HOST_KERNELS(skiplist)
