// Host arrays on a table of a GPU: gpuhash_run_staged (see <gpuhash/staging.h>).
//
// A chunk goes through five steps: other threads copy its part of the inputs into pinned memory (send), the upload stream
// copies that to the device (upload), the batch runs on the stream of the call (launch), the download stream copies results
// into pinned memory (fetch), and other threads copy them to where they belong (collect). As many chunks are under way at
// once as there are slots, each in a step of its own. The thread of the call looks what has ended, and begins what comes
// next; where nothing has ended, it copies too.
//
//   H1  A slot is written again when its results have been collected, which is after everything that used it.
//   H2  What was launched is collected, whatever happens: the status of each element is true.
//   H3  When the call returns nothing uses the slots any more, or it says so (in_doubt).
#include "gpuhash/staging.h"

#include <algorithm>
#include <cstdint>

#include "libgpuhash/src/batch.hpp"
#include "libgpuhash/src/cuda_driver.hpp"
#include "libgpuhash/src/structs.hpp"
#include "libgpuhash/tile/kinds.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash {
namespace {

constexpr size_t alignment = 256;
constexpr size_t usual_first = tunable("staged_first", size_t{1} << 18);
constexpr int not_ready = 600;  // CUDA_ERROR_NOT_READY
constexpr int statuses = 1;     // among what is received

constexpr size_t up_to(size_t n) { return (n + alignment - 1) / alignment * alignment; }

uint8_t* at(const void* p, size_t bytes) { return static_cast<uint8_t*>(const_cast<void*>(p)) + bytes; }

// The elements of a chunk.
struct rows {
  size_t begin = 0, n = 0;
};

// The chunks of n elements, one after the other: none longer than `most`, short ones first and last.
class cutter {
 public:
  cutter(size_t n, size_t most, size_t first) : n_(n), most_(most), first_(std::min(first, most)), size_(first_) {}
  bool has_more() const { return begin_ < n_; }
  size_t longest() const { return std::min({n_, most_, std::max(n_ / 2, first_)}); }
  rows next() {
    const size_t left = n_ - begin_;
    const rows chunk{begin_, std::min({size_, std::max(left / 2, first_), left})};
    begin_ += chunk.n;
    size_ = size_ > most_ / 2 ? most_ : 2 * size_;
    return chunk;
  }

 private:
  size_t n_, most_, first_, size_, begin_ = 0;
};

const char* driver_text(int code) {
  const cuda_driver* const d = known_driver();  // none where the caller's functions take its place
  return d != nullptr ? d->text_of(code) : "unknown error";
}

// Arrays whose parts of a chunk lie one after the other in a slot.
struct packed {
  static constexpr int most = 3;
  int n = 0;
  uint8_t* data[most] = {};
  size_t bytes[most] = {};  // of an element

  void add(const void* array, size_t element) {
    data[n] = at(array, 0);
    bytes[n++] = array == nullptr ? 0 : element;
  }
  size_t per_element() const { return bytes[0] + bytes[1] + bytes[2]; }
  // Where array i begins in a slot with `elements` of each; for i = n where the last one ends.
  size_t place(int i, size_t elements) const {
    size_t end = 0;
    for (int j = 0; j < i; ++j) end += up_to(bytes[j] * elements);
    return end;
  }
};

// Copies of the host that are under way, or were carried out at once without memory for their bookkeeping. New ones begin
// when the ones before have ended.
class host_copies {
 public:
  host_copies() = default;
  host_copies(const host_copies&) = delete;
  ~host_copies() { end(); }
  void begin(size_t n, const gpuhash_copy* parts) {
    end();
    open_ = gpuhash_copies_begin(n, parts, 0, 1);
    seen_ = open_ == nullptr ? gpuhash_copy_parts(n, parts, 1) : uint8_t{0};
  }
  bool done() const { return open_ == nullptr || gpuhash_copies_help(open_, 0) != 0; }
  void help() {
    if (open_ != nullptr) gpuhash_copies_help(open_, 1);
  }
  uint8_t end() {
    if (open_ != nullptr) seen_ = gpuhash_copies_end(open_);
    open_ = nullptr;
    return seen_;
  }

