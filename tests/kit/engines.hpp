// Kernels for the fake device: the structures' own CPU engines, on pieces of a batch, so that the batches of several streams
// or threads interleave. Each says what memory it touches, and how.
#pragma once
#include <algorithm>

#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/kit/engine.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "libgpuhash/kit/parts.hpp"
#include "plugins/hive/layout.hpp"
#include "plugins/hive/segments.hpp"
#include "plugins/linear_probe/layout.hpp"
#include "plugins/skiplist/layout.hpp"
#include "plugins/slab_hash/layout.hpp"
#include "plugins/stadium/engines.hpp"
#include "plugins/stadium/layout.hpp"
#include "tests/kit/fake_device.hpp"

// Of plugin_host.cpp, built with an instruction set of this name: a namespace for each structure.
extern "C" const gpuhash::engine* gpuhash_hive_engines_sim_hive();
extern "C" const gpuhash::engine* gpuhash_linear_probe_engines_sim_linear_probe();
extern "C" const gpuhash::engine* gpuhash_skiplist_engines_sim_skiplist();
extern "C" const gpuhash::engine* gpuhash_slab_hash_engines_sim_slab_hash();
extern "C" const gpuhash::engine* gpuhash_stadium_engines_sim_stadium();

namespace gpuhash::kit_sim {

// A copy of a layout with the addresses that kernels use, and its memory.
template <class F>
struct hive_memory {
  using layout = hive_table<F>;
  static constexpr bool slabs = false, rebuilds = false, stretches = true;
  static const engine* real_engines() { return gpuhash_hive_engines_sim_hive(); }
  template <class Each>
  static void each_block(const layout& t, Each each) {
    each(t.slots, t.bucket_cells() * sizeof(typename F::word));
    if (t.stash_slots) each(t.stash, t.stash_slots * sizeof(typename F::word));
    each(t.locks, (uint64_t(t.lock_mask) + 1) * sizeof(u32));
    each(t.filter, (t.buckets() + 3) / 4 * sizeof(u32));
    each(t.note, sizeof(u32));
    each(t.side, 2 * sizeof(typename F::word));
  }
  static layout translated(layout t) {
    t.slots = the_device.real(t.slots);
    t.stash = the_device.real(t.stash);
    t.locks = the_device.real(t.locks);
    t.filter = the_device.real(t.filter);
    t.note = the_device.real(t.note);
    t.side = the_device.real(t.side);
    return t;
  }
};
template <class F>
struct linear_memory {
  using layout = linear_table<F>;
  static constexpr bool slabs = false, rebuilds = true;
  static const engine* real_engines() { return gpuhash_linear_probe_engines_sim_linear_probe(); }
  template <class Each>
  static void each_block(const layout& t, Each each) {
    each(t.slots, t.n_slots * sizeof(typename F::word));
    each(t.side, 2 * sizeof(typename F::word));
  }
  static layout translated(layout t) {
    t.slots = the_device.real(t.slots);
    t.side = the_device.real(t.side);
    return t;
  }
};
template <class F>
struct slab_memory {
  using layout = slab_table<F>;
  static constexpr bool slabs = true, rebuilds = true;
  static const engine* real_engines() { return gpuhash_slab_hash_engines_sim_slab_hash(); }
  template <class Each>
  static void each_block(const layout& t, Each each) {
    each(t.base, (uint64_t(t.buckets) + 2) * t.slab_slots * sizeof(typename F::word));
    if (t.tails) each(t.tails, (uint64_t(t.buckets) + 2) * sizeof(u32));
    for (uint32_t s = 0; s < t.heap.supers; ++s) {
      each(t.heap.units[s], size_t(t.heap.blocks) * block_units << t.heap.unit_bits);
      each(t.heap.bitmaps[s], size_t(t.heap.blocks) * block_words * 4);
    }
    each(t.heap.note, 4);
  }
  static layout translated(layout t) {
    t.base = the_device.real(t.base);
    if (t.tails) t.tails = the_device.real(t.tails);
    for (uint32_t s = 0; s < t.heap.supers; ++s) {
      t.heap.units[s] = the_device.real(t.heap.units[s]);
      t.heap.bitmaps[s] = the_device.real(t.heap.bitmaps[s]);
    }
    t.heap.note = the_device.real(t.heap.note);
    return t;
  }
};

template <class F>
struct skip_memory {
  using layout = skip_table<F>;
  static const engine* real_engines() { return gpuhash_skiplist_engines_sim_skiplist(); }
  template <class Each>
  static void each_block(const layout& t, Each each) {
    for (u32 s = 0; s < t.segments; ++s) {
      const u32 end = s + 1 < t.segments ? t.first[s + 1] : t.capacity;
      each(t.segment[s], size_t(end - t.first[s]) * t.slots * sizeof(typename F::word));
    }
    each(t.top, sizeof(u32));
    each(t.taken, sizeof(u32));
    each(t.side, 2 * sizeof(typename F::word));
  }
  static layout translated(layout t) {
    for (u32 s = 0; s < t.segments; ++s) t.segment[s] = the_device.real(t.segment[s]);
    t.top = the_device.real(t.top);
    t.taken = the_device.real(t.taken);
    t.side = the_device.real(t.side);
    return t;
  }
};

struct stadium_memory {
  using layout = stadium_table;
  static constexpr u32 exclusive_kinds = 1u << pop;
  static const engine* real_engines() { return gpuhash_stadium_engines_sim_stadium(); }
  template <class Each>
  static void each_block(const layout& t, Each each) {
    each(t.tickets, t.groups * sizeof(u64));
    each(t.slots, t.cells() * t.stride);
    if (t.by_rows) each(t.locks, (u64(t.lock_mask) + 1) * sizeof(u32));
  }
  static layout translated(layout t) {
    t.tickets = the_device.real(t.tickets);
    t.place_slots(the_device.real(t.slots));
    t.nothing = the_device.real(t.nothing);
    return t;
  }
};

inline const char* kernel_name(uint32_t kind) {
  static std::string names[kinds_end];
  if (kind == nop || kind >= kinds_end) return "a kernel (?)";
  std::string& name = names[kind];
  if (name.empty()) name = std::string("a kernel (") + kind_rows[kind].name + ")";
  return name.c_str();
}

template <class Memory, int format>
struct fake_engine {
  using layout = typename Memory::layout;

