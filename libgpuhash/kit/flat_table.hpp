// A table whose storage is one block of slots that is rebuilt to grow: the host side of open addressing.
//
// Structure<F> supplies what differs between structures, all static:
//   using layout                                      what its kernels take
//   uint64_t slots_for(options, format word bytes, keys, max_load)   smallest legal number of slots; 0 if too many
//   layout bind(options, void* slots, uint64_t n_slots, void* side, uint64_t seed)
//   const char* broken(const layout&, uint64_t* cell)        host memory; NULL, or which invariant fails at which cell
//   void distances(const layout&, size_t n, uint64_t* counts, double* mean, uint64_t* max)   host memory
#pragma once
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

template <template <class> class Structure, class F>
class flat_table final : public table {
  using S = Structure<F>;
  using word = typename F::word;

 public:
  using options = typename S::options;

  flat_table(const setup& s, const options& o) : table(s), options_(o) {}
  ~flat_table() override {
    on_device scope(*this);
    api_.wait(nullptr);
    exclusive hold(*this, nullptr);  // runs after every batch of every stream
    api_.wait(nullptr);
    header_ = {}, storage_ = {};
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    if (const gpuhash_status s = place(config_.capacity, stream, err)) return s;
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    return GPUHASH_OK;
  }

 private:
  const void* layout() const override { return &layout_; }
  uint64_t cells() const override { return n_slots_; }
  uint64_t slots() const override { return n_slots_; }
  uint64_t bytes() const override { return storage_.bytes; }
  uint64_t limit() const override { return limit_; }
  void tune(request& q) const override { q.in_flight = options_.in_flight; }
  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    const int e = api_.fill(storage_.p, 0xff, storage_.bytes, stream);
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }

  // Fresh, empty storage for so many keys.
  gpuhash_status place(uint64_t keys, void* stream, gpuhash_error* err) {
    const uint64_t n = S::slots_for(options_, keys, config_.max_load_factor);
    if (n == 0 || n > ~uint64_t(0) / sizeof(word))
      return host->fail(
          err, GPUHASH_INVALID_ARGUMENT,
          "capacity %llu is too large for this table's layout; ask for fewer keys, or wider groups (option row)",
          (unsigned long long)keys);
    block fresh(this, size_t(n) * sizeof(word), stream);
    if (!fresh) return no_memory(err, n * sizeof(word));
    if (const int e = api_.fill(fresh.p, 0xff, fresh.bytes, stream)) return fault(err, e, "initialising the table");
    storage_ = std::move(fresh);
    n_slots_ = n;
    layout_ = S::bind(options_, storage_.p, n, head()->side, config_.seed);
    limit_ = uint64_t(double(n) * config_.max_load_factor);
    if (limit_ == 0) limit_ = 1;
    return GPUHASH_OK;
  }

  // Move every live pair into storage for so many keys. The old storage stays until the new one is complete.
  gpuhash_status resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    if (keys < uint64_t(now.live)) keys = uint64_t(now.live);
    block old = std::move(storage_);
    const typename S::layout old_layout = layout_;
    const uint64_t old_slots = n_slots_, old_limit = limit_;
    gpuhash_status status = place(keys, stream, err);
    uint64_t moved = 0;
    const uint64_t step = old_slots < (1u << 24) ? old_slots : 1u << 24;  // cells at a time bound the memory it takes
    if (status == GPUHASH_OK)
      status = move_pairs(&old_layout, old_slots, step, step, GPUHASH_OP_INSERT, &moved, stream, err);
    if (status != GPUHASH_OK) {
      storage_ = std::move(old);
      layout_ = old_layout, n_slots_ = old_slots, limit_ = old_limit;
      return status;
    }
    totals after[total_stripes] = {};
    after[0] = {now.live, int64_t(moved), now.yes, now.failed};
    int e = api_.copy(head()->sum, after, sizeof(after), stream);
    if (!e) e = api_.wait(stream);
    if (e) return fault(err, e, "rebuilding the table");
    ++rebuilds_;
    book_used(moved);
    return GPUHASH_OK;
  }

  // The table as host memory sees it: itself on the CPU, a copy on CUDA.
  struct host_view {
    std::unique_ptr<unsigned char[]> slots;
    typename S::layout layout;
  };
  gpuhash_status view(host_view& v, gpuhash_error* err) {
    v.layout = layout_;
    if (!on_cuda()) return GPUHASH_OK;
    v.slots.reset(new (std::nothrow) unsigned char[storage_.bytes + 64]);
    if (!v.slots) return no_memory(err, storage_.bytes);
    unsigned char* const aligned = v.slots.get() + (64 - uintptr_t(v.slots.get()) % 64) % 64;
    int e = api_.copy(aligned, storage_.p, storage_.bytes, nullptr);
    if (!e) e = api_.wait(nullptr);
    if (e) return fault(err, e, "reading the table");
    v.layout = S::bind(options_, aligned, n_slots_, nullptr, config_.seed);
    return GPUHASH_OK;
  }

  gpuhash_status inspect(gpuhash_error* err) override {
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    uint64_t cell = 0, live = 0, used = 0;
    if (const char* what = S::broken(v.layout, &cell))
      return host->fail(err, GPUHASH_CORRUPT, "slot %llu breaks an invariant: %s", (unsigned long long)cell, what);
    const word* slots = static_cast<const word*>(S::memory(v.layout));
    for (uint64_t i = 0; i < n_slots_; ++i) {
      live += is_live<F>(slots[i]);
      used += F::key_of(slots[i]) != empty_key<typename F::key>;
    }
    header mine;
    totals now{};
    int e = api_.copy(&mine, head(), sizeof(mine), nullptr);
    if (!e) e = api_.wait(nullptr);
    if (e) return fault(err, e, "reading the table");
    for (const totals& s : mine.sum) now.live += s.live, now.used += s.used;
    const word* side = reinterpret_cast<const word*>(mine.side);
    for (int i = 0; i < 2; ++i) live += F::key_of(side[i]) != empty_key<typename F::key>;
    if (live != uint64_t(now.live) || used != uint64_t(now.used))
      return host->fail(err, GPUHASH_CORRUPT, "the counters say %llu live and %llu used, the slots %llu and %llu",
                        (unsigned long long)now.live, (unsigned long long)now.used, (unsigned long long)live,
                        (unsigned long long)used);
    return GPUHASH_OK;
  }
  void figures(std::vector<gpuhash_stat>& out) override {
    host_view v;
    if (view(v, nullptr) == GPUHASH_OK) S::figures(v.layout, out);
  }
  gpuhash_status distances(size_t n, uint64_t* counts, gpuhash_error* err) override {
    host_view v;
    if (const gpuhash_status s = view(v, err)) return s;
    S::distances(v.layout, n, counts);
    return GPUHASH_OK;
  }

  options options_;
  typename S::layout layout_{};
  block storage_;
  uint64_t n_slots_ = 0;
  std::atomic<uint64_t> limit_{0};  // read by bookings while a rebuild of another thread runs
};

}  // namespace gpuhash
