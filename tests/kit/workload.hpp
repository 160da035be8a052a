// What a run does with a table, and what the table owes.
//
// Each stream (each thread, on the CPU) owns keys of its own, so that what every element of its batches has to answer
// follows from the batches before; some keys are shared by all threads, and only added to. The model is brought up to date when a
// stream's batches are looked at, from what the elements said: whether one found no room is the table's to say, and
// whether it may say so is checked apart:
//
//   W1  An element that was carried out answers what the model says; one that was not has changed nothing.
//   W2  No element of a growing table is left out while memory can be had.
//   W3  If an element was left out, the call said so; and counted so, where it counts. A batch that nobody waited for, of
//       a table that may not grow, is reported by a later call that waits: each such element once.
//   W4  Finds, erases and counts are always carried out.
//   W5  Batches that add no key do not make a table grow.
//   W6  What a table holds is what the model holds: size, export, check().
//   W7  A table grows for what is asked of it, and not once for each that asks.
//   W8  All memory and every event goes back; after a device error every call says POISONED.
//   W9  Batches that are captured into a graph do at each launch what they do otherwise. While the graph lives, the table
//       stays where it is. What a graph does not take is refused.
//   W10 Whatever other streams do, ordered queries see every key that the asking stream has settled, and none that it lacks,
//       in order.
//   W11 When nothing runs, the ledger of room (kit/room.hpp) knows of all that is used; and of nothing in an empty table.
//       On CUDA no batch beside others uses more than it has claimed, no more keys are there than the table says that were
//       added at most, launches of graphs included, and a skiplist has the chunks that certain() goes by.
//   W12 What fails for lack of memory leaves the table as it was.
//   W13 After reserve(n) a table has room for n keys.
//   W14 Where slots run out, batches that only add fill no table beyond its limit that gets no memory; and while it has room
//       up to there, none of their elements is left out.
#pragma once
#include <algorithm>
#include <map>

#include "libgpuhash/kit/table.hpp"
#include "tests/kit/engines.hpp"

namespace gpuhash {
struct table_under_test {
  static uint64_t taken(const table& t) { return t.taken(); }
  static bool overdrawn(const table& t) { return t.room_.overdrawn(); }
  static uint64_t limit(const table& t) { return t.room_.limit(); }
  static uint64_t added(const table& t) { return t.added_; }
};
}  // namespace gpuhash

namespace gpuhash::kit_sim {

enum class plan { plain, memory, faults };

struct run_options {
  bool cuda = true, slab = false, hive = false, stadium = false, skip = false;
  plan what = plan::plain;
  uint64_t at = 0;  // memory, faults: which allocation or call fails first; 0: drawn
};

struct table_options {
  gpuhash_config config{};
  bool resource = false;
  uint64_t probe_limit = 1u << 17, row = 8;
  uint32_t by_mask = 0;
  uint64_t buckets = 0;
  uint32_t slab_bytes = 128, light = 0, duplicates = 0;
  uint32_t log_bits = 3;
  uint32_t order = 0, build = 0;      // of skiplist; 1: always
  uint32_t threads = 1, streams = 1;  // streams: of each thread
  uint32_t keys = 97;                 // of each owner; a prime
};

table* make_table(const run_options&, const table_options&, gpuhash_status*, gpuhash_error*);  // kit_sim.cpp
// Of a skiplist: how many chunks are free by its ledger, and by its pool; of another structure nothing changes.
void free_chunks(const table& t, uint64_t* said, uint64_t* there);  // kit_sim.cpp

inline constexpr uint32_t shared_keys = 47;

class workload {
 public:
  workload(const run_options& r, const table_options& o) : run_(r), o_(o) {}

  uint64_t calls = 0, elements = 0, failed_elements = 0;

  void go() {
    world& w = the_world;
    the_device.reset(run_.cuda);
    plan_faults();
    const uint32_t n_owners = o_.threads * o_.streams;
    owners_.resize(n_owners);
    for (owner& own : owners_) {
      own.stream = nullptr;
      if (run_.cuda && !(&own == &owners_[0] && w.one_in(8))) own.stream = the_device.make_stream();
      own.cells.assign(o_.keys, {});
    }
    o_.config.stream = run_.cuda && w.one_in(2) ? owners_[0].stream : nullptr;
    while (!table_) {
      const uint64_t before = the_device.injected_memory;
      const gpuhash_status s = call("create", [&](gpuhash_error* e) {
        gpuhash_status status = GPUHASH_OK;
        table_ = make_table(run_, o_, &status, e);
        return status;
      });
      if (table_) break;
      if (broken_ || the_device.injected) return finish();
      if (s != GPUHASH_NO_MEMORY || the_device.injected_memory == before) w.violation("create: %s", err().message);
    }
    const uint32_t phases = 1 + w.below(4);
    for (uint32_t p = 0; p < phases && !broken_; ++p) {
      const uint32_t actions = 4 + w.below(24);
      run_threads([this, actions](uint32_t t) { act(t, actions); });
      if (broken_) break;
      if (w.one_in(4)) ledger_knows_all(info());  // which waits for everything
      if (broken_) break;
      switch (run_.what == plan::memory && heap_is_soon_full() && w.one_in(2) ? 5 : w.below(8)) {
        case 0: look_at_everything(); break;
        case 1: clear(owners_[0].stream); break;
        case 2: updates_only(); break;
        case 3: o_.config.grow ? rush() : keep_room(); break;
        case 4: use_graph(); break;
        case 5:
        case 6: run_.what == plan::memory ? famine() : use_graph(); break;
        case 7: o_.config.grow ? come_and_go() : keep_room(); break;
      }
      if (graph_) break;  // it outlives the table
    }
    if (!broken_ && !w.one_in(4)) look_at_everything();
    if (!broken_ && !graph_ && w.one_in(2))
      submit(owners_[w.below(n_owners)]);  // which runs when the table is destroyed
    if (!broken_ && !o_.config.grow) info();
    if (!broken_ && !o_.config.grow) {
      for (owner& o : owners_) settle(o);
      if (told_ != silent_)
        w.violation("W3: %llu elements of batches that nobody waited for found no room; %llu were reported",
                    (unsigned long long)silent_, (unsigned long long)told_);
    }
    destroy();
    finish();
  }

 private:
  struct cell {
    uint32_t count = 0;
    uint64_t value = 0;
  };
  struct batch {
    uint32_t op;
    bool shared = false, clears = false;  // clears: not a batch, but a clear of the table
    std::vector<uint32_t> numbers;
    std::vector<uint64_t> values;
    std::vector<uint8_t> ops;
    void *keys = nullptr, *in = nullptr, *out = nullptr, *status = nullptr, *codes = nullptr;
    gpuhash_status said = GPUHASH_OK;
    bool counted = false, may_fail = false, captured = false;
    bool nobody_knows = false;  // which of its elements found no room
    bool misspelt = false;      // some of its op codes are none
    bool unordered = false;  // several of its elements change the same key, or an earlier batch's did: which came last?
    gpuhash_counts counts{};
  };
  struct owner {
    void* stream;
    std::vector<device::stream_ref> before;  // streams that it had before
    std::vector<cell> cells;
    std::vector<batch> queued;
    bool knows[shared_keys] = {};  // it added that one itself
    std::vector<batch> retry;      // elements that found no room
  };
  struct shared_cell {
    uint64_t sum = 0, adds = 0, yes = 0;
  };

  run_options run_;
  table_options o_;
  table* table_ = nullptr;
  std::vector<owner> owners_;
  shared_cell shared_[shared_keys];
  bool broken_ = false;
  bool updating_ = false;
  bool limited_ = false;   // no table gets memory, and one thread adds until slots run out
  bool has_room_ = false;  // for all keys
  device::graph* graph_ = nullptr;
  std::vector<batch> captured_;  // its batches
  owner* captured_of_ = nullptr;
  gpuhash_error err_[most_fibers];
  std::vector<int> said_;
  uint64_t told_ = 0, silent_ = 0;  // elements of batches that nobody waited for: reported, and left out
  uint64_t high_ = 0;               // the most keys that the table may have had to hold

  bool over() const { return broken_ || the_device.injected; }  // a device error: nothing follows
  gpuhash_error& err() { return err_[the_world.me()]; }
  bool has_values() const { return o_.config.value_bytes != 0; }
  uint64_t value_mask() const { return o_.config.value_bytes == 4 ? 0xffffffffu : ~uint64_t(0); }
  uint64_t key_mask() const { return o_.config.key_bytes == 4 ? 0xffffffffu : ~uint64_t(0); }
  uint64_t key_of(size_t who, uint32_t number) const {  // who: an owner, or owners_.size() for the shared ones
    if (who == 0 && number < 2) return key_mask() - number;
    return uint64_t(number) * (owners_.size() + 1) + who + 16;
  }
  static uint64_t fixed_value(uint64_t key) { return key * 0x9e3779b97f4a7c15ull | 1; }

  // ---- faults -------------------------------------------------------------------------------------------------------
  void plan_faults() {
    world& w = the_world;
    device& d = the_device;
    if (run_.what == plan::memory) {
      d.fail_memory_from = run_.at ? run_.at : 1 + w.below(w.one_in(2) ? 12 : 150);
      d.fail_memory_to = d.fail_memory_from + (w.one_in(2) ? 1 : 1 + w.below(6));
    }
    if (run_.what == plan::faults) {
      d.fail_call = run_.at ? run_.at : 1 + w.below(w.one_in(2) ? 60 : 900);
      d.sticky = w.one_in(3);
    }
  }