  // Who runs a kernel: a stream of the device, or the calling thread.
  struct runner {
    uint32_t actor;
    const vector_clock* clock;
    void touch(const void* p, size_t bytes, access how, const char* who) const {
      the_device.touch(p, bytes, how, actor, *clock, who);
    }
  };
  static runner this_thread() { return {the_world.me(), &the_world.clock()}; }
  static runner by(const device::stream_ref& s) { return {s->actor, &s->clock}; }

  static request translated(request q) {
    q.keys = the_device.real(q.keys);
    q.values = the_device.real(q.values);
    q.out_values = the_device.real(q.out_values);
    q.status = the_device.real(q.status);
    q.ops = the_device.real(q.ops);
    q.n_there = nullptr;
    q.threads = 1;
    return q;
  }

  // A batch on its way.
  struct batch {
    layout seen;  // as the host wrote it
    request q;    // likewise
    totals* sum;
    const totals* sums = nullptr;  // all stripes
    void* work = nullptr;          // by parts: memory beside the table, which is read and written back as a whole
    size_t n = 0, done = 0, piece = 1;
    totals part{};
    uint32_t stripe = 0, batch_stripe = 0;
    bool begun = false;
    layout t;
    request there;
    std::vector<size_t> bad;

    bool reads() const { return !in_kinds(q.kind, writing_batches); }
    bool exclusive() const {
      if constexpr (requires { Memory::exclusive_kinds; }) return in_kinds(q.kind, Memory::exclusive_kinds);
      return false;
    }
    void begin(const runner& r) {
      begun = true;
      t = Memory::translated(seen);
      there = translated(q);
      const char* const who = kernel_name(q.kind);
      n = q.n_there ? *the_device.real(q.n_there) : q.n;
      if (n > q.n) the_world.violation("a kernel finds %zu elements where at most %zu were said to be", n, q.n);
      const access changes = q.keys_stay                         ? access::in_place
                             : in_kinds(q.kind, erasing_batches) ? access::erasing
                                                                 : access::atomic_write;
      const access how = work || exclusive() ? access::write
                         : !reads()          ? (q.alone && !the_device.cuda ? access::write : changes)
                         : q.alone           ? access::read
                                             : access::atomic_read;
      r.touch(work, q.n, access::write, who);
      if (work || (reads() && q.alone && q.added)) {  // nothing that adds runs beside it
        int64_t live = 0;
        for (u32 i = 0; i < total_stripes; ++i) live += the_device.real(sums)[i].live;
        if (live > 0 && uint64_t(live) > q.added)
          the_world.violation("a batch hears of at most %llu elements that were added, and %lld are there",
                              (unsigned long long)q.added, (long long)live);
      }
      Memory::each_block(seen, [&](const void* p, size_t bytes) { r.touch(p, bytes, how, who); });
      const size_t key = q.key_bytes, value = q.value_bytes, most = q.n ? q.n : 1;
      if (q.n_there) r.touch(q.n_there, 8, access::read, who);
      r.touch(q.keys, most * key, access::read, who);
      r.touch(q.values, most * value, access::read, who);
      r.touch(q.out_values, most * (q.kind == GPUHASH_OP_COUNT ? 8 : value), access::write, who);
      r.touch(q.status, most, access::write, who);
      if (q.kind == GPUHASH_OP_EXECUTE) r.touch(q.ops, most, access::read, who);
      if (the_device.cuda && counts_totals()) r.touch(sum, sizeof(totals), access::atomic_write, who);
      r.touch(q.batch_sum, sizeof(totals), access::atomic_write, who);
      piece = 1 + the_world.below(the_world.one_in(3) ? n + 1 : n / 3 + 2);
    }
    bool counts_totals() const { return !reads(); }  // what a find would add is zero
    void use() const {
      Memory::each_block(seen, [](const void* p, size_t) { the_device.use(p, "a running kernel"); });
      the_device.use(q.keys, "a running kernel (keys)");
      the_device.use(q.status, "a running kernel (status)");
      the_device.use(work, "a running kernel (by parts)");
    }
    // A piece of it; true when that was the last one.
    bool go_on() {
      use();
      if (done < n) {
        const size_t m = piece < n - done ? piece : n - done;
        request some = there;
        some.n = m;
        some.keys = static_cast<const char*>(some.keys) + done * q.key_bytes;
        if (some.values) some.values = static_cast<const char*>(some.values) + done * q.value_bytes;
        if (some.out_values)
          some.out_values =
              static_cast<char*>(some.out_values) + done * (q.kind == GPUHASH_OP_COUNT ? 8 : q.value_bytes);
        if (some.status) some.status += done;
        if (some.ops) some.ops += done;
        const std::vector<uint8_t> codes = legal_codes(some);
        if (!codes.empty()) some.ops = codes.data();
        if (Memory::real_engines()[format].run(&t, some, &part)) the_world.violation("an engine refuses its request");
        done += m;
        for (const size_t i : bad)
          if (there.status) there.status[i] = GPUHASH_ELEMENT_BAD_OP;
        bad.clear();
      }
      return done >= n;
    }
    // A kernel leaves elements out whose op code the table does not have, and counts them: those that it serves, which in a
    // retry are the elements that found no room (drive/io.hpp, has_work).
    std::vector<uint8_t> legal_codes(const request& some) {
      if (!the_device.cuda || some.kind != GPUHASH_OP_EXECUTE) return {};
      std::vector<uint8_t> codes(some.ops, some.ops + some.n);
      for (size_t i = 0; i < some.n; ++i) {
        if (codes[i] <= GPUHASH_OP_ERASE) continue;
        codes[i] = GPUHASH_OP_NOP;
        if (some.only_failed && !lacks_room(some.status[i])) continue;
        ++part.bad_ops;
        bad.push_back(done + i);
      }
      return codes;
    }
    static void add(totals& to, const totals& from, bool all) {
      to.live += from.live;
      to.used += from.used;
      if (!all) return;
      to.failed += from.failed;
      to.bad_ops += from.bad_ops;
      to.yes += from.yes;
    }
    void end() {
      if (counts_totals()) add(*the_device.real(sum), part, false);
      if (q.batch_sum)
        add(*the_device.real(q.batch_sum), part, true);
      else if (!reads())
        the_device.real(sum)->failed += part.failed, the_device.real(sum)->bad_ops += part.bad_ops;
    }
  };

