// stadium for the kit: options, sizes, storage, and tables that are in a file already.
#pragma once
#include <memory>
#include <vector>

#include "engines.hpp"
#include "inspect.hpp"
#include "layout.hpp"
#include "libgpuhash/kit/table.hpp"
#include "pair.hpp"
#include "pinned.hpp"
#include "primes.hpp"
#include "table_file.hpp"

namespace gpuhash {

// A path of so many full groups does not come about below a load factor of 0.9 unless keys are chosen for it: less than
// three of four groups of 8 slots are full there, less than one of three lines of 8 groups, and the lines of a path are
// as good as independent.
inline constexpr uint64_t longest_path = 512;

struct stadium_options {
  uint32_t log_bits = 3;                      // of a ticket
  uint32_t log_line = 3;                      // groups that a path visits in a row: 1 << log_line
  uint64_t probe_limit = 0;                   // groups; 0: all of them
  std::string path;                           // of the file that holds the table; empty: it is in memory
  enum { as_is, fresh, there } file = as_is;  // either, has to be new, has to exist
  std::string elements;                       // what the file says of keys and values
  bool repair = false;
  const disk_api* disk = &system_disk;
  bool pinned = false;         // CUDA: slots in memory of the host
  uint64_t ordered_from = 0;   // elements of a batch that is put in order of windows of the slots; 0: none is
  bool order_if_away = false;  // only as long as pages of the file are missing in memory
  uint32_t window_shift = 14;
  double stack_from = 2;  // CUDA: load from which inserts are served by stacks of jobs; 2: at none
};

class stadium final : public table {
 public:
  stadium(const setup& s, const stadium_options& o)
      : table(s, {.line_cells = 64u >> o.log_bits, .exclusive_kinds = 1u << pop, .exact_widths = true}), options_(o) {
    engine_ = s.engines + (o.pinned ? stadium_rows : stadium_engine(config_.key_bytes, config_.value_bytes));
  }
  ~stadium() override {
    dismantle([this](void* stream) {
      if (storage_.file) storage_.file->close();
      drop_storage(storage_, stream, nullptr);
    });
  }

  gpuhash_status create(gpuhash_error* err) {
    on_device scope(*this);
    if (scope.error) return fault(err, scope.error, "choosing the table's device");
    void* const stream = config_.stream;
    if (const gpuhash_status s = make_header(stream, err)) return s;
    bool there = false;
    if (const gpuhash_status s = look_for_file(&there, err)) return s;
    if (there) {
      if (const gpuhash_status s = reopen(err)) return s;
    } else {
      place now;
      if (const gpuhash_status s = lay_out(config_.capacity, &now, stream, err)) return s;
      if (now.file)
        if (const gpuhash_status s = now.file->publish(nullptr, err)) return s;
      use(now);
      if (const gpuhash_status s = write_used({}, 0, stream, err)) return s;
    }
    rebuilds_ = 0;
    if (const int e = api_.wait(stream)) return fault(err, e, "initialising the table");
    ready_ = true;
    return GPUHASH_OK;
  }

 private:
  // The storage of a table: all that a rebuild exchanges.
  struct place {
    stadium_table layout{};
    uint64_t limit = 0;
    block tickets;
    block slots;
    block pinned_slots;                // instead of slots
    block locks;                       // of values in pinned slots
    std::shared_ptr<table_file> file;  // instead of the two blocks
  };

  const void* layout() const override { return &storage_.layout; }
  uint64_t slots() const override { return storage_.layout.cells(); }
  uint64_t cells() const override { return storage_.layout.cells(); }
  uint64_t bytes() const override {
    if (storage_.file) return storage_.file->bytes();
    return storage_.tickets.bytes + storage_.slots.bytes + storage_.pinned_slots.bytes + storage_.locks.bytes;
  }
  uint64_t limit() const override { return storage_.limit; }
  void tune(request& q) const override {
    const bool may = options_.stack_from <= 1;
    q.tile = may && taken() >= stack_at_.load(std::memory_order_relaxed) ? stack_of_warp : 0;
  }
  bool smaller_for(uint64_t keys) const override { return groups_for(keys) < storage_.layout.groups; }
  std::unique_ptr<inspector> make_inspector() override {
    return std::make_unique<stadium_inspector>(*this, storage_.layout, options_.pinned);
  }
  bool finds_room(const stadium_table& t) const {
    return t.path_limit == t.groups || (config_.max_load_factor <= 0.9 && t.path_limit >= longest_path);
  }
  gpuhash_status empty_storage(void* stream, gpuhash_error* err) override {
    int e = 0;
    const auto fill = [&] { e = api_.fill(storage_.layout.tickets, 0, storage_.layout.groups * sizeof(u64), stream); };
    storage_.file ? storage_.file->clear(fill) : fill();
    return e ? fault(err, e, "clearing the table") : gpuhash_status(GPUHASH_OK);
  }