 private:
  gpuhash_copies* open_ = nullptr;
  uint8_t seen_ = 0;
};

class staged_batch {
 public:
  staged_batch(gpuhash_table* table, const gpuhash_batch& batch, const gpuhash_staging& staging,
               const gpuhash_staging_calls& calls)
      : table_(table), batch_(batch), staging_(staging), calls_(calls), rest_(0, 0, 0) {
    sent_.add(batch.keys, table->key_bytes);
    sent_.add(batch.values, table->value_bytes);
    sent_.add(batch.ops, 1);
    const bool counts = kind_rows[batch.op].answers_count;
    received_.add(batch.out_values, counts ? sizeof(uint64_t) : table->value_bytes);
    received_.add(batch.out_status, 1);
  }

  // Elements of a chunk that a slot holds; 0: not even one.
  size_t fits() const {
    const size_t spare = (packed::most + 2) * alignment, per_element = sent_.per_element() + received_.per_element();
    return staging_.slot_bytes < spare ? 0 : (staging_.slot_bytes - spare) / per_element;
  }

  gpuhash_status run(gpuhash_error* err) {
    size_t most = fits();
    if (staging_.most_keys != 0) most = std::min(most, staging_.most_keys);
    rest_ = cutter(batch_.n, most, staging_.first_keys != 0 ? staging_.first_keys : usual_first);
    // The same for all chunks, so that inputs on their way up touch no results of the chunk before in this slot.
    results_at_ = sent_.place(sent_.n, rest_.longest());
    try {
      while (done_ < batch_.n)
        if (!step()) break;
    } catch (...) {  // of a function of the caller
      settle();
      return fail_from_exception(err);
    }
    settle();
    if ((seen_ & ~1) != 0 && !is_worse(status_)) report_full();
    if (status_ != GPUHASH_OK && err != nullptr) fail(err, status_, "%s", said_.message);
    return status_;
  }

  size_t done() const { return done_; }
  bool in_doubt() const { return in_doubt_; }

 private:
  struct way {
    rows chunk;
    host_copies send, touch, collect;
  };

  const gpuhash_slot& slot(size_t i) const { return staging_.slots[i % staging_.n_slots]; }
  way& at_work(size_t i) { return ways_[i % staging_.n_slots]; }
  const rows& chunk(size_t i) const { return ways_[i % staging_.n_slots].chunk; }

  // ---- the steps: each false where the batch ends

  bool step() {
    if (uploaded_ < sent_chunks_ && at_work(uploaded_).send.done()) return upload(uploaded_);
    if (launched_ < uploaded_) return launch(launched_);  // which may wait for the device, and uploads go on meanwhile
    if (arrived_ < launched_) {
      const int code = calls_.event_query(slot(arrived_).downloaded);
      if (code == 0) return begin_to_collect(), true;
      if (code != not_ready) return driver_failed("cuEventQuery", code);
    }
    if (collected_ < arrived_ && at_work(collected_).collect.done()) return end_to_collect(), true;
    if (rest_.has_more() && sent_chunks_ < collected_ + staging_.n_slots) return send(sent_chunks_), true;  // H1
    if (uploaded_ < sent_chunks_) return at_work(uploaded_).send.help(), true;
    if (collected_ < arrived_) return at_work(collected_).collect.help(), true;
    return wait(arrived_);
  }

  // Begin to copy a chunk into pinned memory, and to bring in the pages of its results.
  void send(size_t i) {
    const auto [begin, n] = at_work(i).chunk = rest_.next();
    gpuhash_copy parts[packed::most], pages[packed::most];
    size_t n_parts = 0, n_pages = 0;
    for (int a = 0; a < sent_.n; ++a)
      if (const size_t size = sent_.bytes[a])
        parts[n_parts++] = {at(slot(i).host, sent_.place(a, n)), sent_.data[a] + begin * size, n * size, 0};
    at_work(i).send.begin(n_parts, parts);
    const uint32_t is_new[] = {GPUHASH_STAGING_NEW_VALUES, GPUHASH_STAGING_NEW_STATUS};
    for (int a = 0; a < received_.n; ++a)
      if (const size_t size = received_.bytes[a]; size != 0 && (staging_.flags & is_new[a]) != 0)
        pages[n_pages++] = {received_.data[a] + begin * size, nullptr, n * size, GPUHASH_COPY_TOUCH};
    if (n_pages != 0) at_work(i).touch.begin(n_pages, pages);
    sent_chunks_ = i + 1;
  }

