// The base of every table: configuration, device, memory, counters, and what follows a device error.
// A table derives from it (table.hpp); parts of a structure that are classes of their own get a reference.
//
// Counters: every batch adds to `totals` in the header, which lies in the table's own memory. live and used are exact
// whenever no batch runs.
#pragma once
#include <new>
#include <utility>

#include "gpuhash/plugin.h"
#include "libgpuhash/kit/device.hpp"
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/host_memory.hpp"
#include "libgpuhash/kit/sync.hpp"
#include "libgpuhash/kit/team.hpp"

namespace gpuhash {

inline constexpr size_t side_bytes = 32;  // two slots of at most 16 bytes
inline constexpr size_t few_elements = 1024;
struct header {
  alignas(side_bytes / 2) unsigned char side[side_bytes];  // words of 16 bytes are read as such
  totals sum[total_stripes];                               // the CPU uses the first
  // CUDA: counters of the call that has the table to itself, here so that reading them never needs memory:
  totals batch[total_stripes];
  uint8_t status[few_elements];
};

class table_context {
 public:
  struct setup {
    gpuhash_config config;
    const device_api* api;
    const engine* engines;  // of config.device, indexed by format_id
  };

  explicit table_context(const setup& s);
  table_context(const table_context&) = delete;
  table_context& operator=(const table_context&) = delete;

  bool on_cuda() const { return config_.device.kind == GPUHASH_CUDA; }
  // Threads of the CPU that serve a call. Asking the system takes about as long as an event of a small call on CUDA,
  // where none are used.
  uint32_t threads() const { return on_cuda() ? 1 : config_.threads ? config_.threads : host_team.default_threads(); }

  // A device error: the table is unusable from here on, unless it was memory that ran out.
  gpuhash_status fault(gpuhash_error* err, int e, const char* doing);
  gpuhash_status poisoned(gpuhash_error* err) const {
    return host->fail(err, GPUHASH_POISONED,
                      "an earlier device error left this table unusable; destroy it and build a new one");
  }

  // Does the table's memory come from a resource of the caller's? Then all of it does, and the resource alone says how
  // much there is.
  bool has_resource() const { return config_.memory && memory_.allocate != host->host_memory->allocate; }
  // NO_MEMORY if not all of so many bytes can be had. Asked before the bytes are taken, block by block, and written.
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
  struct block {  // its holder gives it back by give_memory()
    void* p = nullptr;
    size_t bytes = 0;
  };
  class scratch {  // a block for as long as a call lasts, on the call's stream
   public:
    scratch(table_context& t, size_t bytes, void* stream) : t_(t), stream_(stream), b_{t.take(bytes, stream)} {}
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
    table_context& t_;
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

  // Use the device of the table on the calling thread, for the scope's life.
  class on_device {
   public:
    explicit on_device(const table_context& t)
        : api_(t.api_), threads_before_(std::exchange(threads_of_call, t.threads())) {
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

  // CUDA: a stream for an operation that is given none, for the scope's life. NULL on the CPU.
  class borrowed_stream {
   public:
    explicit borrowed_stream(const table_context& t) : t_(t) {
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
    const table_context& t_;
    void* stream_ = nullptr;
  };

  gpuhash_config config_;
  gpuhash_memory memory_;
  const device_api& api_;
  const engine* engine_;
  format_id format_;
  kit_atomic<bool> poisoned_{false};
  block header_;
  void* own_stream_ = nullptr;  // CUDA: borrowed by the exclusive operation that runs, if it is given no stream

 protected:
  ~table_context() = default;
};

inline table_context::table_context(const setup& s)
    : config_(s.config), memory_(s.config.memory ? *s.config.memory : gpuhash_memory{}), api_(*s.api) {
  config_.memory = s.config.memory ? &memory_ : nullptr;
  config_.backend = nullptr;  // the caller's strings end with create
  config_.options = nullptr;
  config_.n_options = 0;
  const bool narrow = config_.key_bytes == 4 && config_.value_bytes <= 4;
  format_ = config_.value_bytes ? (narrow ? format_pair32 : format_pair64) : (narrow ? format_set32 : format_set64);
  engine_ = s.engines + format_;
}

inline gpuhash_status table_context::fault(gpuhash_error* err, int e, const char* doing) {
  if (e == api_.out_of_memory)
    return host->fail(err, GPUHASH_NO_MEMORY, "%s: out of memory%s; free some, or ask for a smaller capacity", doing,
                      on_cuda() ? " on the device" : "");
  poisoned_ = true;
  return host->fail(err, GPUHASH_DEVICE_ERROR, "%s failed: %s; the table is unusable now and can only be destroyed",
                    doing, api_.error_text(e));
}

inline void* table_context::take_memory(size_t bytes, void* stream) {
  if (has_resource()) return memory_.allocate(memory_.context, bytes, 128, stream);
  if (config_.memory) return take_host_memory(bytes);
  void* p = nullptr;
  return api_.allocate(&p, bytes, stream) == 0 ? p : nullptr;
}

inline void table_context::give_memory(void* p, size_t bytes, void* stream) {
  if (config_.memory)
    memory_.deallocate(memory_.context, p, bytes, 128, stream);
  else
    api_.release(p, stream);
}

inline gpuhash_status table_context::make_header(void* stream, gpuhash_error* err) {
  const borrowed_stream own(*this);  // so that the destructor finds one, whatever has become of the device
  if (own.error) return fault(err, own.error, "making a stream");
  header_ = take(sizeof(header), stream);
  if (!header_.p) return no_memory(err, sizeof(header));
  int e = api_.fill(head()->side, 0xff, side_bytes, stream);
  if (!e) e = api_.fill(head()->sum, 0, sizeof(head()->sum), stream);
  return e ? fault(err, e, "initialising the table") : gpuhash_status(GPUHASH_OK);
}

inline gpuhash_status table_context::read_totals(totals* out, void* stream, gpuhash_error* err) {
  totals stripe[total_stripes];
  int e = api_.copy(stripe, head()->sum, sizeof(stripe), stream);
  if (!e) e = api_.wait(stream);
  if (e) return fault(err, e, "reading the table's counters");
  *out = {};
  for (const totals& s : stripe) {
    out->live += s.live;
    out->used += s.used;
    out->yes += s.yes;
    out->failed += s.failed;
    out->bad_ops += s.bad_ops;
  }
  return GPUHASH_OK;
}

}  // namespace gpuhash