  // Groups for so many keys; 0: too many.
  uint64_t groups_for(uint64_t keys) const {
    const double load = config_.max_load_factor;
    if (keys < 64) keys = 64;
    const double wanted = double(keys) / load;
    if (wanted > 0x1p58) return 0;
    const uint32_t tickets = 64u >> options_.log_bits;
    uint64_t slots = uint64_t(wanted);
    while (uint64_t(double(slots) * load) < keys) ++slots;  // limit() must reach keys
    const uint64_t of_line = uint64_t(tickets) << options_.log_line;
    return prime_from((slots + of_line - 1) / of_line) << options_.log_line;
  }

  // The facts of the layout that do not depend on the number of groups.
  stadium_table without_storage() const {
    const auto shape = (options_.pinned ? row_shape_of : shape_of)(config_.key_bytes, config_.value_bytes);
    stadium_table t{};
    t.log_bits = options_.log_bits;
    t.log_tickets = 6 - options_.log_bits;
    t.log_line = options_.log_line;
    t.seed = config_.seed;
    t.nothing = head()->side;
    t.ones = ~uint64_t(0) / ((uint64_t(1) << (1u << t.log_bits)) - 1);
    t.key_bytes = config_.key_bytes;
    t.value_bytes = config_.value_bytes;
    t.value_at = shape.value_at;
    t.stride = shape.stride;
    t.by_rows = options_.pinned;
    t.in_file = !options_.path.empty();
    t.order_if_away = options_.order_if_away;
    t.log_lanes = log_lanes_of(t.stride);
    t.window_shift = options_.window_shift;
    t.ordered_from = options_.ordered_from;
    return t;
  }
  void take_groups(place* p) const {
    stadium_table& t = p->layout;
    const uint64_t others = (uint64_t(1) << t.log_line) - 1;
    const uint64_t asked = (options_.probe_limit + others) & ~others;
    t.path_limit = asked && asked < t.groups ? asked : t.groups;
    p->limit = uint64_t(double(t.cells()) * config_.max_load_factor);
  }