  static int run(const void* table, const request& q, totals* sum) { return run_with(table, q, sum, nullptr); }
  // By parts: now and then, and then not always.
  static uint64_t parts_memory(const void*, const request& q) {
    const bool for_parts = !q.only_failed && !q.n_there && !q.out_values && the_world.one_in(3);
    return for_parts ? q.n : 0;
  }
  static int run_by_parts(const void* table, const request& q, totals* sum, void* memory,
                          int (*otherwise)(const void* table, const request& q, totals* sum)) {
    if (!memory) the_world.violation("a batch by parts has no memory");
    return the_world.one_in(4) ? otherwise(table, q, sum) : run_with(table, q, sum, memory);
  }
  static constexpr parts_engine parts = {parts_memory, run_by_parts};

  static int run_with(const void* table, const request& q, totals* sum, void* work) {
    if (!the_device.cuda) {
      batch b;
      b.seen = *static_cast<const layout*>(table);
      b.q = q;
      b.sum = nullptr;  // the caller adds
      b.begin(this_thread());
      while (!b.go_on()) the_world.point();
      batch::add(*sum, b.part, true);
      return 0;
    }
    if (const int e = the_device.fault("a launch")) return e;
    batch one;
    one.seen = *static_cast<const layout*>(table);
    one.q = q;
    one.work = work;
    one.sum = sum + the_world.below(total_stripes), one.sums = sum;
    if (q.batch_sum) one.q.batch_sum = q.batch_sum + the_world.below(total_stripes);
    the_device.enqueue_kernel(the_device.of(q.stream, "a launch"), [one](const device::stream_ref& s) {
      auto b = std::make_shared<batch>(one);
      return [b, s] {
        if (the_device.injected) return true;          // after a device error no kernel runs
        if (!b->begun) return b->begin(by(s)), false;  // the start is a step of its own, and so is the end
        if (b->done < b->n || b->n == 0) {
          const bool last = b->go_on();
          if (!last || b->n) return false;
        }
        b->use();
        b->end();
        return true;
      };
    });
    return 0;
  }

