// The host side of a table, common to all structures: checks that only a table can make, requests, the gate, counters,
// growth, exclusive operations, and what happens after a device fault. A structure derives from `table` and says how its
// storage is laid out, grown and tested (flat_table.hpp does most of it for structures in one piece of memory).
//
// How counters work: every batch adds to `totals` in the header, which lies in the table's own memory. live and used are
// exact whenever no batch runs. Growth needs to know before a batch how many keys may still be added: booked_ is an upper
// bound of used that counts every element of the batches since the counters were last read.
#pragma once
#include <omp.h>
#include <string.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "gpuhash/plugin.h"
#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/gate.hpp"

namespace gpuhash {

extern const gpuhash_host_api* host;  // set by plugin init (kit/plugin.hpp)

inline constexpr size_t side_bytes = 32;  // two slots of at most 16 bytes
struct header {
  unsigned char side[side_bytes];
  totals sum[total_stripes];  // the CPU uses the first
};

class table {
 public:
  struct setup {
    gpuhash_config config;
    const device_api* api;
    const engine* engines;  // of config.device, indexed by format_id
  };

  explicit table(const setup& s)
      : config_(s.config), memory_(s.config.memory ? *s.config.memory : gpuhash_memory{}), api_(*s.api), gate_(*s.api) {
    config_.memory = s.config.memory ? &memory_ : nullptr;
    config_.backend = nullptr, config_.options = nullptr,
    config_.n_options = 0;  // the caller's strings end with create
    const bool narrow = config_.key_bytes == 4 && config_.value_bytes <= 4;
    format_ = config_.value_bytes ? (narrow ? format_pair32 : format_pair64) : (narrow ? format_set32 : format_set64);
    engine_ = s.engines + format_;
  }
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
  gpuhash_status check(gpuhash_error* err);
  gpuhash_status stats(size_t* n, gpuhash_stat* out, gpuhash_error* err);
  gpuhash_status histogram(size_t n, uint64_t* counts, gpuhash_error* err);

 protected:
  // ---- what a structure supplies. All but limit() are called with the table held exclusively. --------------------
  virtual const void* layout() const = 0;  // what kernels get, copied at each call
  virtual uint64_t cells() const = 0;      // for collect
  virtual uint64_t slots() const = 0;
  virtual uint64_t bytes() const = 0;
  virtual uint64_t limit() const = 0;  // used slots at which the table wants to grow
  virtual gpuhash_status empty_storage(void* stream, gpuhash_error* err) = 0;
  virtual gpuhash_status resize(uint64_t keys, void* stream, gpuhash_error* err) = 0;  // rebuild for so many keys
  virtual gpuhash_status make_room(uint64_t keys, void* stream, gpuhash_error* err) {  // reserve
    return keys <= limit() ? gpuhash_status(GPUHASH_OK) : resize(keys, stream, err);
  }
  virtual gpuhash_status inspect(gpuhash_error* err) = 0;  // check
  virtual void figures(std::vector<gpuhash_stat>& out) = 0;
  virtual gpuhash_status distances(size_t n, uint64_t* counts, gpuhash_error* err) = 0;
  virtual void tune(request&) const {}
  virtual gpuhash_status refuse(const gpuhash_batch&, gpuhash_error*) const {
    return GPUHASH_OK;
  }  // what options rule out
  virtual gpuhash_status compact(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) {  // flush
    if (first || count != ~uint64_t(0))
      return host->fail(err, GPUHASH_UNSUPPORTED, "this backend flushes as a whole; call gpuhash_flush");
    return resize(limit(), stream, err);
  }
  // May an adding batch of n elements run out of room although book() let it pass? Then it is watched, and retried after
  // more_room. On CUDA watching costs a wait for the batch.
  virtual bool may_run_out(size_t) { return !on_cuda(); }
  virtual gpuhash_status more_room(void* stream, gpuhash_error* err) { return resize(2 * limit(), stream, err); }
  virtual gpuhash_status exhausted(uint64_t failed, uint64_t n, gpuhash_error* err) {
    return host->fail(
        err, GPUHASH_FULL,
        "%llu of %llu elements found no room in a table of %llu slots; reserve more and retry those whose status is 2",
        (unsigned long long)failed, (unsigned long long)n, (unsigned long long)slots());
  }

