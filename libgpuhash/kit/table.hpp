// The host side of a table, common to all structures: checks that only a table can make, requests, the gate, counters,
// growth, exclusive operations, and what happens after a device fault. A structure derives from `table` and says how its
// storage is laid out, grown and tested (flat_table.hpp does most of it for structures in one piece of memory).
//
//   table.hpp        this file: what a structure supplies, and what it gets
//   batches.hpp      run: a batch in parts, each with room that was claimed for it, retries
//   growth.hpp       how much room a batch needs, and how the table comes to have it; rebuilding
//   full_table.hpp   the rest of a batch where there is no memory to grow
//   whole_table.hpp  exclusive operations: export, clear, check, statistics, ...
//   room.hpp         the accounting of room
//   gate.hpp         who may touch the storage, and when
//
// Counters: every batch adds to `totals` in the header, which lies in the table's own memory. live and used are exact
// whenever no batch runs.
#pragma once
#include <string.h>

#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "gpuhash/plugin.h"
#include "libgpuhash/kit/adding.hpp"
#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/distinct.hpp"
#include "libgpuhash/kit/divided.hpp"
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/gate.hpp"
#include "libgpuhash/kit/graphs.hpp"
#include "libgpuhash/kit/host_memory.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "libgpuhash/kit/parts.hpp"
#include "libgpuhash/kit/room.hpp"
#include "libgpuhash/kit/sketch.hpp"
#include "libgpuhash/kit/sync.hpp"
#include "libgpuhash/kit/team.hpp"

namespace gpuhash {

inline constexpr size_t side_bytes = 32;  // two slots of at most 16 bytes
inline constexpr size_t few_elements = 1024;
// Elements that are looked up at a time where growth was refused (full_table.hpp).
#ifndef GPUHASH_REFUSED_SLICE
#define GPUHASH_REFUSED_SLICE (size_t(1) << 18)
#endif
inline constexpr size_t refused_slice = GPUHASH_REFUSED_SLICE;
struct header {
  alignas(side_bytes / 2) unsigned char side[side_bytes];  // words of 16 bytes are read as such
  totals sum[total_stripes];                               // the CPU uses the first
  // CUDA, for whoever has the table to itself, so that looking at a batch never fails for lack of memory:
  totals batch[total_stripes];
  uint8_t status[few_elements];
};

class table {
 public:
  struct setup {
    gpuhash_config config;
    const device_api* api;
    const engine* engines;  // of config.device, indexed by format_id
  };

  explicit table(const setup& s);
  virtual ~table() = default;
  table(const table&) = delete;
  table& operator=(const table&) = delete;

  gpuhash_status run(const gpuhash_batch& b, gpuhash_error* err);
  gpuhash_status info(gpuhash_table_info* out, gpuhash_error* err);
  gpuhash_status export_pairs(size_t* n, void* keys, void* values, void* stream, gpuhash_error* err);
  gpuhash_status clear(void* stream, gpuhash_error* err);
  gpuhash_status reserve(uint64_t keys, void* stream, gpuhash_error* err);
  gpuhash_status shrink(void* stream, gpuhash_error* err);
  gpuhash_status flush(uint64_t first, uint64_t count, void* stream, gpuhash_error* err);
  gpuhash_status find_all(size_t n, const void* keys, uint64_t* offsets, void* values, size_t max_values, void* stream,
                          gpuhash_error* err);
  // Of ordered structures (kit/ordered.hpp). What the request says of the table is filled in here.
  gpuhash_status neighbors(ordered_request q, gpuhash_error* err);
  gpuhash_status ranges(ordered_request q, gpuhash_error* err);
  gpuhash_status range_all(ordered_request q, uint64_t* offsets, gpuhash_error* err);
  gpuhash_status check(gpuhash_error* err);
  gpuhash_status stats(size_t* n, gpuhash_stat* out, gpuhash_error* err);
  gpuhash_status histogram(size_t n, uint64_t* counts, gpuhash_error* err);

