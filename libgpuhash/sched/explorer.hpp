// One program under one scheduler: sets the table up, runs it over and over, and judges every run.
//
// A run is judged on: every key's history being linearizable and ending at what the table holds; the structure's
// invariants; counters that equal what the table holds; "full" said only where there is no room. The machine itself
// judges hangs, accesses outside the table, mixed access sizes and the lockstep rule.
#pragma once
#include <stdio.h>

#include <chrono>
#include <utility>

#include "libgpuhash/drive/sim.hpp"
#include "libgpuhash/sched/dfs.hpp"
#include "libgpuhash/sched/multi_history.hpp"
#include "libgpuhash/sched/pct.hpp"
#include "libgpuhash/sched/random.hpp"
#include "libgpuhash/sched/replay.hpp"

namespace gpuhash::sim {

// All that it takes to repeat a run, but for the schedule.
struct task {
  const structure* of = nullptr;
  std::string format, layout;
  bool weak = false;
  u64 seed = 1;
  program what;
};

inline std::string replay_text(const task& t, const std::string& schedule) {
  std::string s = t.of->name + '/' + t.format + '/' + t.layout + '/' + (t.weak ? "weak" : "sc") + '/' +
                  std::to_string(t.seed) + '/' + text(t.what) + '/' + schedule;
  if (active_mutant != mutant::none) s += std::string("/") + mutant_table[int(active_mutant) - 1].name;
  return s;
}

inline std::string operation_text(const op& o) {
  if (o.kind == grow) return "grow";
  std::string s = std::string(o.kind == nop ? "nop" : kind_rows[o.kind].name) + " " + key_digits[o.key];
  if (adds(o.kind)) s += "=" + std::to_string(o.value);
  return s;
}

inline std::string answer_text(const op& o, const reply& r) {
  if (o.kind == grow) return "done";
  if (r.status == full) return "full";
  if (r.status == no_memory) return "no memory";
  const bool yes_ = r.status == yes;
  switch (o.kind) {
    case insert: return yes_ ? "inserted" : "present";
    case assign: return yes_ ? "inserted" : "assigned";
    case accumulate: return yes_ ? "inserted" : "added";
    case insert_multi: return "inserted";
    case count: return std::to_string(r.value);
    case erase_all: return "erased " + std::to_string(r.value);
    case find_or_insert: return (yes_ ? "inserted " : "found ") + std::to_string(r.value);
    case pop: return yes_ ? "popped " + std::to_string(r.value) : "absent";
    case find: return yes_ ? "found " + std::to_string(r.value) : "absent";
    default: return yes_ ? "erased" : "absent";
  }
}

class explorer {
 public:
  // Throws bad_input for a program that the structure cannot run.
  explicit explorer(const task& t) : task_(t), model_(t.of->make(t.format)) {
    check_task();
    the_machine.weak = t.weak;
    the_machine.ordered = !t.weak || t.of->synchronized;
    the_machine.max_failures = t.of->failures;
    the_machine.clear_memory();
    prepare();
  }

  // One run. false: a violation, described by why().
  bool run(scheduler& s) {
    running_ = this;
    the_machine.on_write = [](const void* p, u128 old) { running_->model_->on_write(p, old); };
    the_machine.put_back();
    model_->begin_run();
    no_room_.clear();
    const bool completed = the_machine.run(u32(task_.what.tiles.size()), &explorer::serve_tile, s);
    completed_ = completed;
    if (!completed) {
      why_ = the_machine.violation;
      return why_.empty();
    }
    why_ = judge();
    return why_.empty();
  }

  bool completed() const { return completed_; }
  const std::string& why() const { return why_; }
  std::string replay_string() const {
    return replay_text(task_, schedule_text(the_machine.taken, the_machine.n_taken));
  }
  // A hash of what the last run came to: every answer, and the table.
  u64 outcome() const {
    u64 h = 0;
    for (const reply& r : replies_) h = stir(stir(h, r.status), r.value);
    for (u32 i = 0; i < the_machine.used(); ++i) h = stir(h, the_machine.memory[i]);
    return h;
  }
  const model& table() const { return *model_; }

  bool drawing = false;  // print every operation's answer