  template <class Call>
  gpuhash_status call(const char* name, Call c) {
    for (;;) {
      uint64_t told = 0;
      const gpuhash_status s = call_once(name, c, &told);
      if (!told) return s;
      told_ += told;
      if (o_.config.grow) the_world.violation("W2: %s", err().message);
    }
  }
  template <class Call>
  gpuhash_status call_once(const char* name, Call c, uint64_t* told) {
    world& w = the_world;
    device& d = the_device;
    ++calls;
    w.doing[w.me()] = name;
    const uint64_t injected = d.injected;
    const bool was_broken = broken_;
    err() = {};
    ++d.inside;
    gpuhash_status s = GPUHASH_OK;
    try {
      s = c(&err());
    } catch (const std::bad_alloc&) {
      s = GPUHASH_NO_MEMORY;
    }
    --d.inside;
    if (s == GPUHASH_FULL && strstr(err().message, "elements of earlier batches"))
      *told = strtoull(err().message, nullptr, 10);
    if (d.cuda && d.current() != 0) w.violation("the call leaves device %d current", d.current());
    if (was_broken && table_ && s != GPUHASH_POISONED)
      w.violation("after a device error (%s failed) a call says %d, not POISONED: %s", d.failed_call, int(s),
                  err().message);
    if (d.injected != injected) {
      const char* const what = d.failed_call;
      // The end of an exclusive operation is noted after it has done its work: there the next call says so.
      const bool late = !strcmp(what, "record") || !strcmp(what, "stream_id") || !strcmp(what, "make_event");
      if (o_.threads == 1 && !d.sticky && !late && s != GPUHASH_DEVICE_ERROR && s != GPUHASH_POISONED &&
          strcmp(name, "destroy"))
        w.violation("%s failed, and the call says %d: %s", what, int(s), err().message);
    }
    if (s == GPUHASH_DEVICE_ERROR || s == GPUHASH_POISONED) {
      if (!d.injected) w.violation("a device error out of nothing: %s", err().message);
      broken_ = true;
    } else if (d.injected && d.failed_thread == w.me()) {
      broken_ = true;
    } else if (d.pending_host_copies() && !broken_) {
      w.violation("the call returns while a copy to its host memory is still to come");
    }
    if (w.trace)
      fprintf(stderr, "  thread %u step %llu: %s -> %d %s\n", w.me(), (unsigned long long)w.steps, name, int(s),
              err().message);
    w.doing[w.me()] = nullptr;
    return s;
  }
  void must(gpuhash_status s, const char* what) {
    if (s != GPUHASH_OK && !broken_ && !the_device.injected)
      the_world.violation("%s says %d: %s", what, int(s), err().message);
  }
  // An exclusive operation that may want memory, and whose rebuild may find no place with a small probe limit.
  template <class Call>
  void may_lack_room(const char* name, Call c) {
    const uint64_t before = the_device.injected_memory;
    const gpuhash_status s = call(name, c);
    if (s == GPUHASH_OK || broken_ || the_device.injected) return;
    if (s == GPUHASH_NO_MEMORY && (the_device.injected_memory != before || the_device.injected)) return;
    if (s == GPUHASH_FULL && o_.probe_limit < 3000) return;
    the_world.violation("%s says %d: %s", name, int(s), err().message);
  }

  // ---- threads ------------------------------------------------------------------------------------------------------
  template <class Body>
  void run_threads(Body body) {
    if (o_.threads == 1) return body(0);
    for (uint32_t t = 0; t < o_.threads; ++t) the_world.spawn([=] { body(t); });
    the_world.join_all();
  }
  owner& own_of(uint32_t thread) { return owners_[thread * o_.streams + the_world.below(o_.streams)]; }
  size_t index_of(const owner& o) const { return size_t(&o - owners_.data()); }

  void act(uint32_t thread, uint32_t actions) {
    world& w = the_world;
    for (uint32_t i = 0; i < actions && !broken_; ++i) {
      owner& o = own_of(thread);
      void* const s = own_of(thread).stream;
      if (w.below(100) < 66) {
        submit(o);
        continue;
      }
      if (updating_) {
        settle(o);
        continue;
      }
      switch (w.below(run_.skip ? 18 : 14)) {
        case 0: flush(s); break;
        case 1: may_lack_room("shrink", [&](gpuhash_error* e) { return table_->shrink(s, e); }); break;
        case 2: reserve(s); break;
        case 3: must(call("check", [&](gpuhash_error* e) { return table_->check(e); }), "check"); break;
        case 4: look_at_ledger(); break;
        case 5: stats(); break;
        case 6: find_all(o); break;
        case 7:
          if (run_.cuda) end_stream(o);
          break;
        case 8: export_some(s); break;
        case 14: neighbors(o); break;
        case 15: limited_ranges(o); break;
        case 16: pairs_of_ranges(o); break;
        case 17: range_all(o); break;
        default:
          settle(o);
          if (w.one_in(2)) look_at_ledger();
      }
    }
  }
  void look_at_ledger() {
    if (over()) return;
    const gpuhash_table_info i = info();
    if (o_.threads == 1) ledger_knows_all(i);  // and nothing runs
  }

  // ---- batches ------------------------------------------------------------------------------------------------------
  uint32_t draw_op() {
    world& w = the_world;
    if (o_.duplicates) {
      static constexpr uint32_t ops[] = {GPUHASH_OP_INSERT_MULTI, GPUHASH_OP_INSERT_MULTI, GPUHASH_OP_INSERT,
                                         GPUHASH_OP_COUNT,        GPUHASH_OP_ERASE_ALL,    GPUHASH_OP_ERASE,
                                         GPUHASH_OP_FIND,         GPUHASH_OP_EXECUTE};
      return ops[w.below(8)];
    }
    static constexpr uint32_t ops[] = {GPUHASH_OP_INSERT, GPUHASH_OP_INSERT,  GPUHASH_OP_ASSIGN,
                                       GPUHASH_OP_ERASE,  GPUHASH_OP_FIND,    GPUHASH_OP_FIND,
                                       GPUHASH_OP_COUNT,  GPUHASH_OP_EXECUTE, GPUHASH_OP_ACCUMULATE};
    return ops[w.below(has_values() ? 9 : 8)];
  }
  void submit(owner& o) {
    world& w = the_world;
    if (!o.retry.empty() && w.one_in(2)) {
      batch b = std::move(o.retry.back());
      o.retry.pop_back();
      return launch(o, std::move(b));
    }
    batch b = draw_batch(o, draw_op(), !updating_ && w.one_in(8));
    if (b.numbers.empty()) return;
    if (b.op == GPUHASH_OP_EXECUTE && !b.shared && !o_.duplicates && w.one_in(3)) return renew(o, std::move(b));
    launch(o, std::move(b));
  }
  // The same keys are changed several times by one batch, most of all erased and inserted, so that they may take other
  // slots. Then they are erased.
  void renew(owner& o, batch b) {
    world& w = the_world;
    batch rest;
    rest.op = GPUHASH_OP_ERASE, rest.numbers = b.numbers, rest.unordered = b.unordered = true;
    const size_t n = b.numbers.size();
    for (size_t i = 0; i < n; ++i) b.numbers.push_back(rest.numbers[i]);
    b.ops.assign(n, GPUHASH_OP_ERASE);
    b.ops.resize(2 * n, GPUHASH_OP_INSERT);
    const uint32_t other = w.one_in(2) ? 0 : 1 + w.below(100);  // per cent of the elements
    for (size_t i = 0; i < 2 * n; ++i)
      if (w.below(100) < other) b.numbers[i] = rest.numbers[w.below(uint32_t(n))], b.ops[i] = draw_code();
    launch(o, std::move(b));
    if (!over()) launch(o, std::move(rest));
  }
  static constexpr uint8_t bad_code = 77;
  uint8_t draw_code() {
    static constexpr uint8_t codes[] = {GPUHASH_OP_NOP,  GPUHASH_OP_INSERT, GPUHASH_OP_INSERT,    GPUHASH_OP_ASSIGN,
                                        GPUHASH_OP_FIND, GPUHASH_OP_ERASE,  GPUHASH_OP_ACCUMULATE};
    return codes[the_world.below(o_.duplicates ? 3 : has_values() ? 7 : 6)];
  }
  batch draw_batch(owner& o, uint32_t op, bool shared) {
    world& w = the_world;
    batch b;
    b.shared = shared;
    b.op = op;
    const uint32_t universe = b.shared ? shared_keys : o_.keys;
    if (b.shared)
      b.op = w.one_in(3) ? GPUHASH_OP_FIND : has_values() && !o_.duplicates ? GPUHASH_OP_ACCUMULATE : GPUHASH_OP_INSERT;
    // Keys may repeat within a batch where any order gives the same.
    const bool repeats = b.shared || ((b.op == GPUHASH_OP_ACCUMULATE || b.op == GPUHASH_OP_INSERT_MULTI ||
                                       b.op == GPUHASH_OP_FIND || b.op == GPUHASH_OP_COUNT) &&
                                      w.one_in(4));
    uint32_t n = 1 + w.below(w.below(5) ? 60 : w.below(3) ? 600 : 3000);
    if (!repeats && n > universe) n = universe;
    const uint32_t first = w.below(universe), stride = 1 + w.below(universe - 1);
    for (uint32_t i = 0; i < n; ++i) {
      const uint32_t x = repeats ? w.below(universe) : uint32_t((first + uint64_t(i) * stride) % universe);
      if (updating_ && !o.cells[x].count) continue;
      b.numbers.push_back(x);
    }
    // A table that looks how many of the first ones are new learns nothing about the last ones.
    if (!b.shared && w.one_in(4))
      std::stable_partition(b.numbers.begin(), b.numbers.end(), [&](uint32_t x) { return o.cells[x].count > 0; });
    if (b.op == GPUHASH_OP_ERASE && b.numbers.size() % 2 && may_pop()) b.op = GPUHASH_OP_POP;
    return b;
  }
  // stadium has the table to itself for it, which its caller would have to order after the launches of a graph.
  bool may_pop() const { return !(run_.stadium && captured_of_); }
  uint64_t draw_value(const batch& b, size_t who, uint32_t number) {
    if (o_.duplicates || (b.shared && b.op == GPUHASH_OP_INSERT))
      return fixed_value(key_of(who, number)) & value_mask();
    return (b.op == GPUHASH_OP_ACCUMULATE ? 1 + the_world.below(1000) : the_world.random()) & value_mask();
  }
  static void put(void* array, uint32_t width, size_t i, uint64_t v) {
    void* const p = the_device.real(array);
    if (width == 8) static_cast<uint64_t*>(p)[i] = v;
    if (width == 4) static_cast<uint32_t*>(p)[i] = uint32_t(v);
    if (width == 1) static_cast<uint8_t*>(p)[i] = uint8_t(v);
  }
  static uint64_t get(const void* array, uint32_t width, size_t i) {
    const void* const p = the_device.real(array);
    return width == 8   ? static_cast<const uint64_t*>(p)[i]
           : width == 4 ? static_cast<const uint32_t*>(p)[i]
                        : static_cast<const uint8_t*>(p)[i];
  }
  static bool adds(uint32_t op) { return op < kinds_end && in_kinds(op, adding_kinds); }  // bad codes are none