  // ---- services ---------------------------------------------------------------------------------------------------
  bool on_cuda() const { return config_.device.kind == GPUHASH_CUDA; }
  uint32_t threads() const { return config_.threads ? config_.threads : uint32_t(omp_get_max_threads()); }

  // A device error: the table is unusable from here on, unless it was memory that ran out.
  gpuhash_status fault(gpuhash_error* err, int e, const char* doing) {
    if (e == api_.out_of_memory)
      return host->fail(err, GPUHASH_NO_MEMORY, "%s: out of memory%s; free some, or ask for a smaller capacity", doing,
                        on_cuda() ? " on the device" : "");
    poisoned_ = true;
    return host->fail(err, GPUHASH_DEVICE_ERROR, "%s failed: %s; the table is unusable now and can only be destroyed",
                      doing, api_.error_text(e));
  }
  gpuhash_status poisoned(gpuhash_error* err) const {
    return host->fail(err, GPUHASH_POISONED,
                      "an earlier device error left this table unusable; destroy it and build a new one");
  }

  // Storage of the table's device, through the caller's memory resource if there is one.
  void* take_memory(size_t bytes, void* stream) {
    if (config_.memory) return memory_.allocate(memory_.context, bytes, 128, stream);
    void* p = nullptr;
    return api_.allocate(&p, bytes, stream) == 0 ? p : nullptr;
  }
  void give_memory(void* p, size_t bytes, void* stream) {
    if (!p) return;
    if (config_.memory)
      memory_.deallocate(memory_.context, p, bytes, 128, stream);
    else
      api_.release(p, stream);
  }
  struct block {  // owned memory of the device
    table* of = nullptr;
    void* p = nullptr;
    size_t bytes = 0;
    void* stream = nullptr;
    block() = default;
    block(table* t, size_t b, void* s) : of(t), p(b ? t->take_memory(b, s) : nullptr), bytes(b), stream(s) {}
    block(block&& o) noexcept { swap(o); }
    block& operator=(block&& o) noexcept { return swap(o), *this; }
    ~block() {
      if (p) of->give_memory(p, bytes, stream);
    }
    void swap(block& o) {
      std::swap(of, o.of), std::swap(p, o.p), std::swap(bytes, o.bytes), std::swap(stream, o.stream);
    }
    explicit operator bool() const { return p != nullptr || bytes == 0; }
  };
  gpuhash_status no_memory(gpuhash_error* err, uint64_t bytes) const {
    return host->fail(
        err, GPUHASH_NO_MEMORY,
        "%llu bytes for the table could not be allocated; free some memory, or ask for a smaller capacity",
        (unsigned long long)bytes);
  }

  gpuhash_status make_header(void* stream, gpuhash_error* err);
  // Insert every live pair of cells 0..cells of layout `from` into layout `to`, `step` cells at a time, which hold at most
  // `most` pairs. *moved counts the slots used. may_add: where there is no room, more_room() makes some.
  gpuhash_status move_pairs(const void* from, uint64_t cells, uint64_t step, uint64_t most, uint32_t kind,
                            uint64_t* moved, void* stream, gpuhash_error* err, bool may_add = false);
  header* head() const { return static_cast<header*>(header_.p); }
  void book_used(uint64_t used) {  // after a rebuild: what is used now
    std::lock_guard<std::mutex> lock(booking_);
    booked_ = on_cuda() ? used + waiting_ : 0;
  }
  uint64_t waiting() {
    std::lock_guard<std::mutex> lock(booking_);
    return waiting_;
  }
  gpuhash_status read_totals(totals* out, void* stream, gpuhash_error* err);

  // Use the device of the table on the calling thread, for the scope's life.
  class on_device {
   public:
    explicit on_device(const table& t) : api_(t.api_) {
      entered_ = api_.enter(t.config_.device.ordinal, &before_) == 0;
    }
    ~on_device() {
      if (entered_) api_.leave(before_);
    }

   private:
    const device_api& api_;
    int before_ = 0;
    bool entered_;
  };

  // The table to oneself. On CUDA the work queued on `stream` inside runs after everything queued so far.
  class exclusive {
   public:
    exclusive(table& t, void* stream) : t_(t), stream_(stream) {
      if (t_.on_cuda())
        t_.launch_.lock(), error = t_.gate_.before_exclusive(stream);
      else
        t_.host_gate_.lock();
    }
    ~exclusive() {
      if (t_.on_cuda())
        t_.gate_.after_exclusive(stream_), t_.launch_.unlock();
      else
        t_.host_gate_.unlock();
    }
    int error = 0;

