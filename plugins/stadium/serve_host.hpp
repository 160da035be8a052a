// stadium on the CPU: its engine, and which way a batch goes. It is served in the order of pages (page_order.hpp), with
// equal keys combined first, or block by block (blocks_host.hpp).
#pragma once
#include "blocks_host.hpp"
#include "leaving_host.hpp"
#include "page_order.hpp"

GH_BEGIN

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

template <class S>
constexpr engine engine_of() {
  return {run_batch<S>, collect_slots<S>, nullptr, nullptr, move_slots<S>};
}

GH_END
