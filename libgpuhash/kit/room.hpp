// How much room a growing table has left, and which batches have claimed it: slots, or units of a heap.
//
// A batch claims room before it runs and settles when it is known what it used; the rest goes back. When nothing runs, a
// recount replaces all of this by what the table itself says.
//
//   R1  used + claimed <= limit, also of a table that could not grow: what is left is never given out twice.
//   R2  A batch that runs beside others adds no more than it has claimed; or else every element of it that finds no room
//       is known when its call ends, and is tried again after the table has grown.
//   R3  A recount counts what every claim before it has used. Settling such a claim changes nothing.
//
// So on CUDA, where no call looks at a batch after it was queued, no element can be lost: by R1 and R2 there was room for
// it. It follows that a claim and the queueing of its batch are one step under the table's launch mutex, which a recount
// holds, too. On the CPU each batch is looked at when it ends, and claims only keep the load factor where it should be; a
// claim is made, used and settled in one hold of the table's gate, which a recount has exclusively.
#pragma once
#include <stdint.h>

#include "libgpuhash/kit/sync.hpp"

namespace gpuhash {

class room_ledger {
 public:
  struct claim {
    bool granted = false;
    uint64_t n = 0;
    uint64_t recounts = 0;  // before it was made
  };

  // All of n, or nothing.
  claim take(uint64_t n) { return take(n, n); }
  // Claims up to n, but no fewer than are worth a batch of their own: otherwise the table should grow.
  claim take_part(uint64_t n) {
    const uint64_t part = limit_ / 8 < 512 ? 512 : limit_ / 8;
    return take(n, part < n ? part : n);
  }
  // As much of n as there is left.
  claim take_rest(uint64_t n) { return n ? take(n, 1) : claim{}; }
  // A claim for a batch that adds nothing: the room that its erasures free is counted once (R3).
  claim take_nothing() {
    std::lock_guard<kit_mutex> lock(mutex_);
    return claimed(0);
  }
  void settle(const claim& c, uint64_t used) {
    std::lock_guard<kit_mutex> lock(mutex_);
    settled(c, used);
  }
  // Of one that ran beside others.
  void settle_beside(const claim& c, uint64_t used) {
    std::lock_guard<kit_mutex> lock(mutex_);
    overdrawn_ |= int64_t(used) > int64_t(c.n);  // R2; what erasures gave back is less than nothing
    settled(c, used);
  }
  // By elements that are tried again while the table is held.
  void add_used(uint64_t used) {
    std::lock_guard<kit_mutex> lock(mutex_);
    used_ += used;
  }
  // Called when no batch runs, and every batch that has claimed is done, or queued if the caller has waited for it.
  void recount(uint64_t used, uint64_t limit) {
    std::lock_guard<kit_mutex> lock(mutex_);
    used_ = used;
    limit_ = limit;
    claimed_ = 0;
    ++recounts_;
  }
  uint64_t limit() const { return limit_; }
  uint64_t taken() const {  // used, or claimed by batches whose use is not known yet
    std::lock_guard<kit_mutex> lock(mutex_);
    return used_ + claimed_;
  }
  uint64_t used() const {
    std::lock_guard<kit_mutex> lock(mutex_);
    return used_;
  }
  bool overdrawn() const { return overdrawn_; }  // never (R2)
  uint64_t left() const {
    std::lock_guard<kit_mutex> lock(mutex_);
    return left_now();
  }

 private:
  claim take(uint64_t n, uint64_t least) {
    std::lock_guard<kit_mutex> lock(mutex_);
    const uint64_t free_now = left_now();
    if (free_now < least) return {};
    return claimed(n < free_now ? n : free_now);
  }
  claim claimed(uint64_t n) {
    const claim c{true, n, recounts_};
    claimed_ += c.n;
    return c;
  }
  void settled(const claim& c, uint64_t used) {
    if (c.granted && c.recounts != recounts_) return;  // R3
    claimed_ -= c.n;
    used_ += used;
  }
  uint64_t left_now() const {
    const uint64_t taken = used_ + claimed_;
    return taken < limit_ ? limit_ - taken : 0;
  }
  mutable kit_mutex mutex_;
  kit_atomic<uint64_t> limit_{0};
  uint64_t used_ = 0;
  uint64_t claimed_ = 0;
  uint64_t recounts_ = 0;
  bool overdrawn_ = false;
};

}  // namespace gpuhash