   private:
    table& t_;
    void* stream_;
  };

  gpuhash_config config_;
  gpuhash_memory memory_;
  const device_api& api_;
  const engine* engine_;
  format_id format_;
  std::atomic<bool> poisoned_{false};
  uint64_t rebuilds_ = 0;
  block header_;

 private:
  request request_for(const gpuhash_batch& b) const;
  static request part_of(request q, size_t first, size_t n);
  gpuhash_status run_part(request q, bool booked, totals* counts, gpuhash_error* err);
  // How many of n more keys may be added now; makes room first if there is too little. Books them.
  size_t book(size_t n, void* stream, gpuhash_error* err, gpuhash_status* grown);
  bool try_book(size_t n, size_t* granted);

  friend class exclusive;
  host_gate host_gate_;  // CPU
  stream_gate gate_;     // CUDA, under launch_
  std::mutex launch_;
  std::mutex booking_;
  uint64_t booked_ = 0;   // CUDA: upper bound of used, waiting_ included. CPU: elements of the batches that run now
  uint64_t waiting_ = 0;  // elements that are booked, but whose batch is not queued yet (CUDA) or not done (CPU)
};

// ---- batches ----------------------------------------------------------------------------------------------------------

inline bool adds(uint32_t op) {
  return op == GPUHASH_OP_INSERT || op == GPUHASH_OP_ASSIGN || op == GPUHASH_OP_ACCUMULATE ||
         op == GPUHASH_OP_INSERT_MULTI || op == GPUHASH_OP_EXECUTE;
}

inline request table::request_for(const gpuhash_batch& b) const {
  request q{};
  q.kind = b.op;
  q.combine = b.combine, q.value_type = b.value_type;
  q.n = b.n;
  q.keys = b.keys, q.values = b.values, q.out_values = b.out_values, q.status = b.out_status, q.ops = b.ops;
  q.key_bytes = config_.key_bytes, q.value_bytes = config_.value_bytes ? config_.value_bytes : config_.key_bytes;
  if (!config_.value_bytes) q.values = nullptr, q.out_values = b.op == GPUHASH_OP_COUNT ? b.out_values : nullptr;
  q.threads = threads();
  q.stream = b.stream;
  tune(q);
  return q;
}

inline gpuhash_status table::run(const gpuhash_batch& b, gpuhash_error* err) {
  if (poisoned_) return poisoned(err);
  if (b.counts) *b.counts = {0, 0};
  if (b.n == 0) return GPUHASH_OK;
  if (b.flags & GPUHASH_DEDUP_LAST)
    return host->fail(
        err, GPUHASH_UNSUPPORTED,
        "this backend takes duplicates of a batch in some serial order; remove them first, or pass no dedup flag");
  if (b.op == GPUHASH_OP_ACCUMULATE && !config_.value_bytes)
    return host->fail(err, GPUHASH_UNSUPPORTED,
                      "accumulate needs values, and this table is a set; create it with value_bytes 4 or 8");
  if (const gpuhash_status s = refuse(b, err)) return s;
  on_device scope(*this);
  const request q = request_for(b);
  const bool adding = adds(b.op), counting = b.counts || !on_cuda();
  totals sum{};
  gpuhash_status grown = GPUHASH_OK;
  for (size_t done = 0; done < b.n;) {
    size_t part = b.n - done;
    const bool booked = config_.grow && adding;
    if (booked) part = book(part, b.stream, err, &grown);
    const bool watched = booked && may_run_out(part);
    totals now{};
    block own_status;
    request qp = part_of(q, done, part);
    if (watched && !qp.status) {  // a retry has to know which elements to leave alone
      own_status = block(this, part, b.stream);
      qp.status = static_cast<uint8_t*>(own_status.p);
    }
    if (const gpuhash_status s = run_part(qp, booked, counting || watched ? &now : nullptr, err)) return s;
    while (watched && qp.status && now.failed && grown == GPUHASH_OK) {
      {
        exclusive hold(*this, b.stream);
        grown = hold.error ? fault(err, hold.error, "waiting for running batches") : more_room(b.stream, err);
      }
      if (grown != GPUHASH_OK) break;
      qp.only_failed = 1;
      totals again{};
      if (const gpuhash_status s = run_part(qp, false, &again, err)) return s;
      now.yes += again.yes, now.failed = again.failed;
    }
    sum.yes += now.yes, sum.failed += now.failed;
    done += part;
  }
  if (b.counts) *b.counts = {sum.yes, sum.failed};
  if (sum.failed == 0) return GPUHASH_OK;
  if (grown != GPUHASH_OK) return grown;  // the table wanted to grow and could not; err says why
  return exhausted(sum.failed, b.n, err);
}

inline request table::part_of(request q, size_t first, size_t n) {
  const auto skip = [first](const void* p, size_t width) {
    return p ? static_cast<const char*>(p) + first * width : nullptr;
  };
  q.n = n;
  q.keys = skip(q.keys, q.key_bytes);
  q.values = skip(q.values, q.value_bytes);
  q.out_values = const_cast<char*>(skip(q.out_values, q.kind == GPUHASH_OP_COUNT ? sizeof(uint64_t) : q.value_bytes));
  if (q.status) q.status += first;
  if (q.ops) q.ops += first;
  return q;
}

inline gpuhash_status table::run_part(request q, bool booked, totals* counts, gpuhash_error* err) {
  if (!on_cuda()) {
    if (!booked) host_gate_.lock_shared();  // a booking holds the gate for us
    totals part{};
    engine_->run(layout(), q, &part);
    totals& all = head()->sum[0];
    __atomic_fetch_add(&all.live, part.live, __ATOMIC_RELAXED);
    __atomic_fetch_add(&all.used, part.used, __ATOMIC_RELAXED);
    __atomic_fetch_add(&all.failed, part.failed, __ATOMIC_RELAXED);
    counts->yes += part.yes, counts->failed += part.failed;
    if (booked) {
      std::lock_guard<std::mutex> lock(booking_);
      booked_ -= q.n, waiting_ -= q.n;
    }
    host_gate_.unlock_shared();
    return GPUHASH_OK;
  }

  const struct queued {  // however this ends, the batch no longer waits to be queued
    ~queued() {
      std::lock_guard<std::mutex> lock(t.booking_);
      t.waiting_ -= n;
    }
    table& t;
    size_t n;
  } at_the_end{*this, booked ? q.n : 0};
  block scratch;
  if (counts) {
    scratch = block(this, sizeof(totals) * total_stripes, q.stream);
    if (!scratch) return no_memory(err, scratch.bytes);
    if (const int e = api_.fill(scratch.p, 0, scratch.bytes, q.stream)) return fault(err, e, "preparing a batch");
    q.batch_sum = static_cast<totals*>(scratch.p);
  }
  {
    std::lock_guard<std::mutex> lock(launch_);
    const bool writes = q.kind != GPUHASH_OP_FIND && q.kind != GPUHASH_OP_COUNT;
    bool alone = false;
    int e = gate_.before_batch(q.stream, writes, &alone);
    q.alone = alone;
    if (!e) e = engine_->run(layout(), q, head()->sum);
    if (!e) e = gate_.after_batch(q.stream, writes, alone);
    if (e) return fault(err, e, "running a batch");
  }
  if (counts) {
    totals part[total_stripes];
    int e = api_.copy(part, scratch.p, sizeof(part), q.stream);
    if (!e) e = api_.wait(q.stream);
    if (e) return fault(err, e, "a batch");
    for (const totals& p : part) counts->yes += p.yes, counts->failed += p.failed;
  }
  return GPUHASH_OK;
}

// ---- growth -----------------------------------------------------------------------------------------------------------

// Parts of a batch smaller than this are not worth a rebuild's wait: with less room the table grows.
inline size_t smallest_part(uint64_t limit, size_t n) {
  const uint64_t part = limit / 8 < 512 ? 512 : limit / 8;
  return part < n ? size_t(part) : n;
}

inline bool table::try_book(size_t n, size_t* granted) {
  // On the CPU the shared gate keeps exclusive operations away; on CUDA the launch mutex does, which they hold.
  std::unique_lock<std::mutex> launch(launch_, std::defer_lock);
  if (on_cuda()) launch.lock();
  std::lock_guard<std::mutex> lock(booking_);
  const uint64_t used = on_cuda() ? 0 : uint64_t(__atomic_load_n(&head()->sum[0].used, __ATOMIC_RELAXED));
  const uint64_t taken = used + booked_;
  const uint64_t room = limit() > taken ? limit() - taken : 0;
  if (room < smallest_part(limit(), n)) return false;
  *granted = room < n ? size_t(room) : n;
  booked_ += *granted, waiting_ += *granted;
  return true;
}

inline size_t table::book(size_t n, void* stream, gpuhash_error* err, gpuhash_status* grown) {
  size_t granted = n;
  const auto book_all = [&] {  // no growth is possible: let the elements that find no room say so
    std::lock_guard<std::mutex> lock(booking_);
    booked_ += n, waiting_ += n;
    return n;
  };
  if (!on_cuda()) host_gate_.lock_shared();
  if (*grown != GPUHASH_OK) return book_all();
  if (try_book(n, &granted)) return granted;
  for (;;) {
    if (!on_cuda()) host_gate_.unlock_shared();
    {
      exclusive hold(*this, stream);
      totals now{};
      *grown = hold.error ? fault(err, hold.error, "waiting for running batches") : read_totals(&now, stream, err);
      if (*grown == GPUHASH_OK) {
        book_used(uint64_t(now.used));
        const uint64_t live = uint64_t(now.live),
                       dead = uint64_t(now.used) - (live < uint64_t(now.used) ? live : uint64_t(now.used));
        const uint64_t taken = uint64_t(now.used) + waiting(), room = limit() > taken ? limit() - taken : 0;
        if (room < smallest_part(limit(), n)) {
          // A rebuild in place is enough when it frees as much as growing would; otherwise at least double.
          const uint64_t most = n > 4 * limit() ? 4 * limit() : 2 * limit();
          *grown = resize(
              dead > uint64_t(now.used) / 2 ? (limit() > live + smallest_part(limit(), n) ? limit() : most) : most,
              stream, err);
        }
      }
    }
    if (!on_cuda()) host_gate_.lock_shared();
    if (*grown != GPUHASH_OK) return book_all();
    if (try_book(n, &granted)) return granted;
  }
}

// ---- rebuilding -------------------------------------------------------------------------------------------------------

inline gpuhash_status table::move_pairs(const void* from, uint64_t cells, uint64_t step, uint64_t most, uint32_t kind,
                                        uint64_t* moved, void* stream, gpuhash_error* err, bool may_add) {
  *moved = 0;
  if (cells == 0 || most == 0) return GPUHASH_OK;
  const uint32_t kb = format_ == format_set32 || format_ == format_pair32 ? 4 : 8, vb = config_.value_bytes ? kb : 0;
  block keys(this, most * kb, stream), values(this, most * vb, stream), status(this, most, stream);
  block counter(this, sizeof(uint64_t), stream), sum(this, sizeof(totals) * total_stripes, stream);
  if (!keys || !values || !status || !counter || !sum) return no_memory(err, keys.bytes + values.bytes + status.bytes);
  // The driver reads the first element even where there are none.
  int begun = api_.fill(keys.p, 0, kb, stream);
  if (!begun && vb) begun = api_.fill(values.p, 0, vb, stream);
  if (begun) return fault(err, begun, "rebuilding the table");
  request q{};
  q.kind = kind, q.n = most, q.n_there = static_cast<uint64_t*>(counter.p);
  q.keys = keys.p, q.values = values.p, q.status = static_cast<uint8_t*>(status.p);
  q.key_bytes = kb, q.value_bytes = vb ? vb : kb;
  q.threads = threads(), q.stream = stream;
  tune(q);
  for (uint64_t lo = 0; lo < cells; lo += step) {
    const uint64_t hi = lo + step < cells ? lo + step : cells;
    int e = api_.fill(counter.p, 0, sizeof(uint64_t), stream);
    if (!e)
      e = engine_->collect(from, lo, hi, keys.p, values.p, q.key_bytes, q.value_bytes,
                           static_cast<uint64_t*>(counter.p), q.threads, stream);
    for (q.only_failed = 0;; q.only_failed = 1) {
      totals part[total_stripes] = {};
      if (!e) e = api_.fill(sum.p, 0, sum.bytes, stream);
      if (!e) e = engine_->run(layout(), q, static_cast<totals*>(sum.p));
      if (!e) e = api_.copy(part, sum.p, sizeof(part), stream);
      if (!e) e = api_.wait(stream);
      if (e) return fault(err, e, "rebuilding the table");
      uint64_t failed = 0;
      for (uint32_t i = 0; i < total_stripes; ++i) *moved += uint64_t(part[i].used), failed += part[i].failed;
      if (!failed) break;
      if (!may_add)
        return host->fail(
            err, GPUHASH_FULL,
            "%llu keys found no place while the table was rebuilt; reserve more, or raise the option probe_limit",
            (unsigned long long)failed);
      if (const gpuhash_status s = more_room(stream, err)) return s;
    }
  }
  return GPUHASH_OK;
}

// ---- exclusive operations ---------------------------------------------------------------------------------------------

inline gpuhash_status table::make_header(void* stream, gpuhash_error* err) {
  header_ = block(this, sizeof(header), stream);
  if (!header_) return no_memory(err, sizeof(header));
  int e = api_.fill(head()->side, 0xff, side_bytes, stream);
  if (!e) e = api_.fill(head()->sum, 0, sizeof(head()->sum), stream);
  return e ? fault(err, e, "initialising the table") : gpuhash_status(GPUHASH_OK);
}

inline gpuhash_status table::read_totals(totals* out, void* stream, gpuhash_error* err) {
  totals stripe[total_stripes];
  int e = api_.copy(stripe, head()->sum, sizeof(stripe), stream);
  if (!e) e = api_.wait(stream);
  *out = {};
  for (const totals& s : stripe) out->live += s.live, out->used += s.used, out->yes += s.yes, out->failed += s.failed;
  return e ? fault(err, e, "reading the table's counters") : gpuhash_status(GPUHASH_OK);
}

// Opens an exclusive operation: `hold` in scope, or return.
#define GPUHASH_EXCLUSIVE(stream_)     \
  if (poisoned_) return poisoned(err); \
  on_device scope(*this);              \
  exclusive hold(*this, stream_);      \
  if (hold.error) return fault(err, hold.error, "waiting for running batches")

inline gpuhash_status table::info(gpuhash_table_info* out, gpuhash_error* err) {
  totals now{};
  {
    GPUHASH_EXCLUSIVE(nullptr);
    if (const gpuhash_status s = read_totals(&now, nullptr, err)) return s;
    out->device = config_.device;
    out->key_bytes = config_.key_bytes, out->value_bytes = config_.value_bytes;
    out->size = uint64_t(now.live), out->used = uint64_t(now.used);
    out->slots = slots(), out->capacity = limit() < slots() ? limit() : slots(), out->bytes = bytes() + sizeof(header);
    out->seed = config_.seed, out->rebuilds = rebuilds_;
    out->max_load_factor = config_.max_load_factor;
  }
  return GPUHASH_OK;
}

inline gpuhash_status table::export_pairs(size_t* n, void* keys, void* values, void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(stream);
  totals now{};
  if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
  const size_t room = *n;
  *n = size_t(now.live);
  if (!keys || now.live == 0) return GPUHASH_OK;
  if (room < size_t(now.live))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "the table holds %llu pairs and the arrays have room for %llu",
                      (unsigned long long)now.live, (unsigned long long)room);
  const uint32_t vb = config_.value_bytes ? config_.value_bytes : config_.key_bytes;
  void* const out_values = config_.value_bytes ? values : nullptr;

