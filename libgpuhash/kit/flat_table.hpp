// A table whose storage is one block of slots that is rebuilt to grow: the host side of open addressing.
//
// Structure<F> supplies what differs between structures, all static (plugins/examples/cuckoo/src/structure.hpp is one):
//   using options, layout                             what its plugin.cpp reads of a config; what its kernels take
//   uint64_t slots_for(const options&, uint64_t keys, double max_load)      smallest legal number of slots; 0: too many
//   layout bind(const options&, void* slots, uint64_t n_slots, void* side, uint64_t seed)
//   bool finds_room(const layout&, double max_load)   below max_load, will a key find a place whatever the keys are? Or else
//                                                     batches on CUDA are waited for
//   const void* memory(const layout&)                 the slots
//   uint32_t line_cells                               slots of a cache line
//   const char* broken(const layout&, uint64_t* cell)         host memory; NULL, or which invariant fails at which cell
//   void distances(const layout&, size_t n, uint64_t* counts)       host memory; how many keys are how far from home
//   void figures(const layout&, std::vector<gpuhash_stat>&)         host memory
// options has parts (request), which may be 0. flat_contract.hpp asks for each of these.
#pragma once
#include "libgpuhash/kit/flat_contract.hpp"
#include "libgpuhash/kit/flat_inspector.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

template <template <class> class Structure, class F>
class flat_table final : public table {
  using S = Structure<F>;
  static_assert(flat_members::all<S>());
  using word = typename F::word;

 public:
  using options = typename S::options;

  flat_table(const setup& s, const options& o) : table(s, {.line_cells = S::line_cells}), options_(o) {}
  ~flat_table() override {
    dismantle([this](void* stream) { drop(storage_, stream); });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    place now;
    scratch fresh(*this, bytes_for(config_.capacity), stream);
    if (const gpuhash_status s = lay_out(config_.capacity, fresh, &now, err)) return s;
    if (const int e = api_.fill(fresh.get(), 0xff, fresh.bytes(), stream))
      return fault(err, e, "initialising the table");
    take_place(now, fresh);
    if (const gpuhash_status s = recount_empty(stream, err)) return s;
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  // The storage of the slots: all that a rebuild exchanges.
  struct place {
    typename S::layout layout{};
    uint64_t n_slots = 0;
    uint64_t limit = 0;
  };

  const void* layout() const override { return &at_.layout; }
  uint64_t cells() const override { return at_.n_slots; }
  uint64_t slots() const override { return at_.n_slots; }
  uint64_t bytes() const override { return storage_.bytes; }
  uint64_t limit() const override { return at_.limit; }
  bool smaller_for(uint64_t keys) const override { return bytes_for(keys) < storage_.bytes; }
  void tune(request& q) const override { q.parts = options_.parts; }
  std::unique_ptr<inspector> make_inspector() override {
    return std::make_unique<flat_inspector<Structure, F>>(*this, options_, at_.layout, at_.n_slots);
  }
  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    const int e = api_.fill(storage_.p, 0xff, storage_.bytes, stream);
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }
  gpuhash_status recount_empty(void* stream, gpuhash_error* err) {
    const gpuhash_status s = write_used({}, 0, stream, err);
    rebuilds_ = 0;
    return s;
  }

  uint64_t bytes_for(uint64_t keys) const {  // 0: too many
    const uint64_t n = S::slots_for(options_, keys, config_.max_load_factor);
    return n > ~uint64_t(0) / sizeof(word) ? 0 : n * sizeof(word);
  }

  // Slots in memory of bytes_for(keys), which is as it was.
  gpuhash_status lay_out(uint64_t keys, const scratch& fresh, place* out, gpuhash_error* err) {
    const uint64_t n = bytes_for(keys) / sizeof(word);
    if (n == 0)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "capacity %llu is too large for this table's layout; ask for fewer keys",
                        (unsigned long long)keys);
    if (!fresh) return no_memory(err, fresh.bytes());
    out->n_slots = n;
    out->layout = S::bind(options_, fresh.get(), n, head()->side, config_.seed);
    out->limit = uint64_t(double(n) * config_.max_load_factor);
    if (out->limit == 0) out->limit = 1;
    return GPUHASH_OK;
  }
  void take_place(const place& now, scratch& fresh) {
    at_ = now;
    storage_fits_surely(S::finds_room(at_.layout, config_.max_load_factor));
    fresh.swap(storage_);  // what was there before goes with the scratch
  }

  // Move every live pair into storage for so many keys. The old storage stays until the new one is complete.
  gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    if (keys < uint64_t(now.live)) keys = uint64_t(now.live);
    uint64_t moved = 0;
    const gpuhash_status s = move_to(keys, uint64_t(now.live), &moved, stream, err);
    return s ? s : write_used(now, moved, stream, err);
  }
  gpuhash_status move_to(uint64_t keys, uint64_t live, uint64_t* moved, void* stream, gpuhash_error* err) {
    scratch fresh(*this, bytes_for(keys), stream);
    place now;
    if (const gpuhash_status s = lay_out(keys, fresh, &now, err)) return s;
    const place before = at_;
    at_ = now;
    const uint64_t step = before.n_slots < rebuild_step ? before.n_slots : rebuild_step;
    const block unfilled = {fresh.get(), fresh.bytes()};
    const gpuhash_status s = move_pairs(
        {&before.layout, before.n_slots, step, live, GPUHASH_OP_INSERT, false, unfilled}, moved, stream, err);
    at_ = before;
    if (s == GPUHASH_OK) take_place(now, fresh);
    return s;
  }

  options options_;
  place at_;
  block storage_;
};

}  // namespace gpuhash