 protected:
  // ---- what a structure supplies. Called with the table held exclusively, where nothing else is said. ----------------
  virtual const void* layout() const = 0;   // also by batches: what kernels get, copied at each call
  virtual uint64_t slots() const = 0;       // also by batches
  virtual uint64_t cells() const = 0;       // for collect
  virtual uint32_t line_cells() const = 0;  // cells that share a cache line, and neighbours of which may
  virtual uint64_t bytes() const = 0;
  virtual uint64_t limit() const = 0;  // used slots at which the table wants to grow; it takes no more if it cannot
  // Of a table that holds so many keys: how many reserve() need not make room for.
  virtual uint64_t capacity(uint64_t live) {
    (void)live;
    return limit() < slots() ? limit() : slots();
  }
  virtual uint64_t traits() const { return 0; }  // what this table does, if less than its backend
  virtual gpuhash_status empty_storage(void* stream, gpuhash_error* err) = 0;
  // Rebuild for so many keys, or for those that are there if they are more. FULL: a pair finds no place in storage of that
  // size (a short probe limit, no stash, keys that were chosen for it). On failure the table is as before.
  virtual gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) = 0;
  gpuhash_status resize(uint64_t keys, void* stream, gpuhash_error* err);       // with larger storage where it is FULL
  gpuhash_status resize_down(uint64_t keys, void* stream, gpuhash_error* err);  // never to more memory than there is
  // Would a rebuild for so many keys take less memory?
  virtual bool smaller_for(uint64_t keys) const = 0;
  // How many keys the table is to have room for next, which has room for `most` and needs it for `least`.
  virtual uint64_t next_limit(uint64_t most, uint64_t least) const {
    (void)least;
    return 2 * most;
  }
  // reserve. Slots of erased keys are not free for others: where the rest is not enough, a table that may not grow is rebuilt
  // in its size; any other does that when a batch needs it.
  virtual gpuhash_status make_room(uint64_t keys, void* stream, gpuhash_error* err) {
    if (keys > limit()) return resize(keys, stream, err);
    if (config_.grow) return GPUHASH_OK;
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    const uint64_t live = uint64_t(now.live);
    if (keys <= live || uint64_t(now.used) + (keys - live) <= limit()) return GPUHASH_OK;
    return resize(limit(), stream, err);
  }
  virtual gpuhash_status inspect(gpuhash_error* err) = 0;  // check
  virtual gpuhash_status figures(std::vector<gpuhash_stat>& out, gpuhash_error* err) = 0;
  virtual gpuhash_status distances(size_t n, uint64_t* counts, gpuhash_error* err) = 0;
  // Are pairs moved with the sizes of the caller's arrays, rather than of words? (move_pairs)
  virtual bool exact_widths() const { return false; }
  virtual bool stores_pairs() const { return config_.value_bytes != 0; }
  virtual uint64_t user_key(uint64_t key) const { return key; }  // of a side slot, as its user knows it
  virtual void tune(request&) const {}                           // by batches
  virtual uint32_t exclusive_kinds() const { return 0; }         // batches of these kinds have the table to themselves
  virtual gpuhash_status refuse(const gpuhash_batch&, gpuhash_error*) const {  // by batches: what options rule out
    return GPUHASH_OK;
  }
  // Might a rebuild take this batch over? By batches, with nothing held: what build_from sees may differ.
  virtual bool may_build(const request&) { return false; }
  // Serve the batch by a rebuild, if that pays and there is memory for it; or leave *done false, and nothing has happened.
  virtual gpuhash_status build_from(const request&, totals* sum, bool* done, gpuhash_error* err) {
    (void)sum;
    (void)done;
    (void)err;
    return GPUHASH_OK;
  }
  virtual gpuhash_status compact(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) {  // flush
    if (first || count != ~uint64_t(0))
      return host->fail(err, GPUHASH_UNSUPPORTED,
                        "this backend is flushed as a whole: flush without a range of buckets");
    return resize(limit(), stream, err);
  }
  // CUDA, under the launch mutex. Will all elements that have claimed room, n of them just now, find their places whatever
  // their keys are? A batch for which that is not certain is waited for, with the table to itself, and retried.
  virtual bool certain(uint64_t n) = 0;
  // Make it certain, if that takes no rebuild. Exclusively, but batches that were queued may be running still.
  virtual gpuhash_status provide(void* stream, gpuhash_error* err) {
    (void)stream;
    (void)err;
    return GPUHASH_OK;
  }
  // A part runs of which certain() knows nothing: say no until the next recount.
  virtual void doubt() {}
  virtual gpuhash_status recount(void* stream, gpuhash_error* err) {  // what certain() goes by, read from the table
    (void)stream;
    (void)err;
    return GPUHASH_OK;
  }
  // Elements found no room although there was some below limit().
  virtual gpuhash_status more_room(void* stream, gpuhash_error* err) { return resize(2 * limit(), stream, err); }
  // A batch of n elements that may have erased keys is done or queued. With nothing held: the table may give memory back.
  virtual gpuhash_status erased(uint64_t n, void* stream, gpuhash_error* err) {
    (void)n;
    (void)stream;
    (void)err;
    return GPUHASH_OK;
  }
  // The message of a call of which elements found no room in a table of so many slots. By batches.
  virtual gpuhash_status exhausted(uint64_t failed, uint64_t n, uint64_t slots, gpuhash_error* err) const {
    return host->fail(
        err, GPUHASH_FULL,
        "%llu of %llu elements found no room in a table of %llu slots; reserve more and retry those whose status is 2",
        (unsigned long long)failed, (unsigned long long)n, (unsigned long long)slots);
  }