  block counter(this, sizeof(uint64_t), stream);
  if (!counter) return no_memory(err, sizeof(uint64_t));
  int e = api_.fill(counter.p, 0, sizeof(uint64_t), stream);
  if (!e)
    e = engine_->collect(layout(), 0, cells(), keys, out_values, config_.key_bytes, vb,
                         static_cast<uint64_t*>(counter.p), threads(), stream);
  uint64_t found = 0;
  header mine;
  if (!e) e = api_.copy(&found, counter.p, sizeof(found), stream);
  if (!e) e = api_.copy(&mine, head(), sizeof(mine), stream);
  if (!e) e = api_.wait(stream);
  // The two side keys, from their words: half of a word is the key's presence, the rest its value.
  const size_t word = format_ == format_set32    ? 4
                      : format_ == format_pair64 ? 16
                                                 : 8,
               half = config_.value_bytes ? word / 2 : word;
  for (uint64_t side = 0; !e && side < 2; ++side) {
    const unsigned char* w = mine.side + side * word;
    bool absent = true;
    for (size_t i = 0; i < half; ++i) absent &= w[i] == 0xff;
    if (absent) continue;
    const uint64_t key = ~uint64_t(0) - side;
    if (found >= room) return host->fail(err, GPUHASH_INTERNAL, "the table holds more pairs than its counters say");
    e = api_.copy(static_cast<char*>(keys) + found * config_.key_bytes, &key, config_.key_bytes, stream);
    if (!e && out_values) e = api_.copy(static_cast<char*>(out_values) + found * vb, w + half, vb, stream);
    ++found;
  }
  if (!e) e = api_.wait(stream);
  if (e) return fault(err, e, "exporting");
  *n = size_t(found);
  return GPUHASH_OK;
}