  // Arrays for a batch, and what goes to the table.
  gpuhash_batch prepare(owner& o, batch& b, bool with_status) {
    world& w = the_world;
    const size_t n = b.numbers.size(), who = b.shared ? owners_.size() : index_of(o);
    const uint32_t kb = o_.config.key_bytes, vb = o_.config.value_bytes;
    b.keys = the_device.user_memory(n * kb);
    for (size_t i = 0; i < n; ++i) put(b.keys, kb, i, key_of(who, b.numbers[i]));
    const bool mixes = b.op == GPUHASH_OP_EXECUTE;
    if (mixes && b.ops.empty()) {
      const uint32_t only = w.one_in(4) ? GPUHASH_OP_FIND : 0;
      for (size_t i = 0; i < n; ++i) b.ops.push_back(only ? uint8_t(only) : draw_code());
    }
    for (size_t i = 0; i < n && b.misspelt; ++i)
      if (i == 0 || w.one_in(5)) b.ops[i] = bad_code;
    if (mixes) {
      b.codes = the_device.user_memory(n);
      for (size_t i = 0; i < n; ++i) put(b.codes, 1, i, b.ops[i]);
    }
    const bool takes = vb && (adds(b.op) || mixes);
    if (takes) {
      if (b.values.empty())
        for (size_t i = 0; i < n; ++i) b.values.push_back(draw_value(b, who, b.numbers[i]));
      b.in = the_device.user_memory(n * vb);
      for (size_t i = 0; i < n; ++i) put(b.in, vb, i, b.values[i]);
    }
    if ((vb && in_kinds(b.op, answering_kinds)) || b.op == GPUHASH_OP_COUNT)
      b.out = the_device.user_memory(n * (b.op == GPUHASH_OP_COUNT ? 8 : vb));
    if (with_status) b.status = the_device.user_memory(n);
    gpuhash_batch q = GPUHASH_BATCH_INIT;
    q.op = b.op, q.n = n, q.keys = b.keys, q.values = b.in, q.out_values = b.out;
    q.out_status = static_cast<uint8_t*>(b.status), q.ops = static_cast<const uint8_t*>(b.codes);
    q.stream = o.stream;
    return q;
  }
  static const char* name_of(uint32_t op) { return kind_rows[op].name; }
  void launch(owner& o, batch b) {
    world& w = the_world;
    if (!o.before.empty()) settle(o);  // nothing orders the new stream after the old one
    // Without a status array the model does not know which elements found no room, so that only a run in which none may do so can
    // go on after it.
    const bool sure = o_.config.grow && run_.what == plan::plain, mixes = b.op == GPUHASH_OP_EXECUTE;
    b.misspelt = mixes && run_.cuda && !b.nobody_knows && w.one_in(8);
    gpuhash_batch q = prepare(o, b, !b.nobody_knows && (!sure || !w.one_in(4)));
    b.counted |= b.misspelt || w.one_in(3);  // so that it is told at once
    if (b.counted) q.counts = &b.counts;
    elements += q.n;
    const uint64_t before = the_device.injected_memory;
    const gpuhash_status s = b.said = call(name_of(b.op), [&](gpuhash_error* e) { return table_->run(q, e); });
    if (broken_ || the_device.injected) return;
    b.may_fail = !(o_.config.grow || has_room_) || the_device.injected_memory != before || the_device.injected;
    if (s != GPUHASH_OK) {
      const bool plausible =
          s == GPUHASH_FULL || s == GPUHASH_NO_MEMORY || (s == GPUHASH_INVALID_ARGUMENT && b.misspelt);
      if (!plausible || !(adds(b.op) || mixes || (s == GPUHASH_NO_MEMORY && b.may_fail)))
        w.violation("a batch (%s) says %d: %s", name_of(b.op), int(s), err().message);
      if (!b.may_fail && !b.misspelt)
        w.violation("W2: a growing table, or one that has room, says %d while memory can be had: %s", int(s),
                    err().message);
    }
    o.queued.push_back(std::move(b));
  }

