// The host side of a table, common to all structures: checks that only a table can make, requests, the gate, growth,
// exclusive operations, and what happens after a device fault. A structure derives from `table` and says how its storage
// is laid out and grown (flat_table.hpp does most of it for structures in one piece of memory). What it has beside that
// are objects: an inspector; where more than slots may run out, an estimate of room; perhaps a builder.
//
//   table.hpp          this file: what a structure supplies, and what it gets
//   context.hpp        configuration, device, memory, counters, device errors
//   batches.hpp        run: a batch in parts, each with room that was claimed for it, retries
//   growth.hpp         how much room a batch needs, and how the table comes to have it
//   moving.hpp         rebuilding: every pair of one storage into another
//   full_table.hpp     the rest of a batch where there is no memory to grow
//   whole_table.hpp    exclusive operations: export, clear, reserve, ...
//   export_part.hpp    the same in parts, with a cursor
//   exclusive.hpp      how those begin
//   statistics.hpp     check, stats, histogram
//   inspector.hpp      a structure at rest, as host memory sees it
//   room.hpp           the accounting of slots
//   room_estimate.hpp  whether what was claimed is sure to fit
//   bulk_builder.hpp   a batch that is served by building storage anew
//   gate.hpp           who may touch the storage, and when
#pragma once
#include <string.h>

#include <memory>
#include <optional>
#include <vector>

#include "libgpuhash/kit/adding.hpp"
#include "libgpuhash/kit/bulk_builder.hpp"
#include "libgpuhash/kit/context.hpp"
#include "libgpuhash/kit/distinct.hpp"
#include "libgpuhash/kit/divided.hpp"
#include "libgpuhash/kit/gate.hpp"
#include "libgpuhash/kit/graphs.hpp"
#include "libgpuhash/kit/inspector.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "libgpuhash/kit/parts.hpp"
#include "libgpuhash/kit/room.hpp"
#include "libgpuhash/kit/room_estimate.hpp"
#include "libgpuhash/kit/sizes.hpp"
#include "libgpuhash/kit/sketch.hpp"

namespace gpuhash {

// Of a structure and its options, for the life of a table.
struct table_facts {
  uint64_t traits = 0;           // what the table does, if less than its backend
  uint32_t line_cells = 1;       // cells that share a cache line, and neighbours of which may
  uint32_t exclusive_kinds = 0;  // batches of these kinds have the table to themselves
  uint32_t refused_kinds = 0;    // batches that its options rule out
  const char* refusal = "";      // the message for those
  bool exact_widths = false;     // pairs are moved with the sizes of the caller's arrays, rather than of words
  bool sets_as_pairs = false;    // slots of a set are pairs, too
  bool chains = false;           // a cell has any number of pairs, rather than one at most
  // Of a call of which elements found no room: "3 of 8 elements found no %s 64 %s".
  struct {
    gpuhash_status status = GPUHASH_FULL;
    const char* what = "room in a table of";
    const char* way_out = "slots; reserve more and retry those whose status is 2";
  } exhausted{};
};

class table : public table_context {
 public:
  explicit table(const setup& s, const table_facts& f = {}) : table_context(s), facts_(f), gate_(*s.api) {}
  virtual ~table() = default;