  // Copy a chunk up, which lies in pinned memory now. Until the table says otherwise its elements were not carried out.
  bool upload(size_t i) {
    at_work(i).send.end();
    const size_t n = chunk(i).n;
    if (!copy(slot(i).device, slot(i).host, sent_.place(sent_.n, n), staging_.up)) return false;
    const auto status_at = reinterpret_cast<uintptr_t>(at(slot(i).device, results_at_ + received_.place(statuses, n)));
    if (const int code = calls_.memset_async(status_at, GPUHASH_ELEMENT_NO_MEMORY, n, staging_.up))
      return driver_failed("cuMemsetD8Async", code);
    if (const int code = calls_.event_record(slot(i).uploaded, staging_.up))
      return driver_failed("cuEventRecord", code);
    uploaded_ = i + 1;
    return true;
  }

  // Run a chunk and fetch its results.
  bool launch(size_t i) {
    if (staging_.tell != nullptr) {
      const int32_t answer = staging_.tell(staging_.context, done_, batch_.n);
      if (answer != 0)
        return failed(GPUHASH_INVALID_ARGUMENT, "tell answered %d after %zu of %zu elements, and ended the batch",
                      answer, done_, batch_.n);
    }
    if (const int code = calls_.stream_wait_event(batch_.stream, slot(i).uploaded, 0))
      return driver_failed("cuStreamWaitEvent", code);
    const gpuhash_batch part = on_device(i);
    gpuhash_error said = GPUHASH_ERROR_INIT;
    const gpuhash_status status = calls_.run(table_, &part, &said);
    if (status != GPUHASH_OK) failed(status, "%s", said.message);
    if (is_worse(status)) return false;
    launched_ = i + 1;
    return fetch(i);
  }

  gpuhash_batch on_device(size_t i) const {
    const size_t n = chunk(i).n;
    const void* const device = slot(i).device;
    const void* const results = at(device, results_at_);
    gpuhash_batch part = batch_;
    part.n = n;
    part.keys = at(device, sent_.place(0, n));
    part.values = batch_.values != nullptr ? at(device, sent_.place(1, n)) : staging_.device_values;
    if (batch_.ops != nullptr) part.ops = at(device, sent_.place(2, n));
    if (batch_.out_values != nullptr) part.out_values = at(results, received_.place(0, n));
    part.out_status = at(results, received_.place(statuses, n));
    part.counts = nullptr;
    return part;
  }

  bool fetch(size_t i) {
    const gpuhash_slot& here = slot(i);
    // The event is free for this: what waited for it has begun, and later uploads record it when results are collected.
    if (const int code = calls_.event_record(here.uploaded, batch_.stream)) return driver_failed("cuEventRecord", code);
    if (const int code = calls_.stream_wait_event(staging_.down, here.uploaded, 0))
      return driver_failed("cuStreamWaitEvent", code);
    if (!copy(at(here.host, results_at_), at(here.device, results_at_), received_.place(received_.n, chunk(i).n),
              staging_.down))
      return false;
    if (const int code = calls_.event_record(here.downloaded, staging_.down))
      return driver_failed("cuEventRecord", code);
    fetched_ = i + 1;
    return true;
  }

  bool wait(size_t i) {
    const int code = calls_.event_synchronize(slot(i).downloaded);
    return code == 0 || driver_failed("cuEventSynchronize", code);
  }

  // Begin to copy the results of a chunk, which have arrived in pinned memory, to where they belong.
  void begin_to_collect() {
    const size_t i = arrived_++;
    const auto [begin, n] = chunk(i);
    const uint32_t past = (staging_.flags & GPUHASH_STAGING_PAST_CACHES) != 0 ? GPUHASH_COPY_STREAM : 0;
    gpuhash_copy parts[packed::most];
    size_t n_parts = 0;
    for (int a = 0; a < received_.n; ++a)
      if (const size_t size = received_.bytes[a])
        parts[n_parts++] = {received_.data[a] + begin * size, at(slot(i).host, results_at_ + received_.place(a, n)),
                            n * size, a == statuses ? past | GPUHASH_COPY_LOOK : past};
    at_work(i).collect.begin(n_parts, parts);
  }

  void end_to_collect() {
    seen_ |= at_work(collected_).collect.end();
    done_ += chunk(collected_++).n;
  }

  // ---- the end

  // Collect what was launched (H2), and wait for what else is on its way (H3).
  void settle() {
    while (fetched_ < launched_ && fetch(fetched_)) continue;
    while (collected_ < fetched_ && (collected_ < arrived_ || wait(arrived_))) {
      if (collected_ == arrived_) begin_to_collect();
      end_to_collect();
    }
    for (uint32_t s = 0; s < staging_.n_slots; ++s)
      for (host_copies* copies : {&ways_[s].send, &ways_[s].touch, &ways_[s].collect}) copies->end();
    if (done_ == batch_.n) return;
    for (void* const stream : {staging_.up, batch_.stream, staging_.down})
      if (calls_.stream_synchronize(stream) != 0) in_doubt_ = true;
    std::fill(batch_.out_status + done_, batch_.out_status + batch_.n, uint8_t{GPUHASH_ELEMENT_NO_MEMORY});
  }