  // Waits for a stream's batches, and compares what they said.
  void settle(owner& o) {
    if (run_.cuda) {
      for (const auto& s : o.before) the_device.drain(s);
      o.before.clear();
      the_device.drain(the_device.of(o.stream, "the test"));
    }
    std::vector<batch> all = std::move(o.queued);
    o.queued.clear();
    for (batch& b : all) replay(o, b);
  }
  void free_arrays(batch& b) {
    if (b.captured) return;
    for (void** p : {&b.keys, &b.in, &b.out, &b.status, &b.codes})
      if (*p) {
        the_device.free_user(*p);
        *p = nullptr;
      }
  }
  void replay(owner& o, batch& b) {
    world& w = the_world;
    if (the_device.injected) return;
    if (b.nobody_knows) return free_arrays(b);
    if (b.clears) {
      for (cell& c : o.cells) c = {};
      for (bool& k : o.knows) k = false;
      return;
    }
    const size_t n = b.numbers.size();
    const uint32_t vb = o_.config.value_bytes;
    if (b.status) the_device.touch_host(b.status, n, access::read, "the caller (status)");
    if (b.out) the_device.touch_host(b.out, 1, access::read, "the caller (values)");
    uint64_t yes = 0, left_out = 0, bad = 0;
    std::fill(said_.begin(), said_.end(), 0);  // elements that say yes, less those that should: by key
    said_.resize(o_.keys);
    batch again;
    again.op = b.op, again.shared = b.shared;
    for (size_t i = 0; i < n; ++i) {
      const uint32_t x = b.numbers[i], op = b.op == GPUHASH_OP_EXECUTE ? b.ops[i] : b.op;
      const int got = b.status ? int(get(b.status, 1, i)) : -1;
      if (got > 3 && op != bad_code) w.violation("%s: element %zu has status %d", kernel_name(b.op), i, got);
      if (op == bad_code) {
        if (b.status && got != GPUHASH_ELEMENT_BAD_OP) w.violation("W3: a bad op code has status %d", got);
        ++bad;
        continue;
      }
      if (got >= 2) {
        ++left_out;
        if (!adds(op) && !(b.said == GPUHASH_NO_MEMORY && b.may_fail))
          w.violation("W4: an element of kind %u has status %d", op, got);
        again.numbers.push_back(x);
        if (vb) again.values.push_back(b.values[i]);
        if (b.op == GPUHASH_OP_EXECUTE) again.ops.push_back(b.ops[i]);
        continue;
      }
      yes += got == 1;
      if (b.unordered) {
        o.cells[x] = {};
        continue;
      }
      const uint64_t v = vb && !b.values.empty() ? b.values[i] : 0,
                     seen = b.out ? get(b.out, b.op == GPUHASH_OP_COUNT ? 8 : vb, i) : 0;
      if (b.shared) {
        replay_shared(o, b, x, op, got, v);
        continue;
      }
      cell& c = o.cells[x];
      const bool there = c.count;
      bool want = there;
      switch (op) {
        case GPUHASH_OP_NOP: want = false; break;
        case GPUHASH_OP_INSERT:
          want = !there;
          if (!there) c = {1, v};
          break;
        case GPUHASH_OP_ASSIGN:
          want = !there;
          c.count = there ? c.count : 1, c.value = v;
          break;
        case GPUHASH_OP_ACCUMULATE:
          want = !there;
          c = {1, there ? (c.value + v) & value_mask() : v};
          break;
        case GPUHASH_OP_INSERT_MULTI:
          want = true;
          ++c.count, c.value = v;
          break;
        case GPUHASH_OP_FIND:
          if (b.out && seen != (there ? c.value : 0))
            w.violation("W1: find of key %u gives %llx, not %llx", x, (unsigned long long)seen,
                        (unsigned long long)(there ? c.value : 0));
          break;
        case GPUHASH_OP_POP:
          if (b.out && seen != (there ? c.value : 0))
            w.violation("W1: pop of key %u gives %llx, not %llx", x, (unsigned long long)seen,
                        (unsigned long long)(there ? c.value : 0));
          c.count -= there;
          break;
        case GPUHASH_OP_COUNT:
          if (b.out && seen != c.count)
            w.violation("W1: count of key %u gives %llu, not %u", x, (unsigned long long)seen, c.count);
          break;
        case GPUHASH_OP_ERASE: c.count -= there; break;
        case GPUHASH_OP_ERASE_ALL: c.count = 0; break;
      }
      if (got >= 0) {
        said_[x] += got - int(want);
      } else {
        yes += want;
      }
    }
    for (uint32_t x = 0; x < o_.keys; ++x)
      if (said_[x]) w.violation("W1: %s of key %u: %+d elements say yes", kernel_name(b.op), x, said_[x]);
    failed_elements += left_out;
    if (left_out && !b.may_fail)
      w.violation("W2: %llu elements of a growing table found no room while memory can be had (the call said %d)",
                  (unsigned long long)left_out, int(b.said));
    const bool watched = o_.config.grow || b.counted || !run_.cuda;
    if (b.said == GPUHASH_OK && !watched) silent_ += left_out;
    if (b.said == GPUHASH_OK && left_out && watched)
      w.violation("W3: %llu elements found no room, and the call said OK", (unsigned long long)left_out);
    if (bad && b.said != GPUHASH_INVALID_ARGUMENT)
      w.violation("W3: %llu op codes are none, and the call said %d", (unsigned long long)bad, int(b.said));
    if (b.said != GPUHASH_OK && b.status && !left_out && !bad)
      w.violation("W3: the call said %d, and every element was carried out", int(b.said));
    if (b.counted && (b.counts.failed != left_out + bad || (b.counts.yes != yes && !b.unordered)) && !b.shared)
      w.violation("W3: counted %llu yes and %llu failed; the elements say %llu and %llu",
                  (unsigned long long)b.counts.yes, (unsigned long long)b.counts.failed, (unsigned long long)yes,
                  (unsigned long long)(left_out + bad));
    free_arrays(b);
    if (left_out && o_.config.grow && !b.unordered) o.retry.push_back(std::move(again));
  }
  void replay_shared(owner& o, const batch& b, uint32_t x, uint32_t op, int got, uint64_t v) {
    world& w = the_world;
    shared_cell& c = shared_[x];
    if (op == GPUHASH_OP_FIND) {
      if (o.knows[x] && got == 0) w.violation("W1: a shared key that this stream has added is not found");
      return;
    }
    o.knows[x] = true;
    ++c.adds;
    c.sum = op == GPUHASH_OP_INSERT ? v : (c.sum + v) & value_mask();
    c.yes += got == 1;
    if (c.yes > 1) w.violation("W1: %llu elements say that they added shared key %u", (unsigned long long)c.yes, x);
    if (!b.status) c.yes = ~uint64_t(0) >> 1 < c.yes ? c.yes : c.yes;
  }