  // ---- services ---------------------------------------------------------------------------------------------------
  bool on_cuda() const { return config_.device.kind == GPUHASH_CUDA; }
  // Of the CPU that serve a call. To ask the system takes about as long as an event of a small call on CUDA, which has none.
  uint32_t threads() const { return on_cuda() ? 1 : config_.threads ? config_.threads : host_team.default_threads(); }

  // A device error: the table is unusable from here on, unless it was memory that ran out.
  gpuhash_status fault(gpuhash_error* err, int e, const char* doing);
  gpuhash_status poisoned(gpuhash_error* err) const {
    return host->fail(err, GPUHASH_POISONED,
                      "an earlier device error left this table unusable; destroy it and build a new one");
  }
  gpuhash_status refuse_to_move(gpuhash_status status, gpuhash_error* err) const;  // whole_table.hpp
  // Does memory come from a resource of the caller's? Then all of it does, and the resource alone says what there is.
  bool has_resource() const { return config_.memory && memory_.allocate != host->host_memory->allocate; }
  // NO_MEMORY if so many bytes cannot all be had. Asked before they are taken, and written, one block after another.
  gpuhash_status enough_memory(uint64_t bytes, gpuhash_error* err) const {
    return on_cuda() || has_resource() ? gpuhash_status(GPUHASH_OK) : check_host_memory(bytes, false, err);
  }
  gpuhash_status no_memory(gpuhash_error* err, uint64_t bytes) const {
    if (const gpuhash_status s = enough_memory(bytes, err)) return s;  // with the figures
    return host->fail(
        err, GPUHASH_NO_MEMORY,
        "%llu bytes for the table could not be allocated; free some memory, or ask for a smaller capacity",
        (unsigned long long)bytes);
  }

  // Storage of the table's device, through the caller's memory resource if there is one. It is given back on a stream
  // that is alive at that moment, and on which everything that used it is done or waited for.
  void* take_memory(size_t bytes, void* stream);
  void give_memory(void* p, size_t bytes, void* stream);
  struct block {  // whoever holds it gives it back
    void* p = nullptr;
    size_t bytes = 0;
  };
  class scratch {  // a block for as long as a call lasts, on the call's stream
   public:
    scratch(table& t, size_t bytes, void* stream) : t_(t), stream_(stream), b_{t.take(bytes, stream)} {}
    ~scratch() { t_.drop(b_, stream_); }
    scratch(const scratch&) = delete;
    scratch& operator=(const scratch&) = delete;
    void swap(block& o) { std::swap(b_, o); }
    void* get() const { return b_.p; }
    template <class T>
    T* as() const {
      return static_cast<T*>(b_.p);
    }
    size_t bytes() const { return b_.bytes; }
    explicit operator bool() const { return b_.p || b_.bytes == 0; }

   private:
    table& t_;
    void* stream_;
    block b_;
  };
  block take(size_t bytes, void* stream) { return {bytes ? take_memory(bytes, stream) : nullptr, bytes}; }
  void drop(block& b, void* stream) {
    if (b.p) give_memory(b.p, b.bytes, stream);
    b = {};
  }

