// The driver of the explorer: what a structure tells it (model), and how an operation is served under it.
//
// plugins/<name>/plugin_sim.cpp derives a model from these pieces and registers it; docs/explorer.md walks through one.
#pragma once
#include "libgpuhash/tile/sim.hpp"

#include <functional>
#include <memory>
#include <optional>

#include "libgpuhash/kit/side.hpp"
#include "libgpuhash/sched/program.hpp"

namespace gpuhash::sim {

// What an operation answered.
struct reply {
  u32 status = no;
  int live = 0, used = 0;
  u64 value = 0;
};

// A tiny table of one structure with one slot format, in the memory of the simulated machine.
class model {
 public:
  virtual ~model() = default;

  // Lays out an empty table. layout is one of the structure's; seed keys the hash.
  virtual void build(const std::string& layout, u64 seed) = 0;
  // Runs one operation to its end on the calling tile.
  virtual reply run(const op& o) = 0;

  // Called before the setup is made, with the program of all runs that follow. Throws bad_input for a program that this
  // structure cannot run.
  virtual void begin_program(const program&) {}

  // ---- the rest is asked while no tile runs, and must not go through the tile ----

  // The value of key i (0 for a set), or nothing when the key is absent.
  virtual std::optional<u64> stored(u32 key) const = 0;
  // The first broken invariant in one sentence, or "".
  virtual std::string check() const = 0;
  // Called when o answered full. Returns "" if there really was no room for its key, else why there was.
  virtual std::string room_left(const op& o) const = 0;
  // The numbers that the table's counters have to show: live keys, used slots. {-1, -1}: this structure keeps none.
  virtual std::pair<long, long> holds() const = 0;
  // Counters that the table keeps in memory, against holds(): "" or what is wrong.
  virtual std::string check_counters() const { return ""; }
  // The whole table on one line, for a replay, and where in it an address lies.
  virtual std::string draw() const = 0;
  virtual std::string where(const void* p) const = 0;
  // A word at that address as it looks in draw().
  virtual std::string show(const void* p, u128 word) const = 0;
  // For a table whose keys may have several pairs: says that it is one, and lists the values of key i.
  virtual bool keeps_duplicates() const { return false; }
  virtual std::vector<u64> all_stored(u32 key) const {
    const auto v = stored(key);
    return v ? std::vector<u64>{*v} : std::vector<u64>{};
  }
  // Before each run, after memory was put back: forget what on_write has noted.
  virtual void begin_run() {}
  // After each write of a run, for invariants of histories.
  virtual void on_write(const void*, u128 /*old*/) {}
  // After the last operation of a tile.
  virtual void end_tile(const reply& /*sum*/) {}
};

// Setups and key sets that a structure wants explored exhaustively.
struct scene {
  std::string name, layout, setup;
  std::vector<u32> keys;                            // two keys
  std::vector<std::pair<u32, u32>> widths{{0, 0}};  // slots per line of operations that add, and of the others
  // Triples, as far as they are affordable: the letters of their operations (all, or some), and how many of three tiles add.
  std::string triples = "*";
  u32 adders = 3;
};

struct structure {
  std::string name;
  std::vector<std::string> formats;
  std::vector<std::string> layouts;
  std::vector<u32> widths;  // slots per line
  std::string letters;      // operations it has, of kind_letters
  u32 fillers;              // keys 0..fillers-1 exist, besides y and z
  bool side_keys;
  bool synchronized = false;  // each operation is a call of its own, ordered by acquire and release
  bool by_parts = false;      // operations may be elements of a batch that goes by parts of the table
  std::vector<mutant> mutants;
  std::vector<scene> scenes;
  u32 failures;  // allocations that may fail in a run
  std::function<std::unique_ptr<model>(const std::string& format)> make;
  // Extra programs that only this structure understands, explored exhaustively: layout and program text.
  std::vector<std::pair<std::string, std::string>> programs;
  // Formats of the triples; empty: all.
  std::vector<std::string> triple_formats = {};
  std::vector<std::string> long_in_weak = {};  // of `programs`, without their layouts: --quick leaves them to sc
  std::vector<std::pair<std::string, std::string>> long_programs = {};  // more of `programs`, but not with --quick
  // Layouts whose operations are not letters: layout and its letters.
  std::vector<std::pair<std::string, std::string>> letters_in = {};
  // Where every interleaving is more than can be afforded: preemptions of a run (negative: any number), in weak memory, and
  // runs of a program (0: any number). The sets of programs are not exhaustive then.
  int most_preemptions = -1, most_preemptions_weak = -1;
  u64 most_runs = 0;