 private:
  void check_task() const {
    const structure& s = *task_.of;
    if (task_.what.tiles.size() > max_tiles)
      throw bad_input("a program has at most " + std::to_string(max_tiles) + " tiles, not " +
                      std::to_string(task_.what.tiles.size()));
    size_t n = 0;
    const auto check = [&](const op& o) {
      if (!s.has(task_.layout, o.kind == grow ? 'g' : kind_letters[o.kind]))
        throw bad_input(s.name + " has no operation '" + text(o) + "' in layout " + task_.layout);
      if (o.by_parts && !s.by_parts) throw bad_input(s.name + " has no batches by parts, as '" + text(o) + "' wants");
      if (o.kind != grow && (o.key >= dead_pattern ? !s.side_keys : o.key >= s.fillers))
        throw bad_input(s.name + " has no key '" + key_digits[o.key] + "' in '" + text(o) + "'");
      if (o.slots && std::find(s.widths.begin(), s.widths.end(), o.slots) == s.widths.end())
        throw bad_input(s.name + " has no lines of " + std::to_string(o.slots) + " slots, as '" + text(o) + "' wants");
    };
    for (const op& o : task_.what.setup) check(o);
    for (const auto& tile : task_.what.tiles)
      for (const op& o : tile) check(o), ++n;
    if (n > max_ops)
      throw bad_input("a program has at most " + std::to_string(max_ops) + " operations, not " + std::to_string(n));
  }

  void prepare() {
    const bool is_set = task_.format.rfind("set", 0) == 0;
    model_->build(task_.layout, task_.seed);
    model_->begin_program(task_.what);
    const mutant planted = std::exchange(active_mutant, mutant::none);  // setups are made by the real operations
    reply sum;
    for (op o : task_.what.setup) {
      if (is_set) o.value = 0;
      const reply r = model_->run(o);
      sum.live += r.live, sum.used += r.used;
    }
    model_->end_tile(sum);
    active_mutant = planted;
    the_machine.keep_image();
    start_ = model_->holds();

    std::set<u32> keys;
    for (const op& o : task_.what.setup)
      if (o.kind != grow) keys.insert(o.key);
    for (const auto& tile : task_.what.tiles) {
      begin_.push_back(u32(ops_.size()));
      for (op o : tile) {
        if (is_set) o.value = 0;
        ops_.push_back(o);
        if (o.kind != grow) keys.insert(o.key);
      }
    }
    begin_.push_back(u32(ops_.size()));
    replies_.resize(ops_.size());
    for (u32 k : keys) {
      per_key p{k, state_of(k), model_->all_stored(k), {}};
      for (u32 i = 0; i < ops_.size(); ++i)
        if (ops_[i].key == k && ops_[i].kind != grow) p.ops.push_back(i);
      keys_.push_back(std::move(p));
    }
  }

  static void serve_tile(u32 tile) {
    explorer& e = *running_;
    reply sum;
    for (u32 i = e.begin_[tile]; i < e.begin_[tile + 1]; ++i) {
      the_machine.begin_op(i, e.ops_[i].kind);
      const reply r = e.model_->run(e.ops_[i]);
      the_machine.end_op(i);
      e.replies_[i] = r;
      sum.live += r.live, sum.used += r.used;
      if (r.status == full && e.no_room_.empty()) {
        std::string room = e.model_->room_left(e.ops_[i]);
        if (!room.empty()) e.no_room_ = operation_text(e.ops_[i]) + " answered full, but " + room;
      }
      if (e.drawing)
        printf("%*s%c: %s -> %s\n", 8, "", 'A' + char(tile), operation_text(e.ops_[i]).c_str(),
               answer_text(e.ops_[i], r).c_str());
    }
    e.model_->end_tile(sum);
  }

  key_state state_of(u32 k) const {
    const auto v = model_->stored(k);
    return {v.has_value(), v.value_or(0)};
  }

  // Had operation a ended when b began? Weak memory knows no such order among the elements of a batch: each takes effect
  // somewhere in the call, in any order, also those that one tile serves one after the other.
  bool precedes(u32 a, u32 b) const { return the_machine.ordered && the_machine.before(b) >> a & 1; }

  std::string judge() {
    for (const per_key& k : keys_) {
      const key_state end = state_of(k.key);
      events_.clear();
      for (u32 i : k.ops) {
        u32 before = 0;
        for (u32 j = 0; j < k.ops.size(); ++j) before |= u32(precedes(k.ops[j], i)) << j;
        events_.push_back({ops_[i].kind, replies_[i].status, ops_[i].value, replies_[i].value, before});
      }
      const bool fine =
          model_->keeps_duplicates()
              ? multi_checker_.linearizable(events_, k.start_values, model_->all_stored(k.key), the_machine.ordered)
              : checker_.linearizable(events_, k.start, end);
      if (!fine) return history(k, end);
    }
    if (!no_room_.empty()) return no_room_;
    std::string broken = model_->check();
    if (!broken.empty()) return broken;
    return judge_counts();
  }

  std::string judge_counts() const {
    const auto now = model_->holds();
    if (now.first < 0) return "";
    long live = start_.first, used = start_.second;
    for (const reply& r : replies_) live += r.live, used += r.used;
    if (live == now.first && used == now.second) return model_->check_counters();
    return "counters: the operations' answers sum up to " + std::to_string(live) + " live keys and " +
           std::to_string(used) + " used slots, the table holds " + std::to_string(now.first) + " and " +
           std::to_string(now.second);
  }