inline gpuhash_status table::clear(void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(stream);
  if (const gpuhash_status s = empty_storage(stream, err)) return s;
  int e = api_.fill(head()->side, 0xff, side_bytes, stream);
  if (!e) e = api_.fill(head()->sum, 0, sizeof(head()->sum), stream);
  if (e) return fault(err, e, "clearing the table");
  book_used(0);
  return GPUHASH_OK;
}

inline gpuhash_status table::reserve(uint64_t keys, void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(stream);
  return make_room(keys, stream, err);
}

inline gpuhash_status table::shrink(void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(stream);
  totals now{};
  if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
  return resize(uint64_t(now.live) + waiting(), stream, err);
}

inline gpuhash_status table::flush(uint64_t first, uint64_t count, void* stream, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(stream);
  return compact(first, count, stream, err);
}

inline gpuhash_status table::find_all(size_t n, const void* keys, uint64_t* offsets, void* values, size_t max_values,
                                      void* stream, gpuhash_error* err) {
  if (!engine_->values_of)
    return host->fail(err, GPUHASH_UNSUPPORTED, "this backend holds one value per key; use find");
  GPUHASH_EXCLUSIVE(stream);
  std::vector<uint64_t> at(n + 1, 0);
  block counts(this, n * sizeof(uint64_t), stream);
  if (!counts) return no_memory(err, counts.bytes);
  gpuhash_batch b = GPUHASH_BATCH_INIT;
  b.op = GPUHASH_OP_COUNT, b.n = n, b.keys = keys, b.stream = stream;
  request q = request_for(b);
  q.out_values = counts.p;
  totals ignored{};
  int e = n ? engine_->run(layout(), q, on_cuda() ? head()->sum : &ignored) : 0;
  if (!e && n) e = api_.copy(at.data() + 1, counts.p, n * sizeof(uint64_t), stream);
  if (!e) e = api_.wait(stream);
  for (size_t i = 0; i < n; ++i) at[i + 1] += at[i];
  if (!e) e = api_.copy(offsets, at.data(), at.size() * sizeof(uint64_t), stream);
  if (!e) e = api_.wait(stream);
  if (e) return fault(err, e, "counting values");
  if (!values || !config_.value_bytes || at[n] == 0) return GPUHASH_OK;
  if (max_values < at[n])
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "the keys have %llu values and the array has room for %llu",
                      (unsigned long long)at[n], (unsigned long long)max_values);
  q.out_values = values, q.kind = GPUHASH_OP_FIND;
  e = engine_->values_of(layout(), q, offsets);
  if (!e) e = api_.wait(stream);
  return e ? fault(err, e, "copying values") : gpuhash_status(GPUHASH_OK);
}

