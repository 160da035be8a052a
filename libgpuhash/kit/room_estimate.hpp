// CUDA: will elements find their places, whatever their keys are? A batch for which that is sure is queued, and its call
// returns at once; any other batch has the table to itself, is waited for, and retried (batches.hpp).
//
// This one is of tables whose slots are all that may run out, which the ledger counts (room.hpp): their storage says once
// whether a key finds one of them. A structure with something else to run out (units of a heap, chunks of a pool) derives
// its own.
#pragma once
#include <stdint.h>

#include "gpuhash/plugin.h"

namespace gpuhash {

class room_estimate {
 public:
  virtual ~room_estimate() = default;
  void set(bool sure) { sure_ = sure; }

  // Under the launch mutex: of all elements that have claimed room, n of them just now.
  virtual bool fits_surely(uint64_t /*n*/) { return sure_; }
  // Makes sure that elements find their places, if that takes no rebuild. The table is held exclusively, but batches
  // that were queued may still be running.
  virtual gpuhash_status preallocate(void* /*stream*/, gpuhash_error* /*err*/) { return GPUHASH_OK; }
  // A part runs whose use is not counted: no room is sure until the next refresh.
  virtual void invalidate() {}
  // Computes the estimate from the table's own counts. The table is held exclusively.
  virtual gpuhash_status refresh(void* /*stream*/, gpuhash_error* /*err*/) { return GPUHASH_OK; }

 private:
  bool sure_ = false;
};

}  // namespace gpuhash