  gpuhash_status make_header(void* stream, gpuhash_error* err);
  header* head() const { return static_cast<header*>(header_.p); }
  gpuhash_status read_totals(totals* out, void* stream, gpuhash_error* err);
  // After a rebuild: what is there now takes so many slots.
  gpuhash_status write_used(const totals& before, uint64_t used, void* stream, gpuhash_error* err);
  gpuhash_status write_totals(const totals& now, void* stream, gpuhash_error* err);

  uint64_t used_on_host() {  // slots used, between batches; CPU
    host_gate_.lock_shared();
    const int64_t used = __atomic_load_n(&head()->sum[0].used, __ATOMIC_RELAXED);
    host_gate_.unlock_shared();
    return uint64_t(used);
  }
  uint64_t bytes_of_slots() const {
    return slots() * (format_ == format_set32 ? 4 : format_ == format_pair64 ? 16 : 8);
  }
  uint64_t taken() const { return room_.taken(); }                     // slots that are used or claimed
  uint64_t used() const { return room_.used(); }                       // as far as it is known
  void forget_claims(uint64_t used) { room_.recount(used, limit()); }  // used is what is used, and nothing runs

  // Insert every live pair of cells 0..cells of layout `from`, of which there are `live`, into layout(), `step` cells at a
  // time. *moved counts the slots used. may_add: where there is no room, more_room() makes some.
  struct move {
    const void* from;
    uint64_t cells, step, live;
    uint32_t kind;
    bool may_add;
    block unfilled{};  // memory of layout() that engine.rebuild writes; for every other way to move it is emptied first
    bool nothing() const { return cells == 0 || live == 0; }
  };
  gpuhash_status move_pairs(const move& m, uint64_t* moved, void* stream, gpuhash_error* err);
  gpuhash_status move_at_once(const move& m, bool* done, totals* sum, void* stream, gpuhash_error* err);
  gpuhash_status move_by_parts(const move& m, bool* done, totals* sum, void* stream, gpuhash_error* err);
  template <class Queue>
  gpuhash_status add_moved(totals* sum, const bool* done, void* stream, gpuhash_error* err, Queue queue);

  // Use the device of the table on the calling thread, for the scope's life.
  class on_device {
   public:
    explicit on_device(const table& t) : api_(t.api_), threads_before_(std::exchange(threads_of_call, t.threads())) {
      error = api_.enter(t.config_.device.ordinal, &before_);
    }
    ~on_device() {
      threads_of_call = threads_before_;
      if (!error) api_.leave(before_);
    }
    on_device(const on_device&) = delete;
    on_device& operator=(const on_device&) = delete;
    int error = 0;

   private:
    const device_api& api_;
    const uint32_t threads_before_;
    int before_ = 0;
  };

  // The table to oneself. On CUDA the work queued on `stream` inside runs after everything queued so far.
  class exclusive {
   public:
    exclusive(table& t, void* stream) : t_(t), stream_(stream) {
      if (t_.on_cuda()) {
        t_.launch_.lock();
        error = t_.gate_.before_exclusive(stream);
      } else {
        t_.host_gate_.lock();
      }
    }
    ~exclusive() {
      if (t_.on_cuda()) {
        if (t_.gate_.after_exclusive(stream_)) t_.poisoned_ = true;  // nothing orders later calls after this one
        t_.launch_.unlock();
      } else {
        t_.host_gate_.unlock();
      }
    }
    exclusive(const exclusive&) = delete;
    exclusive& operator=(const exclusive&) = delete;
    int error = 0;

   private:
    table& t_;
    void* stream_;
  };

  // CUDA: a stream for an operation that is given none, for the scope's life. NULL on the CPU.
  class borrowed_stream {
   public:
    explicit borrowed_stream(const table& t) : t_(t) {
      if (t_.on_cuda()) error = t_.api_.borrow_stream(t_.config_.device.ordinal, &stream_);
    }
    ~borrowed_stream() {
      if (stream_) t_.api_.return_stream(t_.config_.device.ordinal, stream_);
    }
    borrowed_stream(const borrowed_stream&) = delete;
    borrowed_stream& operator=(const borrowed_stream&) = delete;
    void* get() const { return stream_; }
    int error = 0;

   private:
    const table& t_;
    void* stream_ = nullptr;
  };

