// SlabAlloc on its own, without a table: carries out gpuhash_slab_* of gpuhash.h.
#pragma once
#include <string.h>

#include <memory>
#include <utility>

#include "libgpuhash/kit/gate.hpp"
#include "libgpuhash/kit/slab_heap_owner.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

class slab_allocator {
 public:
  slab_allocator(const gpuhash_slab_config& c, const device_api& api, const slab_engine& engine)
      : config_(c),
        memory_(c.memory ? *c.memory : gpuhash_memory{}),
        api_(api),
        engine_(engine),
        heap_(api, {this, take, give}),
        streams_(api) {
    custom_ = c.memory && c.memory->allocate != host->host_memory->allocate;
    config_.memory = nullptr, config_.kind = nullptr;
  }
  ~slab_allocator() {
    scope in(*this);
    streams_.before_exclusive(nullptr);
    api_.wait(nullptr);
    heap_.drop(nullptr);
  }

  gpuhash_status create(bool light, gpuhash_error* err) {
    scope in(*this);
    if (const gpuhash_status s = refuse_capture(config_.stream, err)) return s;
    const uint32_t blocks = config_.memory_blocks ? config_.memory_blocks : 256;
    const uint32_t first = config_.super_blocks ? config_.super_blocks : 1;
    const uint32_t most = light ? first : config_.max_super_blocks ? config_.max_super_blocks : slab_heap::max_supers;
    if (config_.unit_bytes != 64 && config_.unit_bytes != 128 && config_.unit_bytes != 256)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT, "unit_bytes is %u; a unit has 64, 128 or 256 bytes",
                        config_.unit_bytes);
    if (blocks > slab_heap::max_blocks)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT, "memory_blocks is %u; a super block has at most %u", blocks,
                        slab_heap::max_blocks);
    if (first > slab_heap::max_supers || most > slab_heap::max_supers || first > most)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "super_blocks %u of at most %u: give 1 to %u, not more than max_super_blocks", first, most,
                        slab_heap::max_supers);
    heap_.shape(uint32_t(__builtin_ctz(config_.unit_bytes)), blocks, light, most, config_.seed);
    if (const gpuhash_status lacking = enough_memory(first, err)) return lacking;
    for (uint32_t i = 0; i < (light ? 1 : first); ++i)
      if (const int e = heap_.add_super(config_.stream)) return failed(e, "making a super block", err);
    capacity_ = heap_.heap().capacity();
    const int e = api_.wait(config_.stream);
    return e ? failed(e, "making a super block", err) : gpuhash_status(GPUHASH_OK);
  }

  gpuhash_status allocate(size_t n, uint32_t* units, void* stream, gpuhash_error* err) {
    if (n == 0) return GPUHASH_OK;
    scope in(*this);
    if (const gpuhash_status s = refuse_capture(stream, err)) return s;
    for (;;) {
      const uint64_t tried = capacity_;
      uint64_t missing = 0;
      if (const gpuhash_status s = allocate_once(n, units, stream, &missing, err)) return s;
      if (!missing) return GPUHASH_OK;
      if (const gpuhash_status s = grow(tried, missing, n, stream, err)) return s;
      // On CUDA the units that were had lie anywhere among those that were not: all go back, and the batch is repeated.
      if (const gpuhash_status s = give_back(n, units, stream, err)) return s;
    }
  }

  gpuhash_status release(size_t n, const uint32_t* units, uint8_t* status, void* stream, gpuhash_error* err) {
    if (n == 0) return GPUHASH_OK;
    scope in(*this);
    if (const gpuhash_status s = refuse_capture(stream, err)) return s;
    uint64_t bad[2] = {0, ~uint64_t(0)};
    if (const gpuhash_status s = release_once(n, units, status, stream, bad, err)) return s;
    if (!bad[0]) return GPUHASH_OK;
    uint32_t first = 0;
    int e = api_.copy(&first, units + bad[1], sizeof(first), stream);
    if (!e) e = api_.wait(stream);
    if (e) return failed(e, "freeing", err);
    std::lock_guard<std::mutex> lock(grow_);
    return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                      "%llu of %llu handles were refused, the first 0x%08x at index %llu: %s; the others are freed",
                      (unsigned long long)bad[0], (unsigned long long)n, first, (unsigned long long)bad[1],
                      heap_.heap().owns(first) ? "it is not allocated (freed twice?)" : "it is not of this allocator");
  }

  gpuhash_status translate(size_t n, const uint32_t* units, void** addresses, void* stream, gpuhash_error* err) {
    if (n == 0) return GPUHASH_OK;
    scope in(*this);
    if (const gpuhash_status s = refuse_capture(stream, err)) return s;
    shared hold(*this, stream);
    const int e = engine_.translate(&heap_.heap(), n, units, addresses, threads(), stream);
    return e ? failed(e, "translating", err) : gpuhash_status(GPUHASH_OK);
  }

  gpuhash_status stats(gpuhash_slab_stats* out, gpuhash_error* err) {
    scope in(*this);
    exclusive hold(*this, nullptr);
    uint64_t taken = 0;
    uint32_t full = 0;
    if (const int e = heap_.count(&taken, &full, nullptr)) return failed(e, "counting units", err);
    out->units = heap_.heap().capacity(), out->allocated = taken, out->bytes = heap_.bytes();
    out->super_blocks = heap_.heap().supers, out->full_blocks = full;
    return GPUHASH_OK;
  }

 private:
  // Super blocks for so many missing units, unless another call has added some since the heap had `tried` units. Fails if
  // there is none to be had.
  gpuhash_status grow(uint64_t tried, uint64_t missing, uint64_t n, void* stream, gpuhash_error* err) {
    std::lock_guard<std::mutex> lock(grow_);
    if (capacity_ > tried) return GPUHASH_OK;
    if (!heap_.can_add())
      return host->fail(
          err, GPUHASH_NO_MEMORY,
          "%llu of %llu units could not be had: all %llu are taken; free some, or allow more super blocks",
          (unsigned long long)missing, (unsigned long long)n, (unsigned long long)tried);
    const uint64_t supers = missing / (heap_.heap().blocks * uint64_t(block_units)) + 1;
    if (const gpuhash_status lacking =
            enough_memory(uint32_t(supers < heap_.most_supers() ? supers : heap_.most_supers()), err))
      return lacking;
    while (heap_.can_add() && capacity_ < tried + missing) {
      exclusive hold(*this, stream);
      if (const int e = heap_.add_super(stream)) {
        if (capacity_ > tried) break;
        return failed(e, "adding a super block", err);
      }
      capacity_ = heap_.heap().capacity();
    }
    return GPUHASH_OK;
  }
  gpuhash_status refuse_capture(void* stream, gpuhash_error* err) const {
    void* graph = nullptr;
    const char* forbids = nullptr;
    if (const int e = api_.captured_by(stream, &graph, &forbids))
      return failed(e, "asking whether a stream is captured", err);
    if (!graph && !forbids) return GPUHASH_OK;
    return host->fail(
        err, GPUHASH_INVALID_ARGUMENT,
        "the stream is being captured into a CUDA graph, or a capture forbids its use; slabs are allocated "
        "and freed outside of captures");
  }
  bool on_cuda() const { return config_.device.kind == GPUHASH_CUDA; }
  gpuhash_status enough_memory(uint32_t supers, gpuhash_error* err) const {
    return on_cuda() || custom_ ? gpuhash_status(GPUHASH_OK) : check_host_memory(heap_.bytes_of(supers), false, err);
  }
  uint32_t threads() const { return config_.threads ? config_.threads : host_team.default_threads(); }
  gpuhash_status failed(int e, const char* doing, gpuhash_error* err) const {
    if (e == api_.out_of_memory)
      return host->fail(err, GPUHASH_NO_MEMORY, "%s: out of memory; free some, or use fewer memory blocks", doing);
    return host->fail(err, GPUHASH_DEVICE_ERROR, "%s failed: %s", doing, api_.error_text(e));
  }
  static void* take(void* self, size_t bytes, void* stream) {
    auto* a = static_cast<slab_allocator*>(self);
    if (a->custom_) return a->memory_.allocate(a->memory_.context, bytes, 128, stream);
    void* p = nullptr;
    return a->api_.allocate(&p, bytes, stream) == 0 ? p : nullptr;
  }
  static void give(void* self, void* p, size_t bytes, void* stream) {
    auto* a = static_cast<slab_allocator*>(self);
    if (a->custom_)
      a->memory_.deallocate(a->memory_.context, p, bytes, 128, stream);
    else
      a->api_.release(p, stream);
  }

  // Eight-byte counters that a kernel adds to: on the CPU the caller's, on CUDA a piece of device memory copied to and fro.
  template <class Call>
  gpuhash_status counted(uint64_t* counters, size_t n, void* stream, gpuhash_error* err, Call call) {
    int e = 0;
    if (!on_cuda()) {
      e = call(counters);
    } else {
      void* there = nullptr;
      e = api_.allocate(&there, n * sizeof(uint64_t), stream);
      if (!e) e = api_.copy(there, counters, n * sizeof(uint64_t), stream);
      if (!e) e = call(static_cast<uint64_t*>(there));
      if (!e) e = api_.copy(counters, there, n * sizeof(uint64_t), stream);
      if (!e) e = api_.wait(stream);
      if (there) api_.release(there, stream);
    }
    return e ? failed(e, "a batch of the slab allocator", err) : gpuhash_status(GPUHASH_OK);
  }
  gpuhash_status allocate_once(size_t n, uint32_t* units, void* stream, uint64_t* missing, gpuhash_error* err) {
    shared hold(*this, stream);
    const uint64_t hint = batches_.fetch_add(1) << 32;
    return counted(missing, 1, stream, err,
                   [&](uint64_t* m) { return engine_.allocate(&heap_.heap(), n, units, hint, m, threads(), stream); });
  }
  gpuhash_status release_once(size_t n, const uint32_t* units, uint8_t* status, void* stream, uint64_t* bad,
                              gpuhash_error* err) {
    exclusive hold(*this, stream);
    return counted(bad, 2, stream, err, [&](uint64_t* c) {
      return engine_.release(&heap_.heap(), n, units, status, config_.wipe, c, c + 1, threads(), stream);
    });
  }
  gpuhash_status give_back(size_t n, const uint32_t* units, void* stream,
                           gpuhash_error* err) {  // no_unit among them is refused, silently
    uint64_t bad[2] = {0, ~uint64_t(0)};
    return release_once(n, units, nullptr, stream, bad, err);
  }

  struct scope {  // the allocator's device on this thread
    explicit scope(const slab_allocator& a) : api(a.api_), threads_before(std::exchange(threads_of_call, a.threads())) {
      entered = api.enter(a.config_.device.ordinal, &before) == 0;
    }
    ~scope() {
      threads_of_call = threads_before;
      if (entered) api.leave(before);
    }
    const device_api& api;
    const uint32_t threads_before;
    int before = 0;
    bool entered;
  };
  struct shared {
    shared(slab_allocator& a, void* s) : a(a), stream(s) {
      if (a.on_cuda()) {
        a.launch_.lock();
        in = a.streams_.before_batch(stream, &turn) == 0;
      } else {
        a.gate_.lock_shared();
      }
    }
    ~shared() {
      if (a.on_cuda()) {
        if (in) a.streams_.after_batch(stream, turn);
        a.launch_.unlock();
      } else {
        a.gate_.unlock_shared();
      }
    }
    slab_allocator& a;
    void* stream;
    stream_gate::turn turn{true};
    bool in = false;
  };
  struct exclusive {
    exclusive(slab_allocator& a, void* s) : a(a), stream(s) {
      if (a.on_cuda())
        a.launch_.lock(), a.streams_.before_exclusive(stream);
      else
        a.gate_.lock();
    }
    ~exclusive() {
      if (a.on_cuda())
        a.streams_.after_exclusive(stream), a.launch_.unlock();
      else
        a.gate_.unlock();
    }
    slab_allocator& a;
    void* stream;
  };

  gpuhash_slab_config config_;
  gpuhash_memory memory_;
  bool custom_;
  const device_api& api_;
  const slab_engine& engine_;
  slab_heap_owner heap_;
  stream_gate streams_;
  host_gate gate_;
  std::mutex launch_, grow_;  // the heap is added to under grow_
  std::atomic<uint64_t> capacity_{0};
  std::atomic<uint64_t> batches_{0};
};

}  // namespace gpuhash
