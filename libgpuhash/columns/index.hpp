// An index: it gives each distinct row an id, which the row keeps.
//
// Keys are divided among partitions by their hash. A short batch is served row by row by the calling thread. Of a long
// one, slice after slice, all threads hash the rows and sort them by partition, then each partition is served by one
// thread, and then new keys get their ids in the order of their first rows: a bit for each first row, and a prefix sum
// over the bits. So ids count the keys in the order of their first appearance, whatever the number of threads.
#pragma once

#include <memory>
#include <shared_mutex>

#include "libgpuhash/columns/gather.hpp"
#include "libgpuhash/src/fork.hpp"

namespace gpuhash::columns {

struct settings {
  uint32_t nulls = GPUHASH_NULLS_GROUP, floats = GPUHASH_FLOATS_NUMBERS, threads = 1;
  bool counts = false;
  uint64_t expected = 0, seed = 0;
};

class index {
 public:
  index(row_type type, const settings& s) : type_(std::move(type)), settings_(s) {}
  virtual ~index() = default;
  index(const index&) = delete;
  index& operator=(const index&) = delete;

  /// weights, if not NULL: how often each row of a column without a dictionary is added, else once.
  virtual gpuhash_status add(const row_type& type, const rows& given, const int64_t* weights, int64_t* ids,
                             gpuhash_error* err) = 0;
  /// Does the index hold all rows of this type?
  virtual bool holds_all(const row_type& type) const = 0;
  /// INVALID_ARGUMENT names the first row that add refuses, counted from `passed`.
  virtual gpuhash_status refuse_rows(const row_type& type, const rows& given, int64_t passed,
                                     gpuhash_error* err) const = 0;
  virtual gpuhash_status find(const rows& given, int64_t* ids) const = 0;
  virtual gpuhash_status contains(const rows& given, uint8_t* mask) const = 0;
  virtual gpuhash_status keys(uint64_t first, uint64_t count, ArrowSchema* type, ArrowArray* out) const = 0;
  /// Keys by ids that the index has.
  virtual gpuhash_status take(size_t n, const int64_t* ids, ArrowSchema* type, ArrowArray* out) const = 0;
  /// How many of these keys make one piece of a merge: at least one, if there is any.
  virtual uint64_t piece_of(uint64_t first, uint64_t count) const = 0;
  virtual void counts(uint64_t first, uint64_t count, int64_t* out) const = 0;
  virtual uint64_t size() const = 0;
  virtual uint64_t bytes() const = 0;
  virtual int64_t null() const = 0;

  const row_type& type() const { return type_; }
  const settings& how() const { return settings_; }
  std::shared_mutex mutex;
  const uint64_t made_in = fork_generation;

 protected:
  const row_type type_;
  const settings settings_;
};

/// May throw bad_alloc.
std::unique_ptr<index> make_index(row_type type, const settings& s);

}  // namespace gpuhash::columns
