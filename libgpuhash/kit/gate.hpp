// The gate of a table: which batches and calls may use its storage at the same time.
//
// host_gate     CPU: batches share, exclusive operations have the table to themselves. A waiting exclusive operation holds
//               back new batches, so that it gets its turn.
// stream_gate   CUDA: the same by events, without waiting on the host. It also tells a reading batch whether it is alone,
//               that is, whether no writing batch can run at the same time (it may then read through L1). And it tells a batch
//               that changes values whether keys stay where they are, that is, whether no erasing batch can run then.
//
//   G1  A stream is used while a call that names it runs, and never after: it may end any time later. What has to follow
//       its work follows an event.
//   G2  Streams are distinguished by an identity that is never used again. A handle may come back for another stream, which
//       is not ordered after the work of the first.
//   G3  A lane whose event has happened orders nothing any more, and is dropped: streams that come and go leave nothing.
#pragma once
#include <stdint.h>

#include <new>
#include <utility>
#include <vector>

#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/sync.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {

class host_gate {
 public:
  void lock_shared() {
    std::unique_lock<kit_mutex> lock(mutex_);
    if (exclusive_) crowd_ = turns_in_a_crowd;
    turn_.wait(lock, [&] { return !exclusive_ && !waiting_; });
    ++sharing_;
  }
  void unlock_shared() {
    std::lock_guard<kit_mutex> lock(mutex_);
    if (--sharing_ == 0 && waiting_) turn_.notify_all();
  }
  // Takes the gate for a batch that would be faster by itself: exclusively, if no other batch runs, waits, or did
  // lately. Then unlock().
  bool try_lock() {
    std::lock_guard<kit_mutex> lock(mutex_);
    if (exclusive_ || sharing_ || waiting_) {
      crowd_ = turns_in_a_crowd;
      return false;
    }
    if (crowd_) {
      --crowd_;
      return false;
    }
    exclusive_ = true;
    return true;
  }
  void lock() {
    std::unique_lock<kit_mutex> lock(mutex_);
    ++waiting_;
    turn_.wait(lock, [&] { return !exclusive_ && !sharing_; });
    --waiting_;
    exclusive_ = true;
  }
  void unlock() {
    std::lock_guard<kit_mutex> lock(mutex_);
    exclusive_ = false;
    turn_.notify_all();
  }

 private:
  kit_mutex mutex_;
  kit_condition turn_;
  unsigned sharing_ = 0;
  unsigned waiting_ = 0;
  bool exclusive_ = false;
  // Batches that share the table although they could have it alone, since other batches have come: else batches would
  // wait for each other all the time.
  static constexpr unsigned turns_in_a_crowd = tunable("turns_in_a_crowd", 64u);
  unsigned crowd_ = 0;
};

// A batch's turn: alone if that is wanted and can be had, else beside others.
class host_turn {
 public:
  host_turn(host_gate& gate, bool wanted) : gate_(gate), alone(wanted && gate.try_lock()) {
    if (!alone) gate_.lock_shared();
  }
  ~host_turn() {
    if (alone)
      gate_.unlock();
    else
      gate_.unlock_shared();
  }
  host_turn(const host_turn&) = delete;
  host_turn& operator=(const host_turn&) = delete;

 private:
  host_gate& gate_;

 public:
  const bool alone;
};

// Calls are made under the table's launch mutex. Every function returns 0 or the device's error number.
class stream_gate {
 public:
  explicit stream_gate(const device_api& api) : api_(api) {}
  ~stream_gate() {
    for (const lane& l : lanes_) api_.drop_event(l.event);
    for (void* event : spare_) api_.drop_event(event);
    if (barrier_.event) api_.drop_event(barrier_.event);
  }
  stream_gate(const stream_gate&) = delete;
  stream_gate& operator=(const stream_gate&) = delete;