  gpuhash_status lay_out(uint64_t keys, place* out, void* stream, gpuhash_error* err) {
    stadium_table& t = out->layout;
    t = without_storage();
    t.groups = groups_for(keys);
    if (t.groups == 0 || t.groups > ~uint64_t(0) / 2 / t.stride >> t.log_tickets)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "capacity %llu is too large for this table's layout; ask for fewer keys",
                        (unsigned long long)keys);
    take_groups(out);
    if (options_.pinned) return lay_out_behind_bus(out, stream, err);
    return options_.path.empty() ? lay_out_in_memory(out, stream, err) : lay_out_in_file(out, err);
  }
  gpuhash_status lay_out_in_memory(place* out, void* stream, gpuhash_error* err) {
    stadium_table& t = out->layout;
    const uint64_t bytes = t.groups * sizeof(u64) + t.cells() * t.stride;
    if (const gpuhash_status lacking = enough_memory(bytes, err)) return lacking;
    scratch tickets(*this, t.groups * sizeof(u64), stream);
    scratch slots(*this, t.cells() * t.stride, stream);
    if (!tickets || !slots) return no_memory(err, bytes);
    int e = api_.fill(tickets.get(), 0, tickets.bytes(), stream);
    // A slot that was not written is not read. But on the CPU memory comes into being when it is touched, which the team
    // does faster than a batch of inserts.
    if (!e && !on_cuda()) e = api_.fill(slots.get(), 0, slots.bytes(), stream);
    if (e) return fault(err, e, "initialising the table");
    t.tickets = tickets.as<u64>();
    t.place_slots(slots.get());
    tickets.swap(out->tickets);
    slots.swap(out->slots);
    return GPUHASH_OK;
  }
  // Tickets and locks in the device's memory, slots in the host's.
  static constexpr uint64_t most_locks = 1 << 16;
  gpuhash_status lay_out_behind_bus(place* out, void* stream, gpuhash_error* err) {
    stadium_table& t = out->layout;
    block slots{nullptr, t.cells() * t.stride};
    uint64_t n_locks = 64;
    while (n_locks < most_locks && n_locks < t.cells()) n_locks *= 2;
    scratch tickets(*this, t.groups * sizeof(u64), stream);
    scratch locks(*this, n_locks * sizeof(u32), stream);
    if (!tickets || !locks) return no_memory(err, tickets.bytes() + locks.bytes());
    int e = api_.fill(tickets.get(), 0, tickets.bytes(), stream);
    if (!e) e = api_.fill(locks.get(), 0, locks.bytes(), stream);
    if (e) return fault(err, e, "initialising the table");
    if (const gpuhash_status refused = pin(api_, slots.bytes, &slots.p, err)) return refused;
    t.tickets = tickets.as<u64>();
    t.locks = locks.as<u32>();
    t.lock_mask = u32(n_locks - 1);
    t.place_slots(slots.p);
    tickets.swap(out->tickets);
    locks.swap(out->locks);
    out->pinned_slots = slots;
    return GPUHASH_OK;
  }
  // Is there a table to open?
  gpuhash_status look_for_file(bool* there, gpuhash_error* err) const {
    struct stat about;
    *there = !options_.path.empty() && options_.file == stadium_options::there;  // open() says what is wrong
    if (options_.path.empty() || *there) return GPUHASH_OK;
    *there = options_.disk->stat(options_.path.c_str(), &about) == 0;
    if (!*there && errno != ENOENT)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT, "%s cannot be looked at: %s", options_.path.c_str(),
                        strerror(errno));
    if (!*there || options_.file != stadium_options::fresh) return GPUHASH_OK;
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "%s exists already; name another file, or pass file=auto",
                      options_.path.c_str());
  }
  gpuhash_status lay_out_in_file(place* out, gpuhash_error* err) {
    auto file = std::make_shared<table_file>(*options_.disk);
    if (const gpuhash_status s = file->create(options_.path, options_.elements, out->layout, storage_.file.get(), err))
      return s;
    out->layout.tickets = file->tickets();
    out->layout.place_slots(file->slots());
    out->file = std::move(file);
    return GPUHASH_OK;
  }

  // A table that is in its file already.
  gpuhash_status reopen(gpuhash_error* err) {
    place now;
    now.layout = without_storage();
    now.file = std::make_shared<table_file>(*options_.disk);
    bool killed = false;
    bool lost = false;
    if (const gpuhash_status s = now.file->open(options_.path, &options_.elements, &now.layout, &killed, &lost, err))
      return s;
    if (lost && !options_.repair) return now.file->refuse_lost(err);
    config_.seed = now.layout.seed;  // whatever was asked for
    now.layout.tickets = now.file->tickets();
    now.layout.place_slots(now.file->slots());
    const u64 path_limit = now.layout.path_limit;
    take_groups(&now);
    now.layout.path_limit = path_limit;  // keys may lie so far, until a rebuild
    if (const gpuhash_status s = now.file->begin_writing(lost, err)) return s;
    use(now);
    if (killed || options_.repair) bury_unfinished(now.layout);
    if (options_.repair) bury_misplaced(now.layout);
    const totals there = count_tickets(now.layout);
    if (const gpuhash_status s = write_used(there, uint64_t(there.used), nullptr, err)) return s;
    if (options_.repair)
      if (const gpuhash_status s = resize(limit(), nullptr, err)) return s;
    return config_.capacity > limit() ? resize(config_.capacity, nullptr, err) : gpuhash_status(GPUHASH_OK);
  }
  // An insert that was killed has left a busy ticket. No operation has seen its key: the slot is dead, and no key's (I1).
  static void bury(stadium_table& t, u64 group, u32 i) {
    const u64 ticket = (u64(1) << (1u << t.log_bits)) - 1;
    t.tickets[group] = (t.tickets[group] & ~(ticket << t.shift_of(i))) | u64(dead) << t.shift_of(i);
  }
  static void bury_unfinished(stadium_table& t) {
    for (u64 group = 0; group < t.groups; ++group)
      for (u32 i = 0; i < 1u << t.log_tickets; ++i)
        if (t.state_at(t.tickets[group], i) == busy) bury(t, group, i);
  }
  // Repairs a table whose pages are of different ages: the pairs that are kept are the live slots that lie on their
  // keys' paths, the first one of each key. Slots that were never written all hold the same key, and some of their
  // tickets agree with it; they were booked after that key's own slot was synced, so that they come after it (I2, I3).
  static void bury_misplaced(stadium_table& t) {
    for (u64 group = 0; group < t.groups; ++group)
      for (u32 i = 0; i < 1u << t.log_tickets; ++i)
        if (t.state_at(t.tickets[group], i) == live && !is_found(t, group, i)) bury(t, group, i);
  }
  // Does the path of a live slot's key lead to it?
  static bool is_found(const stadium_table& t, u64 group, u32 i) {
    const u64 ticket = (u64(1) << (1u << t.log_bits)) - 1;
    const unsigned char* const slot = t.slot(group, i);
    const u64 h = hash_of_slot(t, slot);
    const u64 mine = t.live_ticket(h) & ticket;
    const auto has_it = [&](u64 at, u32 o) { return (t.tickets[at] >> t.shift_of(o) & ticket) == mine; };
    if (!has_it(group, i)) return false;
    u64 at = t.home(h);
    for (u64 left = t.path_limit; left;) {
      for (u32 o = 0; o < (at == group ? i : 1u << t.log_tickets); ++o)
        if (has_it(at, o) && !memcmp(t.slot(at, o), slot, t.key_bytes)) return false;
      if (at == group) return true;
      // A longer path than usual leads through full groups only (I2).
      if (t.path_limit - left >= longest_path && t.equal(t.tickets[at], 0)) return false;
      at = t.after(at, t.stride_of(h), --left);
    }
    return false;
  }
  static totals count_tickets(const stadium_table& t) {
    totals sum{};
    for (u64 group = 0; group < t.groups; ++group)
      for (u32 i = 0; i < 1u << t.log_tickets; ++i) {
        sum.live += t.state_at(t.tickets[group], i) == live;
        sum.used += t.state_at(t.tickets[group], i) != never;
      }
    return sum;
  }

  void use(const place& p) {
    storage_ = p;
    storage_fits_surely(finds_room(p.layout));
    stack_at_.store(uint64_t(options_.stack_from * double(p.layout.cells())), std::memory_order_relaxed);
  }
  gpuhash_status drop_storage(place& p, void* stream, gpuhash_error* err) {
    gpuhash_status s = GPUHASH_OK;
    drop(p.tickets, stream);
    drop(p.slots, stream);
    drop(p.locks, stream);
    if (p.pinned_slots.p) {
      // All uses of it on other streams have ended: the table is held exclusively.
      if (const int e = api_.wait(stream)) s = fault(err, e, "waiting for what uses pinned slots");
      api_.release_pinned(p.pinned_slots.p);
      p.pinned_slots = {};
    }
    p.file.reset();
    return s;
  }

  // Move every live pair into storage for so many keys. The old storage stays until the new one is complete.
  gpuhash_status try_resize(uint64_t keys, void* stream, gpuhash_error* err) override {
    totals now{};
    if (const gpuhash_status s = read_totals(&now, stream, err)) return s;
    if (keys < uint64_t(now.live)) keys = uint64_t(now.live);
    uint64_t moved = 0;
    gpuhash_status s = move_to(keys, uint64_t(now.live), &moved, stream, err);
    if (s == GPUHASH_OK) s = write_used(now, moved, stream, err);
    return s || !storage_.file ? s : storage_.file->has_kept_name(err);
  }
  // Cells that are moved at a time. Wide pairs do not take more memory in between than others.
  static uint64_t step_of(const stadium_table& t) {
    constexpr uint64_t most_bytes = uint64_t(1) << 30;
    uint64_t step = rebuild_step;
    while (step * t.stride > most_bytes && step > 4096) step /= 2;
    return step < t.cells() ? step : t.cells();
  }
  gpuhash_status move_to(uint64_t keys, uint64_t live, uint64_t* moved, void* stream, gpuhash_error* err) {
    place fresh;
    if (const gpuhash_status s = lay_out(keys, &fresh, stream, err)) return s;
    place before = storage_;
    use(fresh);
    const uint64_t cells = before.layout.cells();
    const uint64_t step = step_of(before.layout);
    gpuhash_status s = move_pairs({&before.layout, cells, step, live, GPUHASH_OP_INSERT, false}, moved, stream, err);
    if (s == GPUHASH_OK && fresh.file) s = fresh.file->publish(before.file.get(), err);
    if (s == GPUHASH_OK) return drop_storage(before, stream, err);
    use(before);
    drop_storage(fresh, stream, nullptr);
    return s;
  }

  stadium_options options_;
  place storage_;
  kit_atomic<uint64_t> stack_at_{0};  // taken slots from which inserts are served by stacks; read beside rebuilds
};

}  // namespace gpuhash
