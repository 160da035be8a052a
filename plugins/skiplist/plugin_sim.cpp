// skiplist under the explorer: chunks of two entries, three levels, few free chunks, and the invariants of layout.hpp.
//
// A layout's name says what is special about it:
//   p4 p2 p0   so many free chunks in the pool
//   s          the pool is two segments
//   h          half of the new chunks are named one level up (p_chunk = 0.5), as the key has it
//   c          counters in memory, as kernels keep them
//   w          operations go down as they do on the CPU (host_walk.hpp), with rows of vector registers: finds and counts, and
//              updates, which begin where a search before them has ended (host_update.hpp)
#include "libgpuhash/drive/sim.hpp"

#include "check.hpp"
#include "host_update.hpp"
#include "host_walk.hpp"
#include "ops.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 n_keys = 12, chunk_words = 4, n_levels = 3;

struct skip_mem : mem {
  inline static bool failed[max_tiles];  // the last allocation of a tile, by the scheduler's choice
  static bool allocation_fails() { return failed[the_machine.current] = mem::allocation_fails(); }
  template <bool ToWrite>
  static void prefetch(const void*) {}
};

// What walk_group has of a tile on the CPU.
template <class F, u32 R>
struct walking_tile {
  using mem = skip_mem;
  using word = typename F::word;
  static constexpr bool vector = true;  // a slot is loaded once more
  using row = typename sim_tile<F, R>::row;

  row load(const word* line) const { return sim_tile<F, R>().load(line); }
  u32 at_most(const row& r, typename F::key k, u32 first, u32 end) const {
    return sim_tile<F, R>().at_most(r, k, first, end).mask;
  }
  u32 number(u32 hits) const { return u32(__builtin_popcount(hits)); }
};

// ---- planted mistakes beneath the operations -------------------------------------------------------------------------

template <class F, u32 R>
struct skip_tile : sim_tile<F, R> {
  using base = sim_tile<F, R>;
  using mem = skip_mem;
  using typename base::hits, typename base::key, typename base::row, typename base::word;

  row load(const word* line) {
    row r = base::load(line);
    if (GH_MUTANT(split_next)) {  // max and link by two accesses
      const word again = mem::template load<order::relaxed>(line + R - 2);
      r.w[R - 2] = F::make(F::key_of(r.w[R - 2]), F::value_of(again));
    }
    if (GH_MUTANT(split_entry))
      for (u32 i = 0; i < R - 2; ++i)
        r.w[i] = F::make(F::key_of(r.w[i]), F::value_of(mem::template load<order::relaxed>(line + i)));
    return r;
  }
  hits at_most(const row& r, key k, u32 first, u32 end = R) {
    hits h = base::at_most(r, k, first, end);
    if (GH_MUTANT(strictly_below))
      for (u32 i = first; i < end; ++i)
        if (F::key_of(r.w[i]) == k && the_machine.current_kind() != find) h.mask &= ~(1u << i);
    return h;
  }
};

template <class Tile, u32 Kind>
struct explored_op : skip_op<Tile, Kind> {
  using base = skip_op<Tile, Kind>;
  using typename base::table;
  verdict step(Tile& tile, const table& t, joiner j, const typename Tile::row& row, bool go) {
    return base::step(tile, t, j, row, go);
  }
};

template <class F>
class skip_model final : public model {
  using key = typename F::key;
  using word = typename F::word;
  using table = skip_table<F>;

 public:
  void build(const std::string& layout, u64 seed) override {
    const u32 spare = u32(layout[1] - '0');
    const bool two = layout.find('s') != std::string::npos;
    t_ = {};
    t_.slots = chunk_words;
    t_.levels = n_levels;
    t_.capacity = n_levels + spare;
    t_.merge_below = 2;
    t_.raise_below = layout.find('h') != std::string::npos ? 1u << 15 : 1u << 16;
    t_.segments = two ? 2 : 1;
    t_.segment[0] = the_machine.place<word>(t_.capacity * chunk_words, 64);
    if (two) {
      t_.first[1] = n_levels + spare / 2;
      t_.segment[1] = t_.segment[0] + t_.first[1] * chunk_words;
    }
    t_.side = the_machine.place<word>(2);
    t_.top = the_machine.place<u32>(1);
    t_.taken = the_machine.place<u32>(1);
    *t_.top = 0;
    *t_.taken = n_levels;
    write_heads(t_, t_.segment[0]);
    counted_ = layout.find('c') != std::string::npos, walks_ = layout.find('w') != std::string::npos;
    if (counted_) counters_.place();
    begin_run();
    // Key 0 is the least there is. The others leave room for what lies between them.
    for (u32 i = 0; i < n_keys; ++i) keys_[i] = key(i * (3 + seed % 4));
    keys_[dead_pattern] = dead_key<key>;
    keys_[empty_pattern] = empty_key<key>;
  }