  // A batch between being let in and having been queued, all of which happens under one hold of the launch mutex.
  struct turn {
    bool writes;
    bool alone = true;  // no writing batch can run beside it
    size_t lane = 0;
    bool erases = false;
    bool keys_stay = false;  // in: does it want to know? out: no erasing batch can run beside it
  };
  // Before a batch is queued on stream.
  int before_batch(void* stream, turn* t) {
    uint64_t id = 0;
    if (const int e = api_.stream_id(stream, &id)) return e;
    if (const int e = follow_barrier(stream, id)) return e;
    // Its lane is made now, since nothing may fail once the batch is queued.
    if (const int e = lane_of(id, &t->lane)) return e;
    for (const lane& l : lanes_) {
      if (l.id == id) continue;  // the stream itself keeps the order
      if (t->writes && l.reads_alone)
        if (const int e = api_.follow(stream, l.event)) return e;
      if (t->erases && l.keys_stay)
        if (const int e = api_.follow(stream, l.event)) return e;
      if (l.writes && !api_.finished(l.event)) {
        t->alone = false;
        if (l.erases) t->keys_stay = false;
      }
    }
    return 0;
  }
  int after_batch(void* stream, const turn& t) {
    lane& l = lanes_[t.lane];
    l.writes |= t.writes;
    l.reads_alone |= !t.writes && t.alone;
    l.erases |= t.erases;
    l.keys_stay |= t.keys_stay;
    return api_.record(l.event, stream);
  }
  // Before a batch is captured on stream (graphs.hpp). It has no lane: a batch that would have to follow its launches
  // waits for the device. Each launch follows what was exclusive before it, and what reads through L1 now.
  int before_capture(void* stream, bool writes) {
    if (!barrier_.event)
      if (const int e = api_.make_event(&barrier_.event)) return e;
    if (const int e = api_.follow_in_graph(stream, barrier_.event)) return e;
    for (const lane& l : lanes_)
      if (writes && l.reads_alone)
        if (const int e = api_.follow_in_graph(stream, l.event)) return e;
    for (const lane& l : lanes_)
      if (writes && l.keys_stay)
        if (const int e = api_.follow_in_graph(stream, l.event)) return e;
    return 0;
  }
  // An exclusive operation on stream runs after every batch queued so far, and before every later one.
  int before_exclusive(void* stream) {
    uint64_t id = 0;
    if (const int e = api_.stream_id(stream, &id)) return e;
    if (const int e = follow_barrier(stream, id)) return e;
    for (const lane& l : lanes_)
      if (l.id != id)
        if (const int e = api_.follow(stream, l.event)) return e;
    return 0;
  }
  int after_exclusive(void* stream) {
    if (!barrier_.event)
      if (const int e = api_.make_event(&barrier_.event)) return e;
    if (const int e = api_.stream_id(stream, &barrier_.id)) return e;
    barrier_.stands = true;
    for (const lane& l : lanes_) spare_.push_back(l.event);  // the barrier came after them
    lanes_.clear();
    return api_.record(barrier_.event, stream);
  }

  size_t lanes() const { return lanes_.size(); }

 private:
  struct lane {
    uint64_t id;  // of the stream
    void* event;  // recorded after the last batch of this stream
    bool writes, reads_alone;
    bool erases, keys_stay;
  };
  struct {
    uint64_t id = 0;        // of the stream of the last exclusive operation
    void* event = nullptr;  // recorded after it
    bool stands = false;
  } barrier_;

  int follow_barrier(void* stream, uint64_t id) {
    if (!barrier_.stands || barrier_.id == id) return 0;
    if (!api_.finished(barrier_.event)) return api_.follow(stream, barrier_.event);
    barrier_.stands = false;  // G3
    return 0;
  }
  int lane_of(uint64_t id, size_t* out) {
    for (size_t i = 0; i < lanes_.size(); ++i)
      if (lanes_[i].id == id) {
        *out = i;
        return 0;
      }
    forget_finished();
    try {
      lanes_.reserve(lanes_.size() + 1);
      spare_.reserve(spare_.size() + lanes_.size() + 1);  // so that giving an event back never fails
    } catch (const std::bad_alloc&) {
      return api_.out_of_memory;
    }
    void* event = nullptr;
    if (spare_.empty()) {
      if (const int e = api_.make_event(&event)) return e;
    } else {
      event = spare_.back();
      spare_.pop_back();
    }
    lanes_.push_back({id, event, false, false, false, false});
    *out = lanes_.size() - 1;
    return 0;
  }
  void forget_finished() {  // G3
    size_t kept = 0;
    for (const lane& l : lanes_) {
      if (api_.finished(l.event))
        spare_.push_back(l.event);
      else
        lanes_[kept++] = l;
    }
    lanes_.resize(kept);
  }
  const device_api& api_;
  std::vector<lane> lanes_;
  std::vector<void*> spare_;  // events without a lane
};

}  // namespace gpuhash
