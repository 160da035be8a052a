// Who may touch a table's storage, and when.
//
// host_gate     CPU: batches share, exclusive operations have the table to themselves. A waiting exclusive operation holds
//               back new batches, so that it gets its turn.
// stream_gate   CUDA: the same by events, without waiting on the host. It also tells a reading batch whether it is alone,
//               that is, whether no writing batch can run at the same time (it may then read through L1).
#pragma once
#include <condition_variable>
#include <mutex>
#include <vector>

#include "libgpuhash/kit/device.hpp"

namespace gpuhash {

class host_gate {
 public:
  void lock_shared() {
    std::unique_lock<std::mutex> lock(mutex_);
    turn_.wait(lock, [&] { return !exclusive_ && !waiting_; });
    ++sharing_;
  }
  void unlock_shared() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (--sharing_ == 0 && waiting_) turn_.notify_all();
  }
  void lock() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++waiting_;
    turn_.wait(lock, [&] { return !exclusive_ && !sharing_; });
    --waiting_;
    exclusive_ = true;
  }
  void unlock() {
    std::lock_guard<std::mutex> lock(mutex_);
    exclusive_ = false;
    turn_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  unsigned sharing_ = 0, waiting_ = 0;
  bool exclusive_ = false;
};

// Calls are made under the table's launch mutex. Every function returns 0 or the device's error number.
class stream_gate {
 public:
  explicit stream_gate(const device_api& api) : api_(api) {}
  ~stream_gate() {
    for (const lane& l : lanes_) api_.drop_event(l.event);
  }
  stream_gate(const stream_gate&) = delete;
  stream_gate& operator=(const stream_gate&) = delete;

  // Before a batch is queued on stream. *alone says that no writing batch can run beside it.
  int before_batch(void* stream, bool writes, bool* alone) {
    *alone = true;
    for (lane& l : lanes_) {
      if (l.stream == stream) continue;
      if (l.exclusive || (writes && l.reads_alone))
        if (const int e = api_.follow(stream, l.event)) return e;
      if (l.writes && !api_.finished(l.event)) *alone = false;
    }
    return 0;
  }
  int after_batch(void* stream, bool writes, bool alone) {
    lane& l = lane_of(stream);
    l.writes |= writes, l.reads_alone |= !writes && alone;
    return api_.record(l.event, stream);
  }
  // An exclusive operation on stream runs after every batch queued so far, and before every later one.
  int before_exclusive(void* stream) {
    for (const lane& l : lanes_)
      if (l.stream != stream)
        if (const int e = api_.follow(stream, l.event)) return e;
    return 0;
  }
  int after_exclusive(void* stream) {
    lane_of(stream);  // before any lane is dropped: its event may be the one to record
    std::vector<lane> kept;
    for (lane& l : lanes_) {
      if (l.stream == stream)
        kept.push_back({l.stream, l.event, true, false, true});
      else
        api_.drop_event(l.event);
    }
    lanes_ = std::move(kept);
    return api_.record(lanes_.front().event, stream);
  }

 private:
  struct lane {
    void* stream;
    void* event;  // recorded after the last batch of this stream
    bool writes, reads_alone, exclusive;
  };
  lane& lane_of(void* stream) {
    for (lane& l : lanes_)
      if (l.stream == stream) return l;
    lanes_.push_back({stream, nullptr, false, false, false});
    api_.make_event(&lanes_.back().event);
    return lanes_.back();
  }
  const device_api& api_;
  std::vector<lane> lanes_;
};

}  // namespace gpuhash