  reply run(const op& o) override {
    if (o.key >= n_keys && o.key < dead_pattern) the_machine.fail("skiplist has keys 0-9 a b y z");
    skip_mem::failed[the_machine.current] = false;
    const bool looks = (o.kind == find || o.kind == count) && o.key < dead_pattern;
    if (walks_ && looks && !o.by_mixed) return o.kind == find ? walk<find>(keys_[o.key]) : walk<count>(keys_[o.key]);
    const reply r = walks_ && o.key < dead_pattern
                        ? update(o, keys_[o.key])
                        : serve_kind<explored_op, skip_tile<F, chunk_words>>(t_, o, keys_[o.key]);
    if (r.status == no_memory && !skip_mem::failed[the_machine.current] && *t_.taken < t_.capacity)
      the_machine.fail("no memory was said, although the pool has chunks left");
    return r;
  }

  void begin_run() override {
    for (element_before& e : before_) e = {};
  }

  std::optional<u64> stored(u32 k) const override {
    if (k >= dead_pattern) {
      const word w = t_.side[k == dead_pattern];
      if (F::key_of(w) == empty_key<key>) return {};
      return u64(F::value_of(w));
    }
    std::optional<u64> found;
    each_entry([&](word w) {
      if (F::key_of(w) == keys_[k]) found = u64(F::value_of(w));
    });
    return found;
  }
  std::string check() const override { return skip_check<F>(t_).run(); }
  std::string room_left(const op&) const override { return "a skiplist is never full"; }
  std::pair<long, long> holds() const override {
    long used = 0;
    each_entry([&](word) { ++used; });
    long live = used;
    for (u32 i = 0; i < 2; ++i) live += F::key_of(t_.side[i]) != empty_key<key>;
    return {live, used};
  }
  void end_tile(const reply& sum) override {
    if (counted_) counters_.add(sum);
  }
  std::string check_counters() const override { return counted_ ? counters_.check(holds()) : ""; }

  std::string draw() const override {
    std::string s;
    for (u32 l = std::min(*t_.top, n_levels - 1) + 1; l--;) {
      s += (s.empty() ? "L" : "  L") + std::to_string(l);
      u32 at = table::head(l);
      for (u32 n = 0; n <= t_.capacity && inside(at); ++n) {
        const word* const c = t_.chunk(at);
        s += " [" + number(at);
        for (u32 i = 0; i < chunk_words; ++i) s += " " + show(c + i, wide_value(c[i]));
        s += "]";
        const u32 link = table::link_of(c[chunk_words - 2]);
        if (link & gone) break;
        at = table::target(link);
      }
    }
    return s;
  }
  std::string where(const void* p) const override {
    if (p == t_.top) return "top";
    if (p == t_.taken) return "taken";
    if (p >= t_.side && p < t_.side + 2) return p == t_.side ? "side z" : "side y";
    if (counted_ && (p == counters_.live || p == counters_.used)) return p == counters_.live ? "live" : "used";
    const u64 i = u64(static_cast<const word*>(p) - t_.segment[0]);
    static const char* const parts[] = {"NEXT", "LOCK"};
    const u32 slot = u32(i % chunk_words);
    return "c" + std::to_string(i / chunk_words) + "." +
           (slot + 2 < chunk_words ? std::to_string(slot) : parts[slot + 2 - chunk_words]);
  }
  std::string show(const void* p, u128 wide) const override {
    if (p == t_.top || p == t_.taken || (counted_ && (p == counters_.live || p == counters_.used)))
      return std::to_string((long long)wide.lo);
    const word w = narrow_value<word>(wide);
    if (p >= t_.side && p < t_.side + 2) return show_word<F>(w, [](key) { return std::string("side"); });
    const u64 i = u64(static_cast<const word*>(p) - t_.segment[0]);
    if (w == empty_word<F>()) return ".";
    if (i % chunk_words == chunk_words - 1) return "v" + std::to_string(u64(F::key_of(w)));
    const u32 v = u32(F::value_of(w));
    if (i % chunk_words == chunk_words - 2)
      return "<=" + name(F::key_of(w)) + (v & gone ? "~>" : "->") +
             (table::target(v) == none ? "|" : number(table::target(v)));
    return name(F::key_of(w)) + "=" + std::to_string(v);
  }