  // For a destructor: wait until nothing runs, then free_all(stream) gives back what the structure holds.
  template <class FreeAll>
  void dismantle(FreeAll free_all);

  gpuhash_config config_;
  gpuhash_memory memory_;
  const device_api& api_;
  const engine* engine_;
  format_id format_;
  kit_atomic<bool> poisoned_{false};
  bool ready_ = false;  // create has come to its end
  uint64_t rebuilds_ = 0;
  block header_;
  void* own_stream_ = nullptr;  // CUDA: borrowed by the exclusive operation that runs, if it is given no stream

 private:
  // A part of a batch on its way (batches.hpp).
  struct part {
    request q;
    totals sum{};             // what became of it, if somebody looked
    uint64_t slots = 0;       // of the table it ran on
    uint64_t growths = 0;     // of the table before it ran
    size_t window = 0;        // of its elements were looked at, and
    uint64_t need = 0;        // so many of them may each take a slot
    uint64_t newcomers = 0;   // CUDA, expected: so many keys are absent, about,
    bool expects = false;     // if that is known;
    bool mostly_new = false;  // most elements have such keys;
    bool few_keys = false;    // all elements together have few
    bool guessed = false;     // CUDA: need is a guess; window is all of the batch
    bool estimated = false;   // CPU: or, so many distinct keys has the window
  };
  request request_for(const gpuhash_batch& b) const;
  gpuhash_status run_on_host(part& p, bool growing, gpuhash_status* grown, gpuhash_error* err);
  bool serves_alone(const request& q) const;
  bool may_divide(const request& q) const;
  bool gains_by_order(const request& q);
  void serve_in_order(const request& q, totals* sum);
  void serve(part& p, bool alone);
  gpuhash_status run_by_itself(part& p, bool look, gpuhash_error* err);
  gpuhash_status run_by_building(const request& q, totals* sum, bool* done, gpuhash_error* err);
  gpuhash_status run_on_cuda(part& p, bool growing, bool look, gpuhash_status* grown, gpuhash_error* err);
  gpuhash_status run_beside(part& p, bool claims, totals* counters, bool* ran, gpuhash_error* err);
  gpuhash_status run_alone(part& p, bool growing, bool look, gpuhash_status* grown, gpuhash_error* err);
  gpuhash_status queue(part& p, totals* counters, bool held, gpuhash_error* err);
  int queue_by_parts(const request& q, bool held, bool* queued);
  gpuhash_status look_at(part& p, const totals* counters, gpuhash_error* err);
  gpuhash_status capture(request q, void* graph, bool growing, bool counts, gpuhash_error* err);
  gpuhash_status captured_by(void* stream, void** graph, gpuhash_error* err);
  gpuhash_status refuse_capture(void* stream, gpuhash_error* err);

  // growth.hpp
  gpuhash_status claim_room(part& p, room_ledger::claim* c, gpuhash_error* err);
  bool many_parts(size_t n) const;
  bool may_estimate(const part& p) const;
  gpuhash_status expect_newcomers(part& p, gpuhash_error* err);
  gpuhash_status claim_by_guess(part& p, room_ledger::claim* c, gpuhash_error* err);
  template <class To>
  auto add_keys(To& to, const request& q, size_t begin, size_t end) const;
  distinct_map::range distinct_keys(const request& q, size_t n) const;
  std::unique_ptr<few_distinct> few_keys(const request& q, size_t n) const;
  gpuhash_status claim_for_distinct(part& p, room_ledger::claim* c, bool* decided, gpuhash_error* err);
  gpuhash_status adding_elements(const request& q, const uint8_t* there, size_t n, uint64_t* adding,
                                 gpuhash_error* err);
  gpuhash_status taking_elements(const request& q, size_t n, uint64_t* taking, gpuhash_error* err);
  gpuhash_status newcomers(part& p, gpuhash_error* err);
  gpuhash_status look_further(part& p, gpuhash_error* err);
  gpuhash_status count_present(const request& q, uint8_t* there, size_t n, uint64_t* present, gpuhash_error* err);
  gpuhash_status count_absent(const request& q, const few_distinct& keys, uint64_t* absent, gpuhash_error* err);
  gpuhash_status widen(part& p, gpuhash_error* err);
  gpuhash_status grow_after(const part& p, gpuhash_error* err);