  // ---- exclusive operations -----------------------------------------------------------------------------------------
  void flush(void* s) {
    if (run_.slab && the_world.one_in(2)) {
      must(call("flush", [&](gpuhash_error* e) { return table_->flush(0, 1, s, e); }), "flush of a bucket");
      return;
    }
    may_lack_room("flush", [&](gpuhash_error* e) { return table_->flush(0, ~uint64_t(0), s, e); });
  }
  void reserve(void* s) {
    const uint64_t keys = the_world.below(the_world.one_in(3) ? 6000 : 300);
    high_ = std::max(high_, keys);
    may_lack_room("reserve", [&](gpuhash_error* e) { return table_->reserve(keys, s, e); });
  }
  gpuhash_table_info info() {
    gpuhash_table_info i{};
    must(call("info", [&](gpuhash_error* e) { return table_->info(&i, e); }), "info");
    if (!broken_ && !the_device.injected && (i.size > i.used + 2 || i.used > i.slots + 64 || i.capacity > i.slots))
      the_world.violation("W6: size %llu, used %llu, capacity %llu, slots %llu", (unsigned long long)i.size,
                          (unsigned long long)i.used, (unsigned long long)i.capacity, (unsigned long long)i.slots);
    return i;
  }
  void stats() {
    gpuhash_stat list[32];
    size_t n = 32;
    must(call("stats", [&](gpuhash_error* e) { return table_->stats(&n, list, e); }), "stats");
    uint64_t counts[8];
    must(call("histogram", [&](gpuhash_error* e) { return table_->histogram(8, counts, e); }), "histogram");
  }
  void find_all(owner& o) {
    if (!run_.slab || !has_values()) return;
    settle(o);
    if (over()) return;
    const uint32_t n = std::min(o_.keys, 1 + the_world.below(100)), kb = o_.config.key_bytes,
                   vb = o_.config.value_bytes;
    void* const keys = the_device.user_memory(n * kb);
    void* const offsets = the_device.user_memory((n + 1) * 8);
    size_t most = 0;
    for (uint32_t x = 0; x < n; ++x) {
      put(keys, kb, x, key_of(index_of(o), x));
      most += o.cells[x].count;
    }
    void* const values = the_device.user_memory((most + 1) * vb);
    may_lack_room("find_all", [&](gpuhash_error* e) {
      return table_->find_all(n, keys, static_cast<uint64_t*>(offsets), values, most, o.stream, e);
    });
    if (!broken_ && !the_device.injected && err().code == GPUHASH_OK) {
      uint64_t at = 0;
      for (uint32_t x = 0; x < n; ++x) {
        if (get(offsets, 8, x) != at)
          the_world.violation("W6: find_all: offset %u is %llu, not %llu", x, (unsigned long long)get(offsets, 8, x),
                              (unsigned long long)at);
        for (uint32_t i = 0; i < o.cells[x].count; ++i, ++at)
          if (get(values, vb, at) != o.cells[x].value)
            the_world.violation("W6: find_all: value %u of key %u is wrong", i, x);
      }
    }
    if (over()) return;
    for (void* p : {keys, offsets, values}) the_device.free_user(p);
  }
  // ---- ordered queries ------------------------------------------------------------------------------------------------
  // Ends of ranges, and what the answers have to say of this stream's own keys.
  struct query {
    std::vector<uint64_t> low, high;
    void *lows = nullptr, *highs = nullptr, *keys = nullptr, *values = nullptr, *third = nullptr;
    size_t n() const { return low.size(); }
  };
  uint64_t rank_of(uint64_t key) const {  // by which a table orders its keys
    return o_.order ? key ^ ((key_mask() >> 1) + 1) : key;
  }
  std::map<uint64_t, std::pair<uint64_t, uint64_t>> own_pairs(const owner& o) const {  // by rank: key, value
    std::map<uint64_t, std::pair<uint64_t, uint64_t>> own;
    for (uint32_t x = 0; x < o_.keys; ++x) {
      const uint64_t k = key_of(index_of(o), x);
      if (o.cells[x].count) own[rank_of(k)] = {k, has_values() ? o.cells[x].value : 0};
    }
    return own;
  }
  bool is_own(const owner& o, uint64_t key) const {
    if (key >= key_mask() - 1) return index_of(o) == 0;
    return key >= 16 && (key - 16) % (owners_.size() + 1) == index_of(o);
  }
  query draw_query(size_t room, size_t third) {
    world& w = the_world;
    query q;
    const uint32_t n = 1 + w.below(30), kb = o_.config.key_bytes;
    const uint64_t all = uint64_t(o_.keys) * (owners_.size() + 1) + 32;
    for (uint32_t i = 0; i < n; ++i) {
      const uint64_t a = w.one_in(8) ? key_mask() - w.below(4) : w.random() % all;
      q.low.push_back(a);
      q.high.push_back(w.one_in(4) ? w.random() & key_mask() : (a + w.below(200)) & key_mask());
    }
    q.lows = the_device.user_memory(n * kb);
    q.highs = the_device.user_memory(n * kb);
    for (uint32_t i = 0; i < n; ++i) {
      put(q.lows, kb, i, q.low[i]);
      put(q.highs, kb, i, q.high[i]);
    }
    q.keys = the_device.user_memory((n * room + 1) * kb);
    if (has_values()) q.values = the_device.user_memory((n * room + 1) * o_.config.value_bytes);
    q.third = the_device.user_memory((n + 1) * third);
    return q;
  }
  ordered_request request_of(const owner& o, const query& q) const {
    ordered_request r{};
    r.n = q.n();
    r.low = q.lows;
    r.high = q.highs;
    r.out_keys = q.keys;
    r.out_values = q.values;
    r.stream = o.stream;
    return r;
  }
  // True: the arrays can be read.
  template <class Ask>
  bool answered(owner& o, const char* name, Ask ask) {
    may_lack_room(name, ask);
    if (over() || err().code != GPUHASH_OK) return false;
    if (run_.cuda) the_device.drain(the_device.of(o.stream, "the test"));
    return !over();
  }
  void drop(query& q) {
    if (over()) return;
    for (void* p : {q.lows, q.highs, q.keys, q.values, q.third})
      if (p) the_device.free_user(p);
  }
  // Pairs `at` .. `end` - 1 of the arrays answer the i-th range; `cut`: there may be more, which had no room.
  void compare_range(owner& o, const query& q, size_t i, size_t at, size_t end, bool cut, bool open_low = false,
                     bool open_high = false) {
    const uint64_t low = open_low ? 0 : rank_of(q.low[i]), high = open_high ? key_mask() : rank_of(q.high[i]);
    const auto own = own_pairs(o);
    auto next = own.lower_bound(low);
    uint64_t before = 0;
    for (size_t p = at; p < end; ++p) {
      const uint64_t k = get(q.keys, o_.config.key_bytes, p), rank = rank_of(k);
      if (rank < low || (open_high ? rank > high : rank >= high) || (p > at && rank <= before))
        the_world.violation("W10: key %llx is out of place in a range", (unsigned long long)k);
      before = rank;
      if (!is_own(o, k)) continue;
      if (next == own.end() || next->second.first != k)
        the_world.violation("W10: a range has key %llx instead of %llx", (unsigned long long)k,
                            (unsigned long long)(next == own.end() ? 0 : next->second.first));
      if (q.values && get(q.values, o_.config.value_bytes, p) != next->second.second)
        the_world.violation("W10: a range has another value of key %llx", (unsigned long long)k);
      ++next;
    }
    const uint64_t up_to = cut ? before : high;
    const bool more = next != own.end() && (open_high && !cut ? next->first <= up_to : next->first < up_to);
    if (more) the_world.violation("W10: a range lacks key %llx", (unsigned long long)next->second.first);
  }
  void neighbors(owner& o) {
    settle(o);
    if (over()) return;
    query q = draw_query(1, 1);
    ordered_request r = request_of(o, q);
    r.which = the_world.below(4);
    r.high = nullptr;
    r.found = static_cast<uint8_t*>(q.third);
    if (answered(o, "neighbors", [&](gpuhash_error* e) { return table_->neighbors(r, e); })) {
      const bool up = r.which <= GPUHASH_ABOVE, equal = r.which == GPUHASH_AT_LEAST || r.which == GPUHASH_AT_MOST;
      const auto own = own_pairs(o);
      for (size_t i = 0; i < q.n(); ++i) {
        const uint64_t from = rank_of(q.low[i]), k = get(q.keys, o_.config.key_bytes, i), rank = rank_of(k);
        const bool found = get(q.third, 1, i);
        if (found && (up ? rank < from : rank > from)) the_world.violation("W10: a neighbour on the other side");
        if (found && !equal && rank == from) the_world.violation("W10: a key is its own neighbour");
        // The nearest of the own keys.
        auto at = up == equal ? own.lower_bound(from) : own.upper_bound(from);
        const bool some = up ? at != own.end() : at != own.begin();
        if (!up && some) --at;
        if (some && (!found || (up ? at->first < rank : at->first > rank)))
          the_world.violation("W10: key %llx is nearer to %llx than %llx is", (unsigned long long)at->second.first,
                              (unsigned long long)q.low[i], (unsigned long long)k);
        if (!found || !is_own(o, k)) continue;
        if (!some || at->first != rank)
          the_world.violation("W10: the neighbour %llx is not there", (unsigned long long)k);
        if (q.values && get(q.values, o_.config.value_bytes, i) != at->second.second)
          the_world.violation("W10: the neighbour %llx has another value", (unsigned long long)k);
      }
    }
    drop(q);
  }
  void limited_ranges(owner& o) {
    settle(o);
    if (over()) return;
    const uint32_t most = 1 + the_world.below(20);
    query q = draw_query(most, 8);
    ordered_request r = request_of(o, q);
    r.most = most;
    r.counts = static_cast<uint64_t*>(q.third);
    if (answered(o, "range", [&](gpuhash_error* e) { return table_->ranges(r, e); }))
      for (size_t i = 0; i < q.n(); ++i) {
        const uint64_t n = get(q.third, 8, i);
        if (n > most) the_world.violation("W10: %llu pairs of %u", (unsigned long long)n, most);
        if (rank_of(q.low[i]) < rank_of(q.high[i]))
          compare_range(o, q, i, i * most, i * most + n, n == most);
        else if (n)
          the_world.violation("W10: an empty range has pairs");
      }
    drop(q);
  }
  // Counted, and then read, while other threads write in between: the offsets may not fit any more.
  void pairs_of_ranges(owner& o) {
    settle(o);
    if (over()) return;
    constexpr uint32_t room = 40;
    query q = draw_query(room, 8);
    ordered_request r = request_of(o, q);
    r.out_keys = r.out_values = nullptr;
    r.most = ~size_t(0);
    r.counts = static_cast<uint64_t*>(q.third);
    std::vector<uint64_t> at(q.n() + 1);
    bool good = answered(o, "range_pairs", [&](gpuhash_error* e) { return table_->ranges(r, e); });
    if (good) {
      for (size_t i = 0; i < q.n(); ++i) at[i + 1] = at[i] + std::min<uint64_t>(get(q.third, 8, i), room);
      void* const offsets = the_device.user_memory(at.size() * 8);
      for (size_t i = 0; i < at.size(); ++i) put(offsets, 8, i, at[i]);
      r = request_of(o, q);
      r.most = q.n() * room;
      r.offsets = static_cast<const uint64_t*>(offsets);
      r.counts = static_cast<uint64_t*>(q.third);
      good = answered(o, "range_pairs", [&](gpuhash_error* e) { return table_->ranges(r, e); });
      for (size_t i = 0; good && i < q.n(); ++i) {
        const uint64_t there = get(q.third, 8, i), room_here = at[i + 1] - at[i];
        if (rank_of(q.low[i]) < rank_of(q.high[i]))
          compare_range(o, q, i, at[i], at[i] + std::min(there, room_here), there > room_here);
      }
      if (!over()) the_device.free_user(offsets);
    }
    drop(q);
  }
  void range_all(owner& o) {
    settle(o);
    if (over()) return;
    world& w = the_world;
    const uint32_t room = w.one_in(4) ? 3 : 400;
    query q = draw_query(room, 8);
    ordered_request r = request_of(o, q);
    const bool open_low = w.one_in(4), open_high = w.one_in(4), only_offsets = w.one_in(4);
    if (open_low) r.low = nullptr;
    if (open_high) r.high = nullptr;
    if (only_offsets) r.out_keys = r.out_values = nullptr;
    r.most = q.n() * room;
    uint64_t* const offsets = static_cast<uint64_t*>(q.third);
    gpuhash_status said = GPUHASH_OK;
    const uint64_t before = the_device.injected_memory;
    said = call("range_all", [&](gpuhash_error* e) { return table_->range_all(r, offsets, e); });
    if (over()) return;
    if (said != GPUHASH_OK && said != GPUHASH_INVALID_ARGUMENT &&
        !(said == GPUHASH_NO_MEMORY && the_device.injected_memory != before))
      w.violation("range_all says %d: %s", int(said), err().message);
    if (said == GPUHASH_OK || said == GPUHASH_INVALID_ARGUMENT) {
      if (run_.cuda) the_device.drain(the_device.of(o.stream, "the test"));
      if (over()) return;
      const uint64_t all = get(offsets, 8, q.n());
      if (get(offsets, 8, 0) != 0) w.violation("W10: offsets begin with %llu", (unsigned long long)get(offsets, 8, 0));
      if (said == GPUHASH_INVALID_ARGUMENT && (only_offsets || all <= r.most))
        w.violation("W10: %llu pairs have room, and the call says %s", (unsigned long long)all, err().message);
      if (said == GPUHASH_OK && !only_offsets && all > r.most) w.violation("W10: pairs without room");
      for (size_t i = 0; said == GPUHASH_OK && !only_offsets && i < q.n(); ++i) {
        const uint64_t at = get(offsets, 8, i), end = get(offsets, 8, i + 1);
        if (end < at) w.violation("W10: offsets descend");
        if (open_low || open_high || rank_of(q.low[i]) < rank_of(q.high[i]))
          compare_range(o, q, i, at, end, false, open_low, open_high);
        else if (end != at)
          w.violation("W10: an empty range has pairs");
      }
    }
    drop(q);
  }