 private:
  // As host_find.hpp does it.
  template <u32 Kind>
  reply walk(key k) const {
    walk_group<F, chunk_words, walking_tile<F, chunk_words>> g(t_);
    g.sought[0] = k;
    g.descend(1);
    explored_op<skip_tile<F, chunk_words>, Kind> o;
    o.start_at(Kind, k, 0, g.at[0]);
    return finish_op(o, t_, {});
  }
  // As host_update.hpp does it. Where keys ascend, the home of a tile's first one is that of the others, too: all searches of a
  // block end before its first element is served.
  using walks = walk_group<F, chunk_words, walking_tile<F, chunk_words>>;
  using update_op = host_update<skip_tile<F, chunk_words>, mixed, walks>;
  struct element_before {
    update_op op;
    key first = 0;
    typename F::index home = none;
  };
  reply update(const op& o, key k) {
    element_before& e = before_[the_machine.current];
    if (e.home == none || k < e.first) {
      const void* line;
      update_op::find_homes(t_, &k, &e.home, &line, 1);
      e.first = k;
    }
    // The next element begins when this one has been visited once, and waits, or is done.
    e.op.start(t_, o.kind, k, typename F::value(o.value), e.home);
    if (the_machine.current) e.op.sideways = update_op::most_sideways;  // searches again sooner than there are chunks
    for (verdict d = verdict::again; d == verdict::again;) {
      skip_tile<F, chunk_words> tile;
      d = e.op.step(tile, t_, {}, tile.load(e.op.line(t_)), true);
      if (d == verdict::slow) d = e.op.slow(tile, t_, {}, true);
      if (d == verdict::done) return answer_of(e.op.res);
    }
    update_op waiting = e.op;
    return finish_op(waiting, t_, {});
  }
  template <class Each>
  void each_entry(Each each) const {
    u32 at = table::head(0);
    for (u32 n = 0; n <= t_.capacity && inside(at); ++n) {
      const word* const c = t_.chunk(at);
      for (u32 i = 0; i + 2 < chunk_words; ++i)
        if (F::key_of(c[i]) != empty_key<key>) each(c[i]);
      at = table::target(table::link_of(c[chunk_words - 2]));
    }
  }
  bool inside(u32 handle) const {
    return handle != none && handle >> offset_bits < t_.segments &&
           t_.first[handle >> offset_bits] + (handle & (segment_chunks - 1)) < t_.capacity;
  }
  std::string number(u32 handle) const {
    return inside(handle) ? "c" + std::to_string((t_.chunk(handle) - t_.segment[0]) / chunk_words) : "?";
  }
  std::string name(key k) const {
    if (k == empty_key<key>) return "end";
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == key(k + 1)) return std::string(1, key_digits[i]) + "-";
    return "?";
  }

  table t_{};
  key keys_[max_keys];
  bool counted_ = false, walks_ = false;
  element_before before_[max_tiles];
  counters counters_;
};

// ---- what is explored ------------------------------------------------------------------------------------------------