  gpuhash_status run(const gpuhash_batch& b, gpuhash_error* err);
  gpuhash_status info(gpuhash_table_info* out, gpuhash_error* err);
  gpuhash_status export_pairs(size_t* n, void* keys, void* values, void* stream, gpuhash_error* err);
  gpuhash_status export_part(gpuhash_export_cursor* c, size_t* n, void* keys, void* values, void* stream,
                             gpuhash_error* err);
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
  virtual const void* layout() const = 0;  // also by batches: what kernels get, copied at each call
  virtual uint64_t slots() const = 0;      // also by batches
  virtual uint64_t cells() const = 0;      // for collect
  virtual uint64_t bytes() const = 0;
  virtual uint64_t limit() const = 0;  // used slots at which the table wants to grow; it takes no more if it cannot
  // The number of keys up to which reserve() has to make no room, in a table that holds so many keys.
  virtual uint64_t capacity(uint64_t live) {
    (void)live;
    return limit() < slots() ? limit() : slots();
  }
  virtual gpuhash_status empty_storage(void* stream, gpuhash_error* err) = 0;
  // Rebuild for so many keys, or for those that are there if they are more. FULL: a pair finds no place in storage of that
  // size (a short probe limit, no stash, keys that were chosen for it). On failure the table is as before.
  virtual gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) = 0;
  gpuhash_status resize(uint64_t keys, void* stream, gpuhash_error* err);       // with larger storage where it is FULL
  gpuhash_status resize_down(uint64_t keys, void* stream, gpuhash_error* err);  // never to more memory than there is
  // Would a rebuild for so many keys take less memory?
  virtual bool smaller_for(uint64_t keys) const = 0;
  // For how many keys should the table have room next? It has room for `most`, and needs it for `least`.
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
  virtual std::unique_ptr<inspector> make_inspector() = 0;
  virtual uint64_t user_key(uint64_t key) const { return key; }  // of a side slot, as its user knows it
  virtual void tune(request&) const {}                           // by batches
  virtual gpuhash_status compact(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) {  // flush
    if (first || count != ~uint64_t(0))
      return host->fail(err, GPUHASH_UNSUPPORTED,
                        "this backend is flushed as a whole: flush without a range of buckets");
    return resize(limit(), stream, err);
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

  // ---- services ---------------------------------------------------------------------------------------------------
  gpuhash_status refuse_to_move(gpuhash_status status, gpuhash_error* err) const;  // whole_table.hpp
  // Cells or pairs are about to change, with the table held, or by a batch that has its turn (export_part.hpp).
  void changes() {
    if (stamp_.load(std::memory_order_relaxed)) stamp_.store(0, std::memory_order_relaxed);
  }
  // After a rebuild: the keys that are there now take so many slots.
  gpuhash_status write_used(const totals& before, uint64_t used, void* stream, gpuhash_error* err);
  gpuhash_status write_totals(const totals& now, void* stream, gpuhash_error* err);

  uint64_t used_on_host() {  // slots used, between batches; CPU
    host_gate_.lock_shared();
    const int64_t used = __atomic_load_n(&head()->sum[0].used, __ATOMIC_RELAXED);
    host_gate_.unlock_shared();
    return uint64_t(used);
  }
  bool stores_pairs() const { return config_.value_bytes != 0 || facts_.sets_as_pairs; }
  uint32_t word_half() const { return format_ == format_set32 || format_ == format_pair32 ? 4 : 8; }
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

  // For a destructor: wait until nothing runs, then free_all(stream) gives back what the structure holds.
  template <class FreeAll>
  void dismantle(FreeAll free_all);

  // Objects that a structure has beside its storage, and that the table owns. A structure without an estimate of its
  // own says of each storage whether a key finds a place up to limit(), whatever the keys are.
  void use_estimate(room_estimate& e) { estimate_ = &e; }
  void use_builder(bulk_builder& b) { builder_ = &b; }
  void storage_fits_surely(bool sure) { of_slots_.set(sure); }

  const table_facts facts_;
  bool ready_ = false;  // create has come to its end
  uint64_t rebuilds_ = 0;

 private:
  // A part of a batch on its way (batches.hpp).
  struct part {
    request q;
    totals sum{};          // what became of it, where its counters were read
    uint64_t slots = 0;    // of the table it ran on
    uint64_t growths = 0;  // of the table before it ran
    size_t window = 0;     // of its elements were looked at, and
    uint64_t need = 0;     // so many of them may each take a slot,
    enum {
      counted,    // by looking up keys
      estimated,  // CPU: by how many distinct keys the window has
      guessed     // CUDA: by a sample of the batch, all of which is the window
    } by = counted;
    struct expectation {
      uint64_t new_keys;  // that are absent, about
      bool mostly_new;    // most elements have such keys
      bool few_keys;      // all elements together have few
    };
    std::optional<expectation> expected;  // CUDA
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
  gpuhash_status read_counters(part& p, const totals* counters, gpuhash_error* err);
  gpuhash_status capture(request q, void* graph, bool growing, bool counts, gpuhash_error* err);
  gpuhash_status captured_by(void* stream, void** graph, gpuhash_error* err);
  gpuhash_status refuse_capture(void* stream, gpuhash_error* err);

  // growth.hpp
  gpuhash_status claim_room(part& p, room_ledger::claim* c, gpuhash_error* err);
  bool many_parts(size_t n) const;
  bool may_estimate(const part& p) const;
  gpuhash_status expect_new_keys(part& p, gpuhash_error* err);
  gpuhash_status claim_by_guess(part& p, room_ledger::claim* c, gpuhash_error* err);
  template <class To>
  auto add_keys(To& to, const request& q, size_t begin, size_t end) const;
  distinct_map::range distinct_keys(const request& q, size_t n) const;
  std::unique_ptr<few_distinct> few_keys(const request& q, size_t n) const;
  gpuhash_status claim_for_distinct(part& p, room_ledger::claim* c, bool* decided, gpuhash_error* err);
  gpuhash_status adding_elements(const request& q, const uint8_t* there, size_t n, uint64_t* adding,
                                 gpuhash_error* err);
  gpuhash_status taking_elements(const request& q, size_t n, uint64_t* taking, gpuhash_error* err);
  gpuhash_status count_new_keys(part& p, gpuhash_error* err);
  gpuhash_status look_further(part& p, gpuhash_error* err);
  gpuhash_status count_present(const request& q, uint8_t* there, size_t n, uint64_t* present, gpuhash_error* err);
  gpuhash_status count_absent(const request& q, const few_distinct& keys, uint64_t* absent, gpuhash_error* err);
  gpuhash_status grow_for(part& p, gpuhash_error* err);
  gpuhash_status grow_after(const part& p, gpuhash_error* err);

  gpuhash_status exhausted(uint64_t failed, uint64_t n, uint64_t slots, gpuhash_error* err) const;

  // full_table.hpp
  struct slice;
  gpuhash_status serve_within_limit(part& p, gpuhash_error* err);
  gpuhash_status find_slice(const part& p, slice& s, gpuhash_error* err);
  gpuhash_status serve_slice(part& p, slice& s, gpuhash_error* err);

  static gpuhash_status bad_ops(uint64_t n, gpuhash_error* err);
  static gpuhash_status no_place(uint64_t keys, gpuhash_error* err);
  gpuhash_status report_failures(void* stream, gpuhash_error* err);
  gpuhash_status inspect(std::unique_ptr<inspector>* out, gpuhash_error* err);
  const unsigned char* side_word(const header& h, uint64_t side) const;
  void complete(ordered_request& q) const;  // what follows from the table
  gpuhash_status ask_ordered(ordered_request& q, int (*serve)(const void*, const ordered_request&), gpuhash_error* err);

  // export_part.hpp
  gpuhash_status changed_since(gpuhash_export_cursor* c, gpuhash_error* err) const;
  gpuhash_status collect_cells(gpuhash_export_cursor* c, size_t* n, void* keys, void* values, void* stream,
                               gpuhash_error* err);
  gpuhash_status collect_next(const cell_order& order, const gpuhash_export_cursor& c, uint64_t* taken, size_t room,
                              size_t* found, void* keys, void* values, void* stream, gpuhash_error* err);
  gpuhash_status collect_in_order(gpuhash_export_cursor* c, size_t* n, void* keys, void* values, void* stream,
                                  gpuhash_error* err);

  friend class exclusive;
  friend struct table_under_test;  // tests/kit
  host_gate host_gate_;            // CPU
  stream_gate gate_;               // CUDA, under launch_
  graphs graphs_;                  // likewise
  kit_mutex launch_;
  room_ledger room_;
  room_estimate of_slots_;
  room_estimate* estimate_ = &of_slots_;  // CUDA
  bulk_builder* builder_ = nullptr;
  uint64_t growths_ = 0;  // written exclusively
  // The stamp of an export in parts. Not 0: nothing has changed since the export was given it. Set while the table is
  // held exclusively; batches that write clear it.
  kit_atomic<uint64_t> stamp_{0};
  uint64_t last_stamp_ = 0;         // exclusively
  kit_atomic<uint64_t> failed_{0};  // elements that calls have reported
  // CUDA: queued batches, whose calls have returned, may have failed elements, which the next call that waits reports.
  bool unwatched_ = false;  // some were queued since; under launch_
  totals reported_{};       // the header's sums when it was last reported; exclusively
  // CUDA: elements that were added since the table was empty, at most; under launch_. A graph may add at any time.
  static constexpr uint64_t any_number = uint64_t(1) << 63;
  uint64_t added_ = 0;
};

template <class FreeAll>
inline void table::dismantle(FreeAll free_all) {
  on_device scope(*this);
  const borrowed_stream own(*this);
  // If the device could not be made current, an idle stream of the device still reaches it; without such a stream
  // nothing does.
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
#include "libgpuhash/kit/export_part.hpp"
#include "libgpuhash/kit/growth.hpp"
#include "libgpuhash/kit/moving.hpp"
#include "libgpuhash/kit/statistics.hpp"
#include "libgpuhash/kit/whole_table.hpp"