  static int collect(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
    const layout seen = *static_cast<const layout*>(table);
    const auto work = [=](const runner& r) {
      const char* const who = "a kernel (collect)";
      Memory::each_block(seen, [&](const void* p, size_t bytes) { r.touch(p, bytes, access::read, who); });
      r.touch(to.keys, 1, access::write, who);
      r.touch(to.values, 1, access::write, who);
      r.touch(to.count, 8, access::atomic_write, who);
      const layout t = Memory::translated(seen);
      Memory::real_engines()[format].collect(&t, order, lo, hi,
                                             {the_device.real(to.keys), the_device.real(to.values), to.key_bytes,
                                              to.value_bytes, the_device.real(to.count), to.room});
    };
    return launch(to.stream, work);
  }
  static int flush(const void* table, uint64_t lo, uint64_t hi, totals* sum, uint32_t, void* stream) {
    const layout seen = *static_cast<const layout*>(table);
    const auto work = [=](const runner& r) {
      const char* const who = "a kernel (flush)";
      Memory::each_block(seen, [&](const void* p, size_t bytes) { r.touch(p, bytes, access::write, who); });
      r.touch(sum, sizeof(totals), access::atomic_write, who);
      const layout t = Memory::translated(seen);
      Memory::real_engines()[format].flush(&t, lo, hi, the_device.real(sum), 1, nullptr);
    };
    return launch(stream, work);
  }
  static int values_of(const void* table, const request& q, const uint64_t* offsets) {
    const layout seen = *static_cast<const layout*>(table);
    const auto work = [=](const runner& r) {
      const char* const who = "a kernel (values_of)";
      Memory::each_block(seen, [&](const void* p, size_t bytes) { r.touch(p, bytes, access::read, who); });
      r.touch(q.keys, q.n * q.key_bytes, access::read, who);
      r.touch(offsets, q.n * 8, access::read, who);
      r.touch(q.out_values, 1, access::write, who);
      const layout t = Memory::translated(seen);
      Memory::real_engines()[format].values_of(&t, translated(q), the_device.real(offsets));
    };
    return launch(q.stream, work);
  }
  // On the CPU. Now and then it says that these tables are not for it, so that the driver has to do it.
  static bool rebuild(const void* from, const void* to, totals* sum, uint32_t) {
    the_world.point();
    if (the_world.one_in(2)) return false;
    const char* const who = "a rebuild";
    const layout &old = *static_cast<const layout*>(from), &fresh = *static_cast<const layout*>(to);
    Memory::each_block(old, [&](const void* p, size_t bytes) { the_device.touch_host(p, bytes, access::read, who); });
    Memory::each_block(fresh,
                       [&](const void* p, size_t bytes) { the_device.touch_host(p, bytes, access::write, who); });
    return Memory::real_engines()[format].rebuild(from, to, sum, 1);
  }
  // On CUDA: into a table that has been emptied, which a kernel reads as well; or by parts, into one where anything may be. Now
  // and then two tables are not for it, or so many pairs leave their parts that they are not all kept.
  static int move(const void* from, const void* to, totals* sum, bool* moves, void* stream) {
    *moves = !the_world.one_in(3);
    return *moves ? launch_rebuild(from, to, sum, nullptr, stream) : 0;
  }
  static constexpr uint64_t anew_bytes = 64;
  static uint64_t memory_anew(const void*, const void*) { return the_world.one_in(3) ? 0 : anew_bytes; }
  static int rebuild_anew(const void* from, const void* to, totals* sum, void* memory, void* stream) {
    return launch_rebuild(from, to, sum, memory, stream);
  }
  static int launch_rebuild(const void* from, const void* to, totals* sum, void* memory, void* stream) {
    const layout old = *static_cast<const layout*>(from), fresh = *static_cast<const layout*>(to);
    const bool some_lost = memory && the_world.one_in(3);
    totals* const stripe = sum + the_world.below(total_stripes);
    const auto work = [=](const runner& r) {
      const char* const who = memory ? "a kernel (a rebuild by parts)" : "a kernel (moving)";
      Memory::each_block(old, [&](const void* p, size_t bytes) { r.touch(p, bytes, access::read, who); });
      Memory::each_block(fresh, [&](const void* p, size_t bytes) {
        if (!memory) r.touch(p, bytes, access::read, who);
        r.touch(p, bytes, access::write, who);
      });
      r.touch(stripe, sizeof(totals), access::atomic_write, who);
      const layout a = Memory::translated(old), b = Memory::translated(fresh);
      if (memory) {
        r.touch(memory, anew_bytes, access::write, who);
        uint64_t left = 0;
        memcpy(&left, the_device.real(memory), sizeof(left));
        if (left) the_world.violation("a rebuild by parts begins with pairs that have left their parts");
        memset(the_device.real(memory), 0x5a, anew_bytes);
      } else {
        for (uint64_t i = 0; i < b.n_slots; ++i)
          if (b.slots[i] != empty_word<typename layout::format>()) the_world.violation("pairs move into a full table");
      }
      totals part{};
      if (!memory) {
        insert_all(a, b, &part);
      } else if (!Memory::real_engines()[format].rebuild(&a, &b, &part, 1) || some_lost) {
        memset(static_cast<void*>(b.slots), 0x11, b.n_slots * sizeof(*b.slots));
        part.used /= 2, ++part.failed;
      }
      the_device.real(stripe)->used += part.used;
      the_device.real(stripe)->failed += part.failed;
    };
    return launch(stream, work);
  }
  static void insert_all(const layout& from, const layout& to, totals* sum) {
    using F = typename layout::format;
    std::vector<typename F::key> keys(from.n_slots);
    std::vector<typename F::value> values(from.n_slots);
    uint64_t n = 0;
    request q{};
    q.kind = GPUHASH_OP_INSERT;
    q.keys = keys.data(), q.values = values.data();
    q.key_bytes = sizeof(keys[0]), q.value_bytes = sizeof(values[0]), q.is_set = !F::has_value;
    q.threads = 1;
    const engine& real = Memory::real_engines()[format];
    real.collect(&from, {}, 0, from.n_slots, {keys.data(), values.data(), q.key_bytes, q.value_bytes, &n});
    q.n = n;
    real.run(&to, q, sum);
  }
  static constexpr rebuild_engine anew = {memory_anew, rebuild_anew};
  template <class Work>
  static int launch(void* stream, Work work) {
    if (!the_device.cuda) {
      the_world.point();
      work(this_thread());
      the_world.point();
      return 0;
    }
    if (const int e = the_device.fault("a launch")) return e;
    const device::stream_ref s = the_device.of(stream, "a launch");
    the_device.enqueue(s, [s, work] {
      if (!the_device.injected) work(by(s));
      return true;
    });
    return 0;
  }
};

// What ordered structures do besides: each is one step of its stream.
template <class Memory, int format>
struct fake_ordered {
  using base = fake_engine<Memory, format>;
  using layout = typename Memory::layout;
  using runner = typename base::runner;
  using key = typename layout::format::key;

