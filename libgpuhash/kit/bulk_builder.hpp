// A structure's way to serve a whole batch by building storage anew, where that is faster than element by element.
#pragma once
#include "gpuhash/plugin.h"
#include "libgpuhash/kit/engine.hpp"

namespace gpuhash {

class bulk_builder {
 public:
  virtual ~bulk_builder() = default;
  // Might it serve this batch? By batches, with nothing held: what build() sees may differ.
  virtual bool accepts(const request&) = 0;
  // Serve the batch, if that pays and there is memory for it; or leave *done false, and nothing has happened. Exclusively.
  virtual gpuhash_status build(const request&, totals* sum, bool* done, gpuhash_error* err) = 0;
};

}  // namespace gpuhash