  void export_some(void* s) {
    size_t n = 0;
    must(call("export", [&](gpuhash_error* e) { return table_->export_pairs(&n, nullptr, nullptr, s, e); }), "export");
    export_a_part(s);
  }
  // A part while others write. That its pairs belong to one moment is looked at where nothing runs (pairs_in_parts).
  void export_a_part(void* s) {
    if (over()) return;
    gpuhash_export_cursor c = GPUHASH_EXPORT_CURSOR_INIT;
    const size_t room = 1 + the_world.below(200);
    const uint32_t vb = o_.config.value_bytes;
    void* const keys = the_device.user_memory(room * o_.config.key_bytes);
    void* const values = vb ? the_device.user_memory(room * vb) : nullptr;
    for (int part = 0; part < 3 && c.state < GPUHASH_EXPORT_DONE && !over(); ++part) {
      size_t n = room;
      const gpuhash_status said =
          call("export_part", [&](gpuhash_error* e) { return table_->export_part(&c, &n, keys, values, s, e); });
      if (over() || c.state == GPUHASH_EXPORT_CHANGED) break;
      if (said == GPUHASH_INVALID_ARGUMENT && n > room) break;  // a bucket of slab_hash
      must(said, "export_part");
      if (over()) break;
      if (n > room || (n == 0 && c.state != GPUHASH_EXPORT_DONE))
        the_world.violation("a part has %zu pairs, and there is room for %zu", n, room);
    }
    the_device.free_user(keys);
    if (values) the_device.free_user(values);
  }
  // W6, in parts: all pairs, when nothing runs.
  void pairs_in_parts(void* stream, const std::vector<std::pair<uint64_t, uint64_t>>& want) {
    std::vector<std::pair<uint64_t, uint64_t>> have;
    gpuhash_export_cursor c = GPUHASH_EXPORT_CURSOR_INIT;
    const uint32_t kb = o_.config.key_bytes, vb = o_.config.value_bytes;
    size_t room = 1 + want.size() / (1 + the_world.below(6));
    while (c.state != GPUHASH_EXPORT_DONE && !over()) {
      size_t n = room;
      void* const keys = the_device.user_memory(n * kb);
      void* const values = vb ? the_device.user_memory(n * vb) : nullptr;
      const uint64_t before = the_device.injected_memory;
      const gpuhash_status s =
          call("export_part", [&](gpuhash_error* e) { return table_->export_part(&c, &n, keys, values, stream, e); });
      if (run_.cuda && !over()) the_device.drain(the_device.of(stream, "the test"));
      if (s == GPUHASH_OK && !over()) {
        the_device.touch_host(keys, 1, access::read, "the caller");
        for (size_t k = 0; k < n; ++k) have.push_back({get(keys, kb, k), vb ? get(values, vb, k) : 0});
      }
      the_device.free_user(keys);
      if (values) the_device.free_user(values);
      if (over()) return;
      if (s == GPUHASH_INVALID_ARGUMENT && c.state < GPUHASH_EXPORT_DONE && n > room) {
        room = n;
        continue;
      }
      if (s == GPUHASH_NO_MEMORY && the_device.injected_memory != before) return;
      if (s) return the_world.violation("export_part says %d: %s", int(s), err().message);
    }
    if (over()) return;
    std::sort(have.begin(), have.end());
    if (want != have)
      the_world.violation("W6: the parts have other pairs than the table (%zu, %zu)", have.size(), want.size());
  }
  void end_stream(owner& o) {
    if (!o.stream || !the_device.may_make_stream()) return;
    if (the_world.one_in(2)) settle(o);
    if (the_world.trace) fprintf(stderr, "  thread %u: stream %p ends\n", the_world.me(), o.stream);
    o.before.push_back(the_device.destroy_stream(o.stream));
    o.stream = the_device.make_stream();
  }
  void clear(void* s) {
    must(call("clear", [&](gpuhash_error* e) { return table_->clear(s, e); }), "clear");
    if (over()) return;
    if (const uint64_t taken = table_under_test::taken(*table_))
      the_world.violation("W11: the table is empty, and the ledger says that %llu slots are taken",
                          (unsigned long long)taken);
    for (owner& o : owners_) settle_later(o);
  }
  // What is queued came before the clear, so it is looked at first.
  void settle_later(owner& o) {
    settle(o);
    forget(o);
  }
  void forget(owner& o) {
    batch b;
    b.clears = true;
    replay(o, b);
    o.retry.clear();
    if (&o == &owners_.back())
      for (shared_cell& c : shared_) c = {};
    told_ = silent_ = 0;  // what a clear takes away needs no report
  }

  void look_at_everything() {
    for (owner& o : owners_) settle(o);
    if (broken_ || the_device.injected) return;
    std::vector<std::pair<uint64_t, uint64_t>> want, have;
    for (size_t who = 0; who < owners_.size(); ++who)
      for (uint32_t x = 0; x < o_.keys; ++x)
        for (uint32_t i = 0; i < owners_[who].cells[x].count; ++i)
          want.push_back({key_of(who, x), has_values() ? owners_[who].cells[x].value : 0});
    for (uint32_t x = 0; x < shared_keys; ++x)
      if (shared_[x].adds) want.push_back({key_of(owners_.size(), x), has_values() ? shared_[x].sum : 0});
    high_ = std::max(high_, uint64_t(want.size()));
    const gpuhash_table_info i = info();
    if (over()) return;
    if (i.size != want.size())
      the_world.violation("W6: the table says that it holds %llu keys; it has to hold %zu", (unsigned long long)i.size,
                          want.size());
    ledger_knows_all(i);
    must(call("check", [&](gpuhash_error* e) { return table_->check(e); }), "check");
    if (over()) return;
    size_t n = want.size() + 1;
    const uint32_t kb = o_.config.key_bytes, vb = o_.config.value_bytes;
    void* const keys = the_device.user_memory(n * kb);
    void* const values = vb ? the_device.user_memory(n * vb) : nullptr;
    owner& o = owners_[the_world.below(owners_.size())];
    const uint64_t before = the_device.injected_memory;
    const gpuhash_status s =
        call("export", [&](gpuhash_error* e) { return table_->export_pairs(&n, keys, values, o.stream, e); });
    if (over()) return;
    if (s == GPUHASH_OK) {
      if (run_.cuda) the_device.drain(the_device.of(o.stream, "the test"));
      the_device.touch_host(keys, 1, access::read, "the caller");
      for (size_t k = 0; k < n; ++k) have.push_back({get(keys, kb, k), vb ? get(values, vb, k) : 0});
      std::sort(want.begin(), want.end());
      std::sort(have.begin(), have.end());
      if (want != have)
        the_world.violation("W6: the table holds other pairs than it has to (%zu, %zu)", have.size(), want.size());
    } else if (s != GPUHASH_NO_MEMORY || the_device.injected_memory == before) {
      the_world.violation("export says %d: %s", int(s), err().message);
    }
    the_device.free_user(keys);
    if (values) the_device.free_user(values);
    if (s == GPUHASH_OK && !over()) pairs_in_parts(o.stream, want);
  }

  // W11
  void ledger_knows_all(const gpuhash_table_info& i) {
    if (over()) return;
    if (run_.cuda && i.size > table_under_test::added(*table_))
      the_world.violation("W11: %llu keys are there, and at most %llu were added", (unsigned long long)i.size,
                          (unsigned long long)table_under_test::added(*table_));
    if (!o_.config.grow) return;
    const uint64_t taken = table_under_test::taken(*table_);
    if (taken < i.used)
      the_world.violation("W11: %llu slots are used, and the ledger knows of %llu", (unsigned long long)i.used,
                          (unsigned long long)taken);
    const bool exact = run_.cuda && !run_.hive && run_.what == plan::plain;  // hive: evictions that come to nothing
    if (exact && i.used > table_under_test::limit(*table_))
      the_world.violation("W11: %llu slots are used of %llu that may be", (unsigned long long)i.used,
                          (unsigned long long)table_under_test::limit(*table_));
    uint64_t said = 0, there = 0;
    free_chunks(*table_, &said, &there);
    if (run_.cuda && said > there)
      the_world.violation("W11: %llu chunks are free, and batches that nobody waits for may take %llu",
                          (unsigned long long)there, (unsigned long long)said);
    if (run_.cuda && table_under_test::overdrawn(*table_))
      the_world.violation("W11: a batch has used more than it had claimed");
  }

  // W7: an empty table is filled by all threads at once.
  void rush() {
    if (!o_.config.grow || run_.what != plan::plain) return;
    clear(owners_[0].stream);
    if (over()) return;
    may_lack_room("shrink", [&](gpuhash_error* e) { return table_->shrink(nullptr, e); });
    gpuhash_stat list[32];
    size_t n = 32;
    const auto look = [&] {
      n = 32;
      must(call("stats", [&](gpuhash_error* e) { return table_->stats(&n, list, e); }), "stats");
    };
    const auto stat = [&](const char* name) {
      for (size_t i = 0; i < n; ++i)
        if (!strcmp(list[i].name, name)) return list[i].value;
      return 0.0;
    };
    look();
    if (over()) return;
    const double units_before = stat("heap_units");
    run_threads([this](uint32_t t) {
      for (uint32_t i = 0; i < o_.streams; ++i) {
        batch b;
        b.op = GPUHASH_OP_INSERT;
        for (uint32_t x = 0; x < o_.keys; ++x) b.numbers.push_back(x);
        launch(owners_[t * o_.streams + i], std::move(b));
      }
    });
    look();
    if (over()) return;
    const double keys = stat("size"), slots = stat("slots") * (run_.slab ? 1 : o_.config.max_load_factor);
    if (!run_.slab && o_.probe_limit > 3000 && slots > 6 * keys + 1024)
      the_world.violation("W7: %.0f keys have come to a table of room for %.0f", keys, slots);
    if (!run_.slab || o_.light) return;
    // Ahead of need: a rebuild's, and on CUDA what warps may hold before they link it. Else, twice what was too little.
    const bool ahead = run_.cuda || !o_.buckets;
    const double units = stat("heap_units"), taken = stat("heap_taken");
    if (units > (ahead ? 4 * taken + (run_.cuda << 15) + 4096 : std::max(units_before, 2 * taken + 256)))
      the_world.violation("W7: the table has taken %.0f units of %.0f that it has", taken, units);
  }