  struct per_key {
    u32 key;
    key_state start;
    values start_values;
    std::vector<u32> ops;
  };

  std::string history(const per_key& k, key_state end) const {
    const auto state = [](key_state s) {
      return s.present ? "present with value " + std::to_string(s.value) : std::string("absent");
    };
    std::string s = std::string("not linearizable: key ") + key_digits[k.key];
    if (model_->keeps_duplicates())
      s += " had values " + list(k.start_values) + " at first, and has " + list(model_->all_stored(k.key)) + " at last";
    else
      s += " was " + state(k.start) + " at first, and is " + state(end) + " at last";
    for (u32 i : k.ops) {
      u32 tile = 0;
      while (begin_[tile + 1] <= i) ++tile;
      s += "\n    " + std::string(1, char('A' + tile)) + "  " + operation_text(ops_[i]) + " -> " +
           answer_text(ops_[i], replies_[i]);
      std::string after;
      for (u32 j : k.ops)
        if (precedes(j, i)) after += (after.empty() ? "" : ", ") + operation_text(ops_[j]);
      if (!after.empty()) s += "   (began after the end of " + after + ")";
    }
    return s;
  }

  static std::string list(const values& all) {
    std::string s = "{";
    for (u64 v : all) s += (s.size() > 1 ? ", " : "") + std::to_string(v);
    return s + "}";
  }

  inline static explorer* running_ = nullptr;

  task task_;
  std::unique_ptr<model> model_;
  std::vector<op> ops_;
  std::vector<u32> begin_;  // first operation of each tile
  std::vector<reply> replies_;
  std::vector<per_key> keys_;
  std::vector<event> events_;
  std::pair<long, long> start_;
  history_checker checker_;
  multi_history_checker multi_checker_;
  std::string why_, no_room_;
  bool completed_ = false;
};

// ---- many runs -------------------------------------------------------------------------------------------------------

struct options {
  std::string mode = "dfs";  // dfs, random, pct
  int bound = -1;            // dfs: preemptions, negative for any number
  bool prune = true;         // dfs: leave out states that were seen
  bool watch_all = false;    // dfs: ask before every access
  u64 schedules = 200;       // random, pct: per program
  u64 limit = 0;             // dfs: runs per program, 0 for any number
  u64 seed = 1;
};

struct tally {
  u64 programs = 0, schedules = 0, complete = 0, states = 0, steps = 0, violations = 0;
  u64 outcomes = 0;        // different endings, where they were counted
  bool exhaustive = true;  // no run was left out but those behind a known state, and no bound cut anything off
  double seconds = 0;
  std::string why, replay;  // of the first violation

  void add(const tally& o) {
    programs += o.programs, schedules += o.schedules, complete += o.complete, states += o.states, steps += o.steps;
    exhaustive &= o.exhaustive, seconds += o.seconds, violations += o.violations;
    if (why.empty()) why = o.why, replay = o.replay;
  }
};

// Explores one program up to its first violation. outcomes, if given, collects how runs ended.
inline tally explore(const task& what, const options& how, hash_set* outcomes = nullptr) {
  const auto begin = std::chrono::steady_clock::now();
  explorer e(what);
  tally sum;
  sum.programs = 1;
  const auto state = []() -> uint64_t { return the_machine.state_hash(); };
  dfs search(state, how.bound, how.prune);
  random_walk walk(how.seed, how.schedules);
  pct chance(how.seed, how.schedules, 3);
  scheduler& s = how.mode == "dfs"   ? static_cast<scheduler&>(search)
                 : how.mode == "pct" ? static_cast<scheduler&>(chance)
                                     : walk;
  the_machine.watch_all(how.mode != "dfs" || how.watch_all);
  bool more = true;
  while (more) {
    const bool fine = e.run(s);
    ++sum.schedules, sum.complete += e.completed(), sum.steps += the_machine.steps;
    if (the_machine.more_watched) {
      search = dfs(state, how.bound, how.prune);
      continue;
    }
    if (outcomes && e.completed()) outcomes->insert(e.outcome());
    if (!fine) {
      sum.violations = 1, sum.why = e.why(), sum.replay = e.replay_string();
      break;
    }
    more = s.next();
    if (more && how.mode == "dfs" && how.limit && sum.schedules >= how.limit) sum.exhaustive = more = false;
  }
  sum.states = search.states();
  sum.exhaustive &= how.mode == "dfs" && !search.bounded();
  sum.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return sum;
}

}  // namespace gpuhash::sim