inline gpuhash_status table::check(gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(nullptr);
  return inspect(err);
}

inline gpuhash_status table::histogram(size_t n, uint64_t* counts, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(nullptr);
  memset(counts, 0, n * sizeof(uint64_t));
  return distances(n, counts, err);
}

inline gpuhash_status table::stats(size_t* n, gpuhash_stat* out, gpuhash_error* err) {
  GPUHASH_EXCLUSIVE(nullptr);
  totals now{};
  if (const gpuhash_status s = read_totals(&now, nullptr, err)) return s;
  std::vector<gpuhash_stat> all;
  const auto add = [&all](const char* name, double value) {
    gpuhash_stat s{};
    strncpy(s.name, name, sizeof(s.name) - 1);
    s.value = value;
    all.push_back(s);
  };
  add("size", double(now.live));
  add("used", double(now.used));
  add("slots", double(slots()));
  add("load_factor", slots() ? double(now.used) / double(slots()) : 0.0);
  add("bytes", double(bytes() + sizeof(header)));
  add("rebuilds", double(rebuilds_));
  add("failed", double(now.failed));
  figures(all);
  for (size_t i = 0; i < all.size() && i < *n; ++i) out[i] = all[i];
  *n = all.size();
  return GPUHASH_OK;
}

}  // namespace gpuhash