  bool heap_is_soon_full() const { return o_.light && o_.buckets; }
  // W12: for a while no memory can be had, and then it can. Nothing of what came meanwhile may cost an element later.
  void famine() {
    device& d = the_device;
    if (run_.at || !o_.config.grow) return;
    const uint64_t from = d.fail_memory_from, to = d.fail_memory_to;
    d.fail_memory_from = d.allocations + 1 + (the_world.one_in(2) ? 0 : the_world.below(8));
    d.fail_memory_to = ~uint64_t(0);
    d.fail_memory_least = the_world.one_in(2) ? 0 : 6000;  // or only that of tables
    const bool crowded = !heap_is_soon_full() && the_world.one_in(2);
    const bool filled = heap_is_soon_full() || (!crowded && the_world.one_in(2));
    const uint32_t actions = 2 + the_world.below(12);
    if (filled)
      for (owner& o : owners_) settle(o);
    if (over()) return;
    const uint64_t failed_before = failed_elements, used_before = filled ? info().used : 0;
    if (over()) return;
    run_threads([&](uint32_t t) { crowded ? crowd(t, actions) : filled ? fill(t) : act(t, actions); });
    if (filled && !over()) stays_within_limit(failed_before, used_before);
    if (filled && !over()) {  // what was left out once more, with nothing beside it
      limited_ = true;
      run_threads([&](uint32_t t) {
        if (t == 0) fill(t);
      });
      limited_ = false;
    }
    const uint64_t fails_at = d.allocations + 1 + the_world.below(heap_is_soon_full() ? 8 : 12);
    d.fail_memory_from = heap_is_soon_full() ? fails_at : std::min(d.fail_memory_from, fails_at);
    if (!over()) fails_and_changes_nothing();
    d.fail_memory_from = from, d.fail_memory_to = to, d.fail_memory_least = 0;
    if (crowded && !over()) clear(nullptr);  // the model does not know what is there
    if (over()) return;
    if (filled && !(heap_is_soon_full() && the_world.one_in(2))) return updates_only();
    switch (the_world.below(4)) {
      case 0: updates_only(); break;
      case 1:
      case 2: run_threads([this](uint32_t t) { fill(t); });
    }
  }
  // W14. Where a batch's keys are guessed more may be added; and in hive an eviction may come to nothing, and take a slot.
  void stays_within_limit(uint64_t failed_before, uint64_t used_before) {
    if (run_.slab || run_.skip || run_.hive || (run_.cuda && most_picked < 1000) || o_.probe_limit < 3000) return;
    for (owner& o : owners_) settle(o);
    if (over()) return;
    const gpuhash_table_info i = info();
    const bool left_out = failed_elements != failed_before && o_.threads == 1 && !the_device.fail_memory_least;
    if (!over() && (i.used > std::max(i.capacity, used_before) || (left_out && i.used < i.capacity)))
      the_world.violation("W14: a table without memory has used %llu slots of %llu, and %llu elements were left out",
                          (unsigned long long)i.used, (unsigned long long)i.capacity,
                          (unsigned long long)(failed_elements - failed_before));
  }
  // W11: some erase, and learn how many there were, while another adds, so that a recount may come first.
  void come_and_go() {
    if (!run_.cuda || !o_.config.grow || o_.threads < 2) return;
    may_lack_room("shrink", [&](gpuhash_error* e) { return table_->shrink(nullptr, e); });
    for (uint32_t round = 2 + the_world.below(8); round > 0 && !over(); --round) {
      run_threads([this](uint32_t t) {
        batch b = draw_batch(own_of(t), t == 0 ? GPUHASH_OP_INSERT : GPUHASH_OP_ERASE, false);
        b.counted = t > 0;
        launch(own_of(t), std::move(b));
      });
      if (!over()) ledger_knows_all(info());
    }
  }
  // All keys, in small batches; but not in hundreds that build the table anew each.
  void fill(uint32_t thread) {
    uint32_t some = 1 + the_world.below(60);
    if (o_.build == 1) some = std::max(some, o_.keys / 16);
    for (uint32_t x = 0; x < o_.keys && !over();) {
      batch b;
      b.op = GPUHASH_OP_INSERT;
      const uint32_t end = std::min(o_.keys, x + some);
      for (; x < end; ++x) b.numbers.push_back(x);
      for (uint32_t i = 0; i < o_.streams && !over(); ++i) {
        const uint64_t failed_before = failed_elements;
        launch(owners_[thread * o_.streams + i], b);
        if (limited_ && !run_.cuda && !over()) {
          settle(owners_[thread * o_.streams + i]);
          if (failed_elements != failed_before && !over()) takes_all_room(failed_before);
        }
      }
    }
  }
  // W14, after a batch of which elements were left out, with nothing beside it.
  void takes_all_room(uint64_t failed_before) {
    if (run_.slab || run_.skip || run_.hive || o_.probe_limit < 3000 || the_device.fail_memory_least) return;
    const gpuhash_table_info i = info();
    if (!over() && i.used < i.capacity)
      the_world.violation("W14: %llu elements were left out, and %llu of %llu slots are used",
                          (unsigned long long)(failed_elements - failed_before), (unsigned long long)i.used,
                          (unsigned long long)i.capacity);
  }
  // W13: a table that may not grow, full or not, is given room for all keys.
  void keep_room() {
    const bool to_the_last = run_.hive && o_.config.max_load_factor > 0.9;
    if (to_the_last || o_.probe_limit < 3000 || o_.duplicates) return;
    run_threads([this](uint32_t t) { fill(t); });
    for (owner& o : owners_) settle(o);
    if (!over()) info();  // which says what found no room
    if (over()) return;
    may_lack_room("flush", [&](gpuhash_error* e) { return table_->flush(0, ~uint64_t(0), nullptr, e); });
    if (over() || err().code != GPUHASH_OK) return;
    const uint64_t keys = uint64_t(o_.keys) * owners_.size() + shared_keys;
    may_lack_room("reserve", [&](gpuhash_error* e) { return table_->reserve(keys, nullptr, e); });
    if (over() || err().code != GPUHASH_OK) return;
    has_room_ = true;
    run_threads([this](uint32_t t) { fill(t); });
    for (owner& o : owners_) settle(o);
    has_room_ = false;
  }
  // One thread adds little, and learns what became of it. The others add all that they have; but in hive, where an insert
  // into a full table looks everywhere, not thousands at a time.
  void crowd(uint32_t thread, uint32_t actions) {
    const uint32_t all = run_.hive ? std::min(o_.keys, 600u) : o_.keys;
    for (uint32_t i = 0; i < actions && !over(); ++i) {
      owner& o = own_of(thread);
      // What is queued behind finds is on its way for long.
      for (uint32_t k = thread ? 0 : the_world.below(3); k > 0 && !over(); --k)
        launch(o, draw_batch(o, GPUHASH_OP_FIND, false));
      if (over()) return;
      batch b;
      b.op = GPUHASH_OP_INSERT;
      b.nobody_knows = thread > 0;
      const uint32_t n = thread ? all : 1 + the_world.below(9), first = the_world.below(o_.keys);
      for (uint32_t k = 0; k < n && k < o_.keys; ++k) b.numbers.push_back((first + k) % o_.keys);
      launch(o, std::move(b));
    }
  }
  void fails_and_changes_nothing() {
    for (owner& o : owners_) settle(o);
    const gpuhash_table_info before = info();
    if (over()) return;
    const uint64_t keys = 2 * before.slots + 5000;
    const gpuhash_status s = call("reserve", [&](gpuhash_error* e) { return table_->reserve(keys, nullptr, e); });
    if (over() || s == GPUHASH_OK) return;
    if (s != GPUHASH_NO_MEMORY && (s != GPUHASH_FULL || o_.probe_limit > 3000))
      the_world.violation("W12: reserve without memory says %d: %s", int(s), err().message);
    const gpuhash_table_info after = info();
    if (!over() && (before.size != after.size || before.slots != after.slots || before.capacity != after.capacity ||
                    before.bytes != after.bytes || before.rebuilds != after.rebuilds))
      the_world.violation("W12: a reserve that failed made a table of %llu keys in %llu slots from one of %llu in %llu",
                          (unsigned long long)after.capacity, (unsigned long long)after.slots,
                          (unsigned long long)before.capacity, (unsigned long long)before.slots);
  }