  static const ordered_engine& real() { return *Memory::real_engines()[format].ordered; }
  static void touch_table(const runner& r, const layout& seen, access how, const char* who) {
    Memory::each_block(seen, [&](const void* p, size_t bytes) { r.touch(p, bytes, how, who); });
  }
  static ordered_request translated(ordered_request q) {
    q.low = the_device.real(q.low);
    q.high = the_device.real(q.high);
    q.out_keys = the_device.real(q.out_keys);
    q.out_values = the_device.real(q.out_values);
    q.found = the_device.real(q.found);
    q.counts = the_device.real(q.counts);
    q.offsets = the_device.real(q.offsets);
    q.sums = the_device.real(q.sums);
    q.threads = 1;
    return q;
  }
  template <class Serve>
  static int ask(const void* table, const ordered_request& q, const char* who, Serve serve) {
    const layout seen = *static_cast<const layout*>(table);
    return base::launch(q.stream, [=](const runner& r) {
      touch_table(r, seen, q.alone ? access::read : access::atomic_read, who);
      r.touch(q.low, q.n * q.key_bytes, access::read, who);
      r.touch(q.high, q.n * q.key_bytes, access::read, who);
      r.touch(q.offsets, (q.n + 1) * 8, access::read, who);
      r.touch(q.out_keys, 1, access::write, who);
      r.touch(q.out_values, 1, access::write, who);
      r.touch(q.found, 1, access::write, who);
      r.touch(q.counts, 1, access::write, who);
      r.touch(q.sums, (q.n + 1) * 8, access::write, who);
      const layout t = Memory::translated(seen);
      serve(&t, translated(q));
    });
  }
  static int neighbors(const void* table, const ordered_request& q) {
    return ask(table, q, "a kernel (neighbors)",
               [](const void* t, const ordered_request& there) { real().neighbors(t, there); });
  }
  static int ranges(const void* table, const ordered_request& q) {
    return ask(table, q, "a kernel (ranges)",
               [](const void* t, const ordered_request& there) { real().ranges(t, there); });
  }
  static int build(const void* table, size_t n, const void* keys, const void* values, uint32_t key_bytes,
                   uint32_t value_bytes, uint32_t per, uint32_t, void* stream) {
    const layout seen = *static_cast<const layout*>(table);
    return base::launch(stream, [=](const runner& r) {
      const char* const who = "a kernel (build)";
      touch_table(r, seen, access::write, who);
      r.touch(keys, n * key_bytes, access::read, who);
      r.touch(values, n * value_bytes, access::read, who);
      const layout t = Memory::translated(seen);
      real().build(&t, n, the_device.real(keys), the_device.real(values), key_bytes, value_bytes, per, 1, nullptr);
    });
  }