std::vector<scene> scenes() {
  const std::vector<std::pair<u32, u32>> one{{4, 4}};
  return {
      {"empty", "p4", "", {0, 1}, one, "ife"},
      {"one chunk", "p4", "i1=9", {0, 2}, one, ""},
      {"full chunk", "p4", "i2=9,i4=9", {1, 3}, one, ""},
      {"full chunk, present", "p4", "i2=9,i1=8", {1, 3}, one, ""},
      {"two chunks", "p4", "i2=9,i4=9,i6=9", {2, 4}, one, ""},
      {"merge", "p4", "i2=9,i4=9,i6=9,e2", {4, 6}, one, "ife", 1},
      {"last chunk of the pool", "p1", "i2=9,i4=9", {1, 3}, one, ""},
      {"pool exhausted", "p0", "i2=9,i4=9", {1, 2}, one, "ife", 2},
      {"full level 1", "p4", "i2=9,i4=9,i6=9,i8=9,e6,i7=9", {7, 9}, one, ""},
      {"two segments", "p4s", "i2=9,i4=9,i6=9", {4, 7}, one, ""},
      {"not named above", "p4h", "i2=9,i4=9,i6=9", {3, 4}, one, ""},
      {"side keys", "p2", "iz=7", {34, 35}, one, ""},
      {"counted", "p4c", "i2=9,i1=8", {1, 3}, one, ""},
  };
}

std::vector<std::pair<std::string, std::string>> programs() {
  // A split, and then merges, beside operations that read.
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string a : {"f2", "f4", "f6", "e6", "i5=3", "s4=3"}) {
    all.push_back({"p4", "i2=9,i4=9:i6=1,e2,e4+" + a});
    all.push_back({"p4", "i2=9,i4=9,i6=9,i8=9:e2,e4,e6+" + a});
  }
  for (const std::string a : {"e2,e4+e6", "e6,e8+f8", "e8,e6,e4+i8=1"})
    all.push_back({"p4", "i2=9,i4=9,i6=9,i8=9,e6,i6=9:" + a});
  // Walks beside a chunk of names that is split, and beside merges.
  for (const std::string a :
       {"i5=1+f6", "i5=1+f7", "i9=1+c8", "i9=1+f9", "e2,e4+f7", "e7+f8", "i5=1,e7+f8", "e4,e2+c4"})
    all.push_back({"p4w", "i2=9,i4=9,i6=9,i8=9,e6,i7=9:" + a});
  // Elements of a block, which have one home, beside splits and merges of their chunks.
  for (const std::string a : {"i5=1,i6=2+i4=3", "i5=1,i6=2,i7=3+e4", "i3=1,s4=2+e2,e6", "e4,i5=1+e2", "i7=1,f8m+e4,e6"})
    all.push_back({"p4w", "i2=9,i4=9,i8=9:" + a});
  return all;
}

const registration skiplist{{
    .name = "skiplist",
    .formats = {"pair32"},
    .layouts = {"p4", "p2", "p1", "p0", "p4s", "p4h", "p4c", "p4w"},
    .widths = {4},
    .letters = "isafecpo",
    .fillers = n_keys,
    .side_keys = true,
    .mutants =
        {mutant::one_look_at_chunk,   mutant::kept_version,     mutant::plain_unlock,        mutant::unfenced_lock,
         mutant::unfenced_look,       mutant::early_link,       mutant::zombie_read,         mutant::no_zombie,
         mutant::lost_next,           mutant::kept_max,         mutant::moved_kept,          mutant::wrong_unlock,
         mutant::unchecked_enclosing, mutant::locked_no_memory, mutant::first_entry_removed, mutant::split_next,
         mutant::split_entry,         mutant::strictly_below,   mutant::uncompared_look,     mutant::unchecked_name,
         mutant::step_to_none,        mutant::late_clear,       mutant::locked_look,         mutant::value_before_lock,
         mutant::unseen_pair,         mutant::unchecked_key,    mutant::unchecked_low,       mutant::unchecked_level},
    .scenes = scenes(),
    .failures = 1,
    .make = [](const std::string& format) -> std::unique_ptr<model> {
      if (format == "pair32") return std::make_unique<skip_model<pair32>>();
      return std::make_unique<skip_model<pair64>>();
    },
    .programs = programs(),
    .triple_formats = {"pair32"},
    .most_preemptions = 2,
    .most_preemptions_weak = 1,
    .most_runs = 100,
}};

}  // namespace
}  // namespace gpuhash::sim
