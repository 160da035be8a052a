// A structure's way to serve a whole batch by building storage anew, where that is faster than element by element.
#pragma once
#include "gpuhash/plugin.h"
#include "libgpuhash/kit/engine.hpp"

namespace gpuhash {

class bulk_builder {
 public:
  virtual ~bulk_builder() = default;
  // May the builder serve this batch? Batches ask this with nothing held, so that build() may find the table changed.
  virtual bool accepts(const request&) = 0;
  // Serves the batch, if that pays and there is memory for it; otherwise *done is false, and nothing has changed. The
  // table is held exclusively.
  virtual gpuhash_status build(const request&, totals* sum, bool* done, gpuhash_error* err) = 0;
};

}  // namespace gpuhash