  // A batch to be built. It lies in `work` between the two steps.
  struct building {
    request batch;
    build_request b;
  };
  static std::shared_ptr<building> translated(const build_request& b) {
    auto there = std::make_shared<building>(building{base::translated(*b.batch), b});
    there->b.batch = &there->batch;
    there->b.old_keys = the_device.real(b.old_keys);
    there->b.old_values = the_device.real(b.old_values);
    there->b.work = the_device.real(b.work);
    return there;
  }
  static void touch_batch(const runner& r, const build_request& b, const char* who) {
    const request& q = *b.batch;
    r.touch(q.keys, q.n * q.key_bytes, access::read, who);
    r.touch(b.old_keys, b.old * sizeof(key), access::read, who);
    r.touch(b.work, work_bytes(b), access::write, who);
  }
  static size_t work_bytes(const build_request& b) { return real().work_bytes(b); }
  static int sort(const void* table, build_request& b) {
    const layout seen = *static_cast<const layout*>(table);
    const std::shared_ptr<building> there = translated(b);
    const request q = *b.batch;
    build_request told = b;
    told.batch = &q;
    const int e = base::launch(q.stream, [=, &told](const runner& r) {
      touch_table(r, seen, access::read, "a kernel (sort)");
      touch_batch(r, told, "a kernel (sort)");
      const layout t = Memory::translated(seen);
      real().sort(&t, there->b);
    });
    const int bad = e ? e : the_device.wait(q.stream);
    b.fresh = there->b.fresh;
    b.fresh_side = there->b.fresh_side;
    return bad;
  }
  static int merge(const void* table, const build_request& b, void* keys, void* values) {
    const layout seen = *static_cast<const layout*>(table);
    const std::shared_ptr<building> there = translated(b);
    const request q = *b.batch;
    const build_request told = b;
    return base::launch(q.stream, [=](const runner& r) {
      const char* const who = "a kernel (merge)";
      build_request mine = told;
      mine.batch = &q;
      touch_table(r, seen, access::write, who);
      touch_batch(r, mine, who);
      r.touch(mine.old_values, mine.old * sizeof(key), access::read, who);
      r.touch(q.values, q.n * q.value_bytes, access::read, who);
      r.touch(q.status, q.n, access::write, who);
      r.touch(keys, 1, access::write, who);
      r.touch(values, 1, access::write, who);
      const layout t = Memory::translated(seen);
      real().merge(&t, there->b, the_device.real(keys), the_device.real(values));
    });
  }
  // The CPU's.
  static bool build_ascending(const void* table, const request& q, uint32_t per) {
    const char* const who = "a build of ascending keys";
    the_world.point();
    const runner r = base::this_thread();
    touch_table(r, *static_cast<const layout*>(table), access::write, who);
    r.touch(q.keys, q.n * q.key_bytes, access::read, who);
    r.touch(q.values, q.n * q.value_bytes, access::read, who);
    r.touch(q.status, q.n, access::write, who);
    return real().build_ascending(table, q, per);
  }
  static int look_at_end(const void* table, const request& q, table_end* end, void* keys, void* values) {
    const layout seen = *static_cast<const layout*>(table);
    const request there = base::translated(q);
    const size_t n_keys = q.n * q.key_bytes;
    const void* const given = q.keys;
    return base::launch(q.stream, [=](const runner& r) {
      const char* const who = "a kernel (look at the end)";
      touch_table(r, seen, access::read, who);
      r.touch(given, n_keys, access::read, who);
      r.touch(end, sizeof(*end), access::write, who);
      r.touch(keys, 1, access::write, who);
      r.touch(values, 1, access::write, who);
      const layout t = Memory::translated(seen);
      real().look_at_end(&t, there, the_device.real(end), the_device.real(keys), the_device.real(values));
    });
  }
  static int extend(const void* table, const table_end& given, size_t n, const void* keys, const void* values,
                    uint32_t key_bytes, uint32_t value_bytes, uint32_t per, uint32_t, void* stream) {
    const layout seen = *static_cast<const layout*>(table);
    const table_end end = given;
    return base::launch(stream, [=](const runner& r) {
      const char* const who = "a kernel (extend)";
      touch_table(r, seen, access::write, who);
      r.touch(keys, n * key_bytes, access::read, who);
      r.touch(values, n * value_bytes, access::read, who);
      const layout t = Memory::translated(seen);
      real().extend(&t, end, n, the_device.real(keys), the_device.real(values), key_bytes, value_bytes, per, 1,
                    nullptr);
    });
  }
  static constexpr uint32_t kinds = 1u << GPUHASH_OP_INSERT | 1u << GPUHASH_OP_ASSIGN | 1u << GPUHASH_OP_ACCUMULATE;
  static constexpr ordered_engine of_cuda = {neighbors, ranges, build,   kinds,       work_bytes,
                                             sort,      merge,  nullptr, look_at_end, extend};
  static constexpr ordered_engine of_cpu = {neighbors, ranges, build,           kinds,       work_bytes,
                                            sort,      merge,  build_ascending, look_at_end, extend};
};

// Sets are stored as pairs.
inline const engine* fake_skiplist_engines() {
  const auto of = []<int id>(auto format) {
    using M = skip_memory<decltype(format)>;
    using E = fake_engine<M, id>;
    using O = fake_ordered<M, id>;
    return engine{E::run, E::collect, nullptr, nullptr, nullptr, nullptr, the_device.cuda ? &O::of_cuda : &O::of_cpu};
  };
  static engine all[format_count];
  all[format_set32] = all[format_pair32] = of.template operator()<format_pair32>(pair32{});
  all[format_set64] = all[format_pair64] = of.template operator()<format_pair64>(pair64{});
  return all;
}

// hive's steps of linear hashing. Now and then there is no room to pack a segment in.
template <class F, int format>
struct fake_segments {
  using layout = hive_table<F>;
  using E = fake_engine<hive_memory<F>, format>;
  using runner = typename E::runner;