  // W5
  void updates_only() {
    look_at_everything();
    if (broken_ || !o_.config.grow) return;
    for (owner& o : owners_) o.retry.clear();
    const gpuhash_table_info before = info();
    const uint64_t refused = the_device.injected_memory;
    updating_ = true;
    const uint32_t actions = 2 + the_world.below(8);
    run_threads([this, actions](uint32_t t) { act_on_present(t, actions); });
    updating_ = false;
    if (over()) return;
    const gpuhash_table_info after = info();
    if (over()) return;
    const bool gave_back = run_.hive && after.bytes <= before.bytes;  // or has tried to
    const bool could_look = the_device.injected_memory == refused;    // which keys of a mixed batch are there
    if (could_look && !gave_back && (after.rebuilds != before.rebuilds || after.bytes != before.bytes))
      the_world.violation(
          "W5: updates of present keys rebuilt the table %llu times, from %llu bytes to %llu (%llu keys of %llu)",
          (unsigned long long)(after.rebuilds - before.rebuilds), (unsigned long long)before.bytes,
          (unsigned long long)after.bytes, (unsigned long long)before.size, (unsigned long long)before.capacity);
  }
  void act_on_present(uint32_t thread, uint32_t actions) {
    for (uint32_t i = 0; i < actions && !broken_; ++i) {
      owner& o = own_of(thread);
      settle(o);
      batch b;
      b.op = has_values() && !o_.duplicates ? GPUHASH_OP_ACCUMULATE : GPUHASH_OP_INSERT;
      if (the_world.one_in(3)) b.op = GPUHASH_OP_INSERT;
      if (the_world.one_in(6)) b.op = GPUHASH_OP_EXECUTE;
      const bool any_kind = b.op == GPUHASH_OP_EXECUTE;
      const bool finds_only = any_kind && the_world.one_in(2);  // of absent keys, too
      for (uint32_t x = 0; x < o_.keys; ++x) {
        if (!(o.cells[x].count || finds_only) || the_world.one_in(8)) continue;
        b.numbers.push_back(x);
        if (any_kind)
          b.ops.push_back(finds_only || the_world.one_in(2) ? GPUHASH_OP_FIND
                          : the_world.one_in(2)             ? GPUHASH_OP_INSERT
                                                            : GPUHASH_OP_NOP);
      }
      if (!b.numbers.empty()) launch(o, std::move(b));
    }
  }

  // W9: some batches are captured into a graph. One stream launches it while the others go on.
  void use_graph() {
    world& w = the_world;
    owner& o = owners_[w.below(owners_.size())];
    if (!run_.cuda || !o.stream || run_.what == plan::faults) return;
    for (owner& each : owners_) each.retry.clear();
    for (owner& each : owners_) settle(each);
    if (!over() && w.one_in(3)) clear(o.stream);  // all keys that are there then come by launches
    if (over()) return;
    // What runs when a capture begins may run still when the graph is launched.
    owner& reader = owners_[w.below(owners_.size())];
    const bool reads = &reader != &o && w.one_in(2);
    const bool changes = has_values() && !o_.duplicates && w.one_in(2);
    if (reads) launch(reader, draw_batch(reader, changes ? GPUHASH_OP_ASSIGN : GPUHASH_OP_FIND, false));
    if (over()) return;
    device::graph& g = the_device.begin_capture(o.stream);
    captured_of_ = &o;
    refused_in_capture(o);
    if (!over() && !g.nodes.empty()) w.violation("W9: what was refused is in the graph");
    for (uint32_t n = 1 + w.below(3); n > 0 && !over(); --n) capture(o);
    the_device.end_capture(o.stream);
    graph_ = &g;
    if (reads && !over()) launch_graph();
    if (over()) return;
    const uint32_t launches = 1 + w.below(4), thread = uint32_t(index_of(o)) / o_.streams;
    run_threads([&](uint32_t t) {
      for (uint32_t i = 0; i < launches && !over(); ++i) {
        // What adds to a growing table may want it to itself, which its caller would have to order after the launches.
        owner& other = own_of(t);
        if (o_.config.grow)
          launch(other, draw_batch(other, removing_ops[w.below(3)], false));
        else
          act_on_present(t, w.below(3));
        if (t == thread && !over()) launch_graph();
      }
    });
    for (owner& each : owners_) settle(each);
    if (!over()) ledger_knows_all(info());
    if (!over()) refused_while_it_lives();
    // A launch follows what had the table to itself, also on another stream; and that follows a launch on its own stream.
    for (uint32_t n = w.below(3); n > 0 && !over(); --n) {
      for (owner& each : owners_) settle(each);
      must(call("clear", [&](gpuhash_error* e) { return table_->clear(owners_[w.below(owners_.size())].stream, e); }),
           "clear");
      if (over()) break;
      for (owner& each : owners_) forget(each);
      launch_graph();
    }
    if (!over() && w.one_in(2)) end_graph();
    if (!over() && !graph_)
      may_lack_room("reserve", [&](gpuhash_error* e) { return table_->reserve(100, nullptr, e); });
  }
  static constexpr uint32_t removing_ops[] = {GPUHASH_OP_FIND, GPUHASH_OP_COUNT, GPUHASH_OP_ERASE};
  void capture(owner& o) {
    // A growing table takes no batch that adds into a graph.
    batch b = draw_batch(o, o_.config.grow ? removing_ops[the_world.below(3)] : draw_op(), false);
    b.captured = true;
    const gpuhash_batch q = prepare(o, b, true);
    must(call("capture", [&](gpuhash_error* e) { return table_->run(q, e); }), "a captured batch");
    b.may_fail = !o_.config.grow;
    captured_.push_back(std::move(b));
  }
  void launch_graph() {
    owner& o = *captured_of_;
    if (!o.queued.empty()) settle(o);
    if (over()) return;
    the_device.launch(*graph_, o.stream);
    o.queued = captured_;
    settle(o);
  }
  void end_graph() {
    the_device.destroy_graph(*graph_);
    graph_ = nullptr;
    captured_of_ = nullptr;
    for (batch& b : captured_) b.captured = false, free_arrays(b);
    captured_.clear();
  }
  template <class Call>
  void refused(const char* name, Call c) {
    const gpuhash_status s = call(name, c);
    if (!over() && s != GPUHASH_INVALID_ARGUMENT) the_world.violation("W9: %s says %d", name, int(s));
  }
  void refused_in_capture(owner& o) {
    const uint32_t choice = the_world.below(8);
    if (choice == 0) refused("reserve", [&](gpuhash_error* e) { return table_->reserve(5000, o.stream, e); });
    if (choice == 1) refused("clear", [&](gpuhash_error* e) { return table_->clear(o.stream, e); });
    if (choice == 2) info();
    const bool pops = choice == 5 && run_.stadium;
    if ((choice < 3 || choice > 4) && !pops) return;
    batch b = draw_batch(o, pops ? GPUHASH_OP_POP : choice == 3 ? GPUHASH_OP_INSERT : GPUHASH_OP_FIND, false);
    gpuhash_batch q = prepare(o, b, true);
    if (pops) refused("a pop", [&](gpuhash_error* e) { return table_->run(q, e); });
    if (choice == 4) q.counts = &b.counts;
    if (choice == 4 || o_.config.grow) refused("a batch", [&](gpuhash_error* e) { return table_->run(q, e); });
    free_arrays(b);
  }
  void refused_while_it_lives() {
    void* const s = owners_[0].stream;
    switch (the_world.below(3)) {
      case 0: refused("reserve", [&](gpuhash_error* e) { return table_->reserve(5000, s, e); }); break;
      case 1: refused("shrink", [&](gpuhash_error* e) { return table_->shrink(s, e); }); break;
      case 2: refused("flush", [&](gpuhash_error* e) { return table_->flush(0, ~uint64_t(0), s, e); }); break;
    }
  }

  void destroy() {
    // A table that met a device error says so from then on.
    if (broken_ && !the_device.sticky) {
      gpuhash_table_info i{};
      the_device.fail_call = 0;
      call("info", [&](gpuhash_error* e) { return table_->info(&i, e); });
      call("shrink", [&](gpuhash_error* e) { return table_->shrink(nullptr, e); });
    }
    if (run_.cuda && the_world.one_in(3))
      for (owner& o : owners_)
        if (the_world.one_in(2) && o.stream) {
          o.before.push_back(the_device.destroy_stream(o.stream));
          o.stream = nullptr;
        }
    table* const t = table_;
    table_ = nullptr;
    the_world.doing[0] = "destroy";
    ++the_device.inside;
    delete t;
    --the_device.inside;
    the_world.doing[0] = nullptr;
    if (the_device.cuda && the_device.current() != 0)
      the_world.violation("destroy leaves device %d current", the_device.current());
  }
  void finish() {
    the_device.drain_all();
    if (!broken_)
      for (owner& o : owners_) settle(o);
    if (graph_) end_graph();
    if (const size_t n = the_device.held(device::owner::table))
      the_world.violation("W8: %zu blocks of memory are never given back", n);
    if (const size_t n = the_device.held(device::owner::resource))
      the_world.violation("W8: %zu blocks of the caller's resource are never given back", n);
    if (const size_t n = the_device.streams_held()) the_world.violation("W8: %zu streams are never returned", n);
    if (const size_t n = the_device.events_held()) the_world.violation("W8: %zu events are never dropped", n);
  }
};

}  // namespace gpuhash::kit_sim