  // What the call answers where elements of some chunks found no room: of the whole batch, from its statuses.
  void report_full() {
    uint64_t size = 0;
    gpuhash_size(table_, &size, nullptr);  // the library would report them to the next call that waits
    size_t no_memory = 0, failing = 0;
    for (size_t i = 0; i < batch_.n; ++i) {
      no_memory += batch_.out_status[i] == GPUHASH_ELEMENT_NO_MEMORY;
      failing += batch_.out_status[i] > 1;
    }
    if (status_ == GPUHASH_NO_MEMORY) return;  // with the bytes
    status_ =
        fail(&said_, failing == no_memory ? GPUHASH_NO_MEMORY : GPUHASH_FULL,
             "%zu of %zu elements found no room: reserve more and retry those of status 2 or 3", failing, batch_.n);
  }

  // ---- what the driver says

  bool copy(const void* to, const void* from, size_t bytes, void* stream) {
    const int code =
        calls_.memcpy_async(reinterpret_cast<uintptr_t>(to), reinterpret_cast<uintptr_t>(from), bytes, stream);
    return code == 0 || driver_failed("cuMemcpyAsync", code);
  }

  bool driver_failed(const char* call, int code) {
    return failed(GPUHASH_DEVICE_ERROR, "%s says: %s (%d)", call, driver_text(code), code);
  }

  // Does it end the batch? Elements without room do not.
  static bool is_worse(gpuhash_status status) {
    return status != GPUHASH_OK && status != GPUHASH_FULL && status != GPUHASH_NO_MEMORY;
  }

  // What ended the batch is what the call answers, or else the first failure. Returns false.
  template <class... Values>
  bool failed(gpuhash_status status, const char* format, Values... values) {
    if (status_ == GPUHASH_OK || (is_worse(status) && !is_worse(status_)))
      status_ = fail(&said_, status, format, values...);
    return false;
  }

  gpuhash_table* const table_;
  const gpuhash_batch& batch_;
  const gpuhash_staging& staging_;
  const gpuhash_staging_calls& calls_;
  packed sent_, received_;
  cutter rest_;  // what no chunk has begun with
  size_t results_at_ = 0;
  way ways_[GPUHASH_MOST_SLOTS];
  // Chunks that have begun so many steps, or have ended all.
  size_t sent_chunks_ = 0, uploaded_ = 0, launched_ = 0, fetched_ = 0, arrived_ = 0, collected_ = 0;
  size_t done_ = 0;  // elements of those
  uint8_t seen_ = 0;
  bool in_doubt_ = false;
  gpuhash_status status_ = GPUHASH_OK;
  gpuhash_error said_ = GPUHASH_ERROR_INIT;
};

bool share(const void* a, const void* b, size_t bytes) {
  const auto one = reinterpret_cast<uintptr_t>(a), other = reinterpret_cast<uintptr_t>(b);
  return (one < other ? other - one : one - other) < bytes;
}

gpuhash_status check_slots(const gpuhash_staging& staging, gpuhash_error* err) {
  if (staging.n_slots == 0 || staging.n_slots > GPUHASH_MOST_SLOTS)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "n_slots is %u; a staged batch needs 1 to %d", staging.n_slots,
                GPUHASH_MOST_SLOTS);
  if (staging.slots == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "slots is NULL, but n_slots is %u", staging.n_slots);
  for (uint32_t i = 0; i < staging.n_slots; ++i) {
    const gpuhash_slot& slot = staging.slots[i];
    if (slot.host == nullptr || slot.device == nullptr || slot.uploaded == nullptr || slot.downloaded == nullptr)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "slots[%u] lacks memory or an event", i);
    if (reinterpret_cast<uintptr_t>(slot.device) % sizeof(uint64_t) != 0)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "slots[%u].device (%p) is not aligned to 8 bytes", i, slot.device);
    for (uint32_t j = 0; j < i; ++j)
      if (share(slot.host, staging.slots[j].host, staging.slot_bytes) ||
          share(slot.device, staging.slots[j].device, staging.slot_bytes))
        return fail(err, GPUHASH_INVALID_ARGUMENT, "slots[%u] and slots[%u] share memory", j, i);
  }
  constexpr uint32_t known = GPUHASH_STAGING_NEW_VALUES | GPUHASH_STAGING_NEW_STATUS | GPUHASH_STAGING_PAST_CACHES;
  if ((staging.flags & ~known) != 0)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "flags is 0x%x; only 0x%x are known", staging.flags, known);
  if (staging.up == nullptr || staging.down == nullptr || staging.up == staging.down)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "up and down are %p and %p; a staged batch needs two streams of its own",
                staging.up, staging.down);
  return GPUHASH_OK;
}