  static size_t work_bytes(const void*) { return 64; }
  static int step(const void* table, const segment_step& s, void* work, segment_result* results, void* stream) {
    const layout seen = *static_cast<const layout*>(table);
    const segment_step step = s;
    if (step.count == 0) return 0;
    return E::launch(stream, [=](const runner& r) {
      const char* const who = "a kernel (a step of linear hashing)";
      const size_t segment = size_t(seen.segment_buckets) << seen.slot_bits;
      for (const uint64_t first : {step.first, step.first + step.apart}) {
        r.touch(seen.slots + first * segment, step.count * segment * sizeof(*seen.slots), access::write, who);
        r.touch(seen.filter + first * seen.segment_buckets / 4, step.count * seen.segment_buckets, access::write, who);
      }
      r.touch(work, step.count * work_bytes(table), access::write, who);
      r.touch(results, step.count * sizeof(segment_result), access::write, who);
      const layout t = hive_memory<F>::translated(seen);
      const segment_worker<F> worker(t);
      for (uint64_t i = 0; i < step.count; ++i) {
        typename segment_worker<F>::buffers some(t), none(layout{});
        delete[] std::exchange(none.image, nullptr);
        the_device.real(results)[i] = worker.run(step, step.first + i, the_world.one_in(8) ? none : some);
      }
    });
  }
  static int drain(const void* table, stash_result* result, void* stream) {
    const layout seen = *static_cast<const layout*>(table);
    return E::launch(stream, [=](const runner& r) {
      const layout t = begin_with_stash(seen, result, r);
      stash_result& to = *the_device.real(result);
      if (*t.note == ~0u) return;
      uint64_t left = 0, dead = 0;
      to.change += segment_worker<F>(t).drain_stash(&left);
      // Where nothing is left that has emptied the stash, which is the host's part here.
      for (uint64_t i = 0; i < t.stash_slots; ++i) dead += is_dead<F>(t.stash[i]);
      to.left += left, to.dead += dead;
    });
  }
  static int restash(const void* table, const void* old, uint64_t slots, stash_result* result, void* stream) {
    const layout seen = *static_cast<const layout*>(table);
    return E::launch(stream, [=](const runner& r) {
      using word = typename F::word;
      r.touch(old, slots * sizeof(word), access::read, "a kernel (refilling the stash)");
      const layout t = begin_with_stash(seen, result, r);
      const auto* const words = static_cast<const word*>(the_device.real(old));
      stash_result& to = *the_device.real(result);
      for (uint64_t i = 0; i < slots; ++i) {
        to.dead += !is_empty<F>(words[i]);
        if (!is_live<F>(words[i])) continue;
        const bool fits = segment_worker<F>(t).put_in_stash(words[i]);
        to.change += fits, to.left += !fits;
      }
    });
  }
  static constexpr segment_engine all = {work_bytes, step, drain, restash};

