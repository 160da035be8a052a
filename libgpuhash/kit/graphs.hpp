// CUDA graphs: batches that were captured on a stream, and run whenever the caller launches the graph.
//
//   C1  A graph has the addresses of the table's storage. While one lives the storage stays where it is: what would move
//       it is refused.
//   C2  The library does not learn of a launch, and waiting for all of the device's work would break any capture that goes on
//       meanwhile. So a launch follows what needed the table to itself before (stream_gate::before_capture); but a
//       caller that needs the table to itself after a launch has to order that, by the stream or by waiting for it, as
//       gpuhash.h says.
//   C3  Launches of writing batches may run at any time, so that no reading batch is alone while such a graph lives.
//
// The device says when a graph and all that was made from it are gone, maybe after the table is.
#pragma once
#include <stdint.h>

#include <atomic>
#include <new>

#include "libgpuhash/kit/device.hpp"

namespace gpuhash {

class graphs {
 public:
  graphs() = default;
  ~graphs() {
    if (counts_) leave(counts_);
  }
  graphs(const graphs&) = delete;
  graphs& operator=(const graphs&) = delete;

  bool any() const { return counts_ && counts_->batches.load(std::memory_order_acquire); }
  bool any_that_write() const { return counts_ && counts_->writers.load(std::memory_order_acquire); }

  // A batch goes into this graph. Returns 0 or the device's error number; then it must not go there.
  int add(const device_api& api, void* graph, bool writes) {
    if (!counts_) counts_ = new (std::nothrow) counts;
    note* const n = counts_ ? new (std::nothrow) note{counts_, writes} : nullptr;
    if (!n) return api.out_of_memory;
    counts_->users.fetch_add(1, std::memory_order_relaxed);
    counts_->batches.fetch_add(1, std::memory_order_relaxed);
    counts_->writers.fetch_add(writes, std::memory_order_relaxed);
    const int e = api.keep_while(graph, gone, n);
    if (e) gone(n);
    return e;
  }

 private:
  struct counts {
    std::atomic<uint64_t> users{1};  // the table, and the batches of graphs that live
    std::atomic<uint64_t> batches{0}, writers{0};
  };
  struct note {
    counts* of;
    bool writes;
  };
  static void leave(counts* c) {
    if (c->users.fetch_sub(1, std::memory_order_acq_rel) == 1) delete c;
  }
  static void gone(void* p) {  // on any thread
    note* const n = static_cast<note*>(p);
    n->of->writers.fetch_sub(n->writes, std::memory_order_release);
    n->of->batches.fetch_sub(1, std::memory_order_release);
    leave(n->of);
    delete n;
  }
  counts* counts_ = nullptr;
};

}  // namespace gpuhash