// The functions that this batch calls.
gpuhash_status choose_calls(const gpuhash_table& table, const gpuhash_staging& staging, gpuhash_staging_calls& calls,
                            gpuhash_error* err) {
  if (staging.calls != nullptr) {
    if (const auto s = read_struct(staging.calls, calls, "calls", "its size", sizeof calls, err)) return s;
    if (calls.memcpy_async && calls.memset_async && calls.event_record && calls.event_query &&
        calls.event_synchronize && calls.stream_wait_event && calls.stream_synchronize && calls.stream_is_capturing &&
        calls.run)
      return GPUHASH_OK;
    return fail(err, GPUHASH_INVALID_ARGUMENT, "calls lacks a function; all are needed");
  }
  if (table.device.kind != GPUHASH_CUDA)
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "the table is on the CPU, where host arrays need no staging: call gpuhash_run");
  calls = driver().staging;
  calls.run = gpuhash_run;
  return GPUHASH_OK;
}

gpuhash_status refuse_capture(const gpuhash_staging_calls& calls, void* stream, gpuhash_error* err) {
  int capturing = 0;
  if (const int code = calls.stream_is_capturing(stream, &capturing))
    return fail(err, GPUHASH_DEVICE_ERROR, "cuStreamIsCapturing says: %s (%d)", driver_text(code), code);
  if (capturing == 0) return GPUHASH_OK;
  return fail(err, GPUHASH_INVALID_ARGUMENT,
              "the stream is being captured into a graph, and host arrays are copied now: call outside of the capture");
}

void count_statuses(const gpuhash_batch& batch) {
  if (batch.counts == nullptr) return;
  for (size_t i = 0; i < batch.n; ++i) {
    batch.counts->yes += batch.out_status[i] == GPUHASH_YES;
    batch.counts->failed += batch.out_status[i] > GPUHASH_YES;
  }
}

}  // namespace
}  // namespace gpuhash

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_run_staged(gpuhash_table* table, const gpuhash_batch* given, gpuhash_staging* how,
                                             gpuhash_error* err) {
  if (how != nullptr && how->struct_size >= sizeof *how) how->done = 0, how->in_doubt = 0;
  if (const auto status = begin_call(table, err)) return status;
  return guarded(err, [&] {
    gpuhash_batch batch;
    gpuhash_staging staging;
    gpuhash_staging_calls calls;
    if (const auto s = read_struct(given, batch, "batch", "GPUHASH_BATCH_INIT", sizeof batch, err)) return s;
    if (const auto s = read_struct(how, staging, "staging", "GPUHASH_STAGING_INIT", sizeof staging, err)) return s;
    if (batch.counts != nullptr) *batch.counts = {0, 0};
    if (const auto s = check_slots(staging, err)) return s;
    if (const auto s = choose_calls(*table, staging, calls, err)) return s;
    const batch_place host{{GPUHASH_CPU, 0}, staging.device_values != nullptr, true};
    if (host.values_apart && batch.values != nullptr)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "device_values is given: pass NULL for batch.values");
    if (const auto s = check_batch(*table, batch, host, err)) return s;
    if (host.values_apart && !kind_rows[batch.op].operand)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "device_values is given, but %s takes no values",
                  kind_rows[batch.op].name);
    if (const auto s = refuse_bad_ops(*table, batch, err)) return s;
    if (const auto s = refuse_capture(calls, batch.stream, err)) return s;
    if (batch.n == 0) return gpuhash_status{GPUHASH_OK};
    staged_batch work(table, batch, staging, calls);
    if (work.fits() == 0)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "slot_bytes is %zu, which is too little for one element",
                  staging.slot_bytes);
    const auto status = work.run(err);
    how->done = work.done();
    how->in_doubt = work.in_doubt() ? 1 : 0;
    count_statuses(batch);
    return status;
  });
}