  // full_table.hpp
  struct slice;
  gpuhash_status serve_within_limit(part& p, gpuhash_error* err);
  gpuhash_status find_slice(const part& p, slice& s, gpuhash_error* err);
  gpuhash_status serve_slice(part& p, slice& s, gpuhash_error* err);

  static gpuhash_status bad_ops(uint64_t n, gpuhash_error* err);
  static gpuhash_status no_place(uint64_t keys, gpuhash_error* err);
  gpuhash_status tell_untold(void* stream, gpuhash_error* err);
  void complete(ordered_request& q) const;  // what follows from the table
  gpuhash_status ask_ordered(ordered_request& q, int (*serve)(const void*, const ordered_request&), gpuhash_error* err);

  friend class exclusive;
  friend struct table_under_test;  // tests/kit
  host_gate host_gate_;            // CPU
  stream_gate gate_;               // CUDA, under launch_
  graphs graphs_;                  // likewise
  kit_mutex launch_;
  room_ledger room_;
  uint64_t growths_ = 0;            // written exclusively
  kit_atomic<uint64_t> failed_{0};  // elements that calls have reported
  // CUDA: batches that nobody waited for may have failed elements, which the next call that waits reports.
  bool unwatched_ = false;  // some were queued since; under launch_
  totals told_{};           // the header's sums when it was last reported; exclusively
  // CUDA: elements that were added since the table was empty, at most; under launch_. A graph may add at any time.
  static constexpr uint64_t any_number = uint64_t(1) << 63;
  uint64_t added_ = 0;
};

inline table::table(const setup& s)
    : config_(s.config), memory_(s.config.memory ? *s.config.memory : gpuhash_memory{}), api_(*s.api), gate_(*s.api) {
  config_.memory = s.config.memory ? &memory_ : nullptr;
  config_.backend = nullptr;  // the caller's strings end with create
  config_.options = nullptr;
  config_.n_options = 0;
  const bool narrow = config_.key_bytes == 4 && config_.value_bytes <= 4;
  format_ = config_.value_bytes ? (narrow ? format_pair32 : format_pair64) : (narrow ? format_set32 : format_set64);
  engine_ = s.engines + format_;
}

inline gpuhash_status table::fault(gpuhash_error* err, int e, const char* doing) {
  if (e == api_.out_of_memory)
    return host->fail(err, GPUHASH_NO_MEMORY, "%s: out of memory%s; free some, or ask for a smaller capacity", doing,
                      on_cuda() ? " on the device" : "");
  poisoned_ = true;
  return host->fail(err, GPUHASH_DEVICE_ERROR, "%s failed: %s; the table is unusable now and can only be destroyed",
                    doing, api_.error_text(e));
}

inline void* table::take_memory(size_t bytes, void* stream) {
  if (has_resource()) return memory_.allocate(memory_.context, bytes, 128, stream);
  if (config_.memory) return take_host_memory(bytes);
  void* p = nullptr;
  return api_.allocate(&p, bytes, stream) == 0 ? p : nullptr;
}

inline void table::give_memory(void* p, size_t bytes, void* stream) {
  if (config_.memory)
    memory_.deallocate(memory_.context, p, bytes, 128, stream);
  else
    api_.release(p, stream);
}

template <class FreeAll>
inline void table::dismantle(FreeAll free_all) {
  on_device scope(*this);
  const borrowed_stream own(*this);
  // Where the device could not be made current a stream of it that was idle still reaches it; without that nothing does.
  if (scope.error && own.error) return;
  own_stream_ = own.get();                 // or the default stream, if there is no other
  if (!ready_) api_.wait(config_.stream);  // create has failed, and its stream is there still
  {
    exclusive hold(*this, own_stream_);  // after every batch of every stream
    api_.wait(own_stream_);
    // Everything is at rest. The caller's resource may keep a stream that it is given, so it does not get ours.
    void* const stream = config_.memory ? nullptr : own_stream_;
    free_all(stream);
    drop(header_, stream);
  }
}

}  // namespace gpuhash

#include "libgpuhash/kit/batches.hpp"
#include "libgpuhash/kit/growth.hpp"
#include "libgpuhash/kit/whole_table.hpp"