  bool has(const std::string& layout, char letter) const {
    for (const auto& [name, own] : letters_in)
      if (name == layout) return own.find(letter) != std::string::npos;
    return letters.find(letter) != std::string::npos;
  }
};

inline std::vector<structure>& structures() {
  static std::vector<structure> all;
  return all;
}
struct registration {
  explicit registration(structure s) { structures().push_back(std::move(s)); }
};

// make for a model that is a template over the slot format.
template <template <class> class Model>
std::unique_ptr<model> make_model(const std::string& format) {
  if (format == "set32") return std::make_unique<Model<set32>>();
  if (format == "pair32") return std::make_unique<Model<pair32>>();
  if (format == "set64") return std::make_unique<Model<set64>>();
  return std::make_unique<Model<pair64>>();
}
inline const std::vector<std::string> all_formats{"set32", "pair32", "set64", "pair64"};

// ---- serving one operation -------------------------------------------------------------------------------------------

// Rule 3 of tile.hpp: whatever the row shows, a step calls the same collectives, and with go = false it writes nothing. An
// idle tile of a warp does just that, on whatever its row happens to be; so the step is tried on copies, with the real row, an
// EMPTY one and one full of the operation's key. Returns a hash of the calls.
template <class Op>
u64 try_idle(const Op& o, const typename Op::table& t, joiner j, const typename Op::tile_type::row& real) {
  using F = typename Op::F;
  auto blank = real, mine = real;
  for (auto& w : blank.w) w = empty_word<F>();
  for (auto& w : mine.w) w = F::make(o.k, 0);
  u64 usual = 0;
  the_machine.idle(true);
  for (const auto& row : {real, blank, mine}) {
    Op copy = o;
    typename Op::tile_type tile;
    copy.step(tile, t, j, row, false);
    if (usual && usual != tile.collectives)
      the_machine.fail("lockstep: what a row shows decides which collectives a step calls");
    usual = tile.collectives;
    if constexpr (Op::has_slow) copy.slow(tile, t, joiner{}, false);
  }
  the_machine.idle(false);
  return usual;
}

template <class F>
reply answer_of(const result<F>& r) {
  return {r.status, r.live, r.used, u64(r.value)};
}

// An operation that was started, to its end.
template <class Op>
reply finish_op(Op& o, const typename Op::table& t, joiner j) {
  for (u64 usual = 0;;) {
    typename Op::tile_type tile;
    const auto row = tile.load(o.line(t));
    if (!usual) usual = try_idle(o, t, j, row);
    tile.collectives = 0;
    verdict d = o.step(tile, t, j, row, true);
    if (tile.collectives != usual)
      the_machine.fail("lockstep: the steps of an operation differ in the collectives they call");
    if constexpr (Op::has_slow)
      if (d == verdict::slow) d = o.slow(tile, t, joiner{}, true);
    if (d == verdict::done) return answer_of(o.res);
  }
}

template <class Op>
reply serve_op(const typename Op::table& t, const op& what, typename Op::key k, joiner j = {}) {
  using F = typename Op::F;
  const auto v = typename F::value(what.value);
  if constexpr (Op::table::side_slots)
    if (is_side_key(k)) return answer_of(serve_side<F, mem>(t.side, what.kind, joiner{}, k, v));
  Op o;
  o.start(t, what.kind, k, v, t.home(k));
  return finish_op(o, t, j);
}

// The operation's kernel, if the structure has it: by kind, or the one of mixed batches.
template <template <class, u32> class Op, class Tile, class Table>
reply serve_kind(const Table& t, const op& o, typename Table::key k, joiner j = {}) {
  if (o.by_mixed) return serve_op<Op<Tile, mixed>>(t, o, k);
  // As of pairs: here each kind goes through its own kernel in a set, too.
  return for_kind<pair64, Table::kinds>(o.kind, reply{}, [&]<u32 Kind>() {
    return serve_op<Op<Tile, Kind>>(t, o, k, in_kinds(Kind, changing_kinds) ? j : joiner{});
  });
}

// And by slots per line, of those that the structure has; 0 is the first.
template <template <class, u32> class Op, u32 R, u32... More, class Table>
reply serve(const Table& t, const op& o, typename Table::key k, joiner j = {}) {
  using tile = sim_tile<typename Table::format, R>;
  if constexpr (sizeof...(More) > 0)
    if (o.slots && o.slots != R) return serve<Op, More...>(t, o, k, j);
  return serve_kind<Op, tile>(t, o, k, j);
}

// Counters as kernels keep them: each tile adds its sums once, at its end.
struct counters {
  u64* live = nullptr;
  u64* used = nullptr;

  void place() {
    live = the_machine.place<u64>(2);
    used = live + 1;
    *live = *used = 0;
  }
  void add(const reply& sum) const {
    if (sum.live) mem::fetch_add<order::relaxed>(live, u64(i64(sum.live)));
    if (sum.used) mem::fetch_add<order::relaxed>(used, u64(i64(sum.used)));
  }
  std::string check(std::pair<long, long> holds) const {
    if (i64(*live) == holds.first && i64(*used) == holds.second) return "";
    return "counters: they say " + std::to_string(i64(*live)) + " live keys and " + std::to_string(i64(*used)) +
           " used slots, the table holds " + std::to_string(holds.first) + " and " + std::to_string(holds.second);
  }

 private:
  using i64 = long long;
};

// ---- words as text ---------------------------------------------------------------------------------------------------

// key: names a key. EMPTY is ".", a tombstone of key 2 is "x2" (in a set "x"), key 2 with value 7 is "2=7".
template <class F, class Name>
std::string show_word(typename F::word w, Name key) {
  if (F::key_of(w) == empty_key<typename F::key>) return ".";
  if (F::key_of(w) == dead_key<typename F::key>) return F::has_value ? "x" + key(typename F::key(F::value_of(w))) : "x";
  std::string s = key(F::key_of(w));
  if (F::has_value) s += "=" + std::to_string(u64(F::value_of(w)));
  return s;
}

}  // namespace gpuhash::sim