 private:
  static layout begin_with_stash(const layout& seen, stash_result* result, const runner& r) {
    const char* const who = "a kernel (the stash)";
    hive_memory<F>::each_block(seen, [&](const void* p, size_t bytes) { r.touch(p, bytes, access::write, who); });
    r.touch(result, sizeof(stash_result), access::write, who);
    return hive_memory<F>::translated(seen);
  }
};

template <template <class> class Memory>
const engine* fake_engines() {
  const auto of = []<int id>(auto format) {
    using E = fake_engine<Memory<decltype(format)>, id>;
    constexpr bool slabs = Memory<decltype(format)>::slabs, rebuilds = Memory<decltype(format)>::rebuilds;
    engine made{E::run,
                E::collect,
                slabs ? E::flush : nullptr,
                slabs ? E::values_of : nullptr,
                the_device.cuda || !rebuilds ? nullptr : E::rebuild,
                nullptr,
                nullptr,
                the_device.cuda && !slabs ? &E::parts : nullptr};
    made.in_place = the_device.cuda;
    if constexpr (rebuilds && !slabs)
      if (the_device.cuda) made.move = E::move, made.anew = &E::anew;
    if constexpr (requires { Memory<decltype(format)>::stretches; })
      if (the_device.cuda) made.segments = &fake_segments<decltype(format), id>::all;
    return made;
  };
  static engine all[format_count];
  const engine now[format_count] = {
      of.template operator()<format_set32>(set32{}), of.template operator()<format_pair32>(pair32{}),
      of.template operator()<format_set64>(set64{}), of.template operator()<format_pair64>(pair64{})};
  std::copy(now, now + format_count, all);
  return all;
}

// By the sizes of keys and values instead of slot formats.
inline const engine* fake_stadium_engines() {
  static engine all[stadium_engines];
  const auto put = []<int... id>(std::integer_sequence<int, id...>) {
    const auto of = []<int one>() {
      using E = fake_engine<stadium_memory, one>;
      return engine{E::run, E::collect, nullptr, nullptr, the_device.cuda ? nullptr : E::rebuild};
    };
    ((all[id] = of.template operator()<id>()), ...);
  };
  put(std::make_integer_sequence<int, int(stadium_engines)>());
  return all;
}

}  // namespace gpuhash::kit_sim
