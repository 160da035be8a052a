// The check, the statistics and the histogram of a table. All three read the table through its structure's inspector.
#pragma once
#include "libgpuhash/kit/exclusive.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

// The table at rest, in host memory.
inline gpuhash_status table::inspect(std::unique_ptr<inspector>* out, gpuhash_error* err) {
  *out = make_inspector();
  return on_cuda() ? (*out)->copy_in(err) : gpuhash_status(GPUHASH_OK);
}

inline gpuhash_status table::check(gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_WITHOUT_STREAM;
  std::unique_ptr<inspector> there;
  if (const gpuhash_status s = inspect(&there, err)) return s;
  uint64_t live = 0, used = 0;
  if (const gpuhash_status s = there->check(&live, &used, err)) return s;
  header mine;
  totals now{};
  int e = api_.copy(&mine, head(), sizeof(mine), own_stream_);
  if (!e) e = api_.wait(own_stream_);
  if (e) return fault(err, e, "reading the table");
  for (const totals& s : mine.sum) now.live += s.live, now.used += s.used;
  for (uint64_t side = 0; side < 2; ++side) live += side_word(mine, side) != nullptr;
  if (live == uint64_t(now.live) && used == uint64_t(now.used)) return GPUHASH_OK;
  return host->fail(err, GPUHASH_CORRUPT, "the counters say %llu live and %llu used, the %s %llu and %llu",
                    (unsigned long long)now.live, (unsigned long long)now.used, there->unit(), (unsigned long long)live,
                    (unsigned long long)used);
}

inline gpuhash_status table::histogram(size_t n, uint64_t* counts, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_WITHOUT_STREAM;
  memset(counts, 0, n * sizeof(uint64_t));
  std::unique_ptr<inspector> there;
  if (const gpuhash_status s = inspect(&there, err)) return s;
  there->distances(n, counts);
  return GPUHASH_OK;
}

inline gpuhash_status table::stats(size_t* n, gpuhash_stat* out, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE_WITHOUT_STREAM;
  totals now{};
  if (const gpuhash_status s = read_totals(&now, own_stream_, err)) return s;
  std::vector<gpuhash_stat> all;
  const auto add = [&all](const char* name, double value) {
    gpuhash_stat s{};
    strncpy(s.name, name, sizeof(s.name) - 1);
    s.value = value;
    all.push_back(s);
  };
  add("size", double(now.live));
  add("used", double(now.used));
  add("slots", double(slots()));
  add("load_factor", slots() ? double(now.used) / double(slots()) : 0.0);
  add("bytes", double(bytes() + sizeof(header)));
  add("rebuilds", double(rebuilds_));
  add("failed", double(failed_.load()));
  std::unique_ptr<inspector> there;
  if (const gpuhash_status s = inspect(&there, err)) return s;
  if (const gpuhash_status s = there->figures(all, err)) return s;
  for (size_t i = 0; i < all.size() && i < *n; ++i) out[i] = all[i];
  *n = all.size();
  return GPUHASH_OK;
}

}  // namespace gpuhash
