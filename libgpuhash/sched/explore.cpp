// gpuhash-explore: runs a structure's operations under every interleaving that matters. docs/explorer.md says how.
#include "libgpuhash/sched/suites.hpp"

namespace gpuhash::sim {

extern const char unexplored[];  // plugins without a plugin_sim.cpp: unexplored.cpp

namespace {

constexpr char usage[] = R"(usage: gpuhash-explore STRUCTURE [options]     explore a structure
       gpuhash-explore --replay STRING           run one schedule again, step by step
       gpuhash-explore --list                    structures and mutants

  --programs SET     pairs, triples, asymmetric, written, random, all, or a program such as i0=7:e0+f0   (all)
  --mode MODE        dfs (exhaustive), random (walk), pct                                    (dfs; random programs: random and pct)
  --bound N          dfs: at most N preemptions in a run                                     (any number)
  --memory M         sc, weak, both                                                          (both)
  --format F         set32, pair32, set64, pair64                                            (all)
  --letters S        pairs and triples: of these operations only                             (those of the scenes)
  --layout L         for a program given as text                                             (the first one)
  --mutant NAME      plant a mistake, and stop at the first program that shows it
  --seed N           of random programs and schedules                                        (1)
  --count N          random programs                                                         (2000)
  --schedules N      random and pct: schedules per program                                   (200)
  --limit N          dfs: schedules per program, 0 for any number                            (0)
  --long SECONDS     random programs until the time is up
  --shard K/N        every N-th program, from the K-th (K = 0..N-1)
  --no-prune         dfs: run behind states that were seen too
  --quick            of pairs all formats, in weak memory pair32 and set64; of triples pair32, and none in weak memory; of
                     all else pair32 and set64, in weak memory pair32, without what takes a minute
  --watch-all        dfs: ask before every access, also where no answer could matter
  --json             one JSON object per line

exit status: 0 no violation, 1 a violation, 2 bad input)";

struct arguments {
  std::string structure, programs = "all", memory = "both", format, letters, layout, mutant, replay, mode;
  options how;
  u64 count = 2000, shard = 0, shards = 1;
  double seconds = 0;
  bool json = false, list = false, quick = false;
};

u64 number(const std::string& name, const std::string& s) {
  char* end;
  const u64 n = strtoull(s.c_str(), &end, 10);
  if (s.empty() || *end || s[0] == '-') throw bad_input(name + " needs a number, not '" + s + "'");
  return n;
}

void check(const arguments& a) {
  const auto one_of = [](const std::string& name, const std::string& v, const std::vector<std::string>& all) {
    if (std::find(all.begin(), all.end(), v) == all.end()) {
      std::string list;
      for (const auto& x : all) list += (list.empty() ? "" : ", ") + x;
      throw bad_input(name + " '" + v + "' is none of " + list);
    }
  };
  if (!a.mode.empty()) one_of("--mode", a.mode, {"dfs", "random", "pct"});
  one_of("--memory", a.memory, {"sc", "weak", "both"});
  if (!a.format.empty()) one_of("--format", a.format, all_formats);
  for (char c : a.letters)
    if (!strchr(kind_letters + 1, c))
      throw bad_input("--letters '" + a.letters + "': '" + std::string(1, c) + "' is none of " + (kind_letters + 1));
  if (a.how.schedules == 0) throw bad_input("--schedules needs at least 1");
}

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    const auto next = [&]() -> std::string {
      if (i + 1 >= argc) throw bad_input(name + " needs a value");
      return argv[++i];
    };
    if (name == "--programs")
      a.programs = next();
    else if (name == "--mode")
      a.mode = next();
    else if (name == "--bound")
      a.how.bound = int(number(name, next()));
    else if (name == "--memory")
      a.memory = next();
    else if (name == "--format")
      a.format = next();
    else if (name == "--letters")
      a.letters = next();
    else if (name == "--layout")
      a.layout = next();
    else if (name == "--mutant")
      a.mutant = next();
    else if (name == "--seed")
      a.how.seed = number(name, next());
    else if (name == "--count")
      a.count = number(name, next());
    else if (name == "--schedules")
      a.how.schedules = number(name, next());
    else if (name == "--limit")
      a.how.limit = number(name, next());
    else if (name == "--long")
      a.seconds = double(number(name, next()));
    else if (name == "--replay")
      a.replay = next();
    else if (name == "--no-prune")
      a.how.prune = false;
    else if (name == "--watch-all")
      a.how.watch_all = true;
    else if (name == "--json")
      a.json = true;
    else if (name == "--quick")
      a.quick = true;
    else if (name == "--list")
      a.list = true;
    else if (name == "--shard") {
      const auto parts = split(next(), '/');
      if (parts.size() != 2) throw bad_input("--shard needs K/N, for example 0/2");
      a.shard = number(name, parts[0]), a.shards = number(name, parts[1]);
      if (a.shard >= a.shards) throw bad_input("--shard K/N needs K below N, not " + parts[0] + "/" + parts[1]);
    } else if (name[0] != '-' && a.structure.empty())
      a.structure = name;
    else
      throw bad_input("unknown argument '" + name + "'; gpuhash-explore without arguments prints what there is");
  }
  check(a);
  return a;
}

const structure& structure_named(const std::string& name) {
  std::string all;
  for (const structure& s : structures()) {
    if (s.name == name) return s;
    all += (all.empty() ? "" : ", ") + s.name;
  }
  for (const std::string& other : split(unexplored, ','))
    if (!other.empty() && other == name)
      throw bad_input("'" + name + "' is not explored: it has no plugins/" + name + "/plugin_sim.cpp");
  throw bad_input("no structure '" + name + "' to explore; there are " + all);
}

void plant(const std::string& name) {
  for (size_t i = 0; i < std::size(mutant_table); ++i)
    if (name == mutant_table[i].name) {
      active_mutant = mutant(i + 1);
      return;
    }
  throw bad_input("no mutant '" + name + "'; --list names them");
}

std::string json_text(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '\n')
      out += "\\n";
    else if (c == '"' || c == '\\')
      out += '\\', out += c;
    else
      out += c;
  }
  return out + '"';
}

// ---- exploring -------------------------------------------------------------------------------------------------------

struct set_report {
  std::string programs, memory, mode;
  tally sum;
};

void print(const arguments& a, const set_report& r) {
  const tally& t = r.sum;
  const double rate = t.seconds > 0 ? double(t.schedules) / t.seconds : 0;
  if (a.json) {
    printf(
        "{\"structure\": %s, \"programs\": %s, \"memory\": %s, \"mode\": %s, \"mutant\": %s, \"count\": %llu, "
        "\"schedules\": %llu, "
        "\"complete\": %llu, \"states\": %llu, \"steps\": %llu, \"bound\": %d, \"exhaustive\": %s, \"violations\": "
        "%llu, \"outcomes\": %llu, "
        "\"seconds\": %.6f, \"why\": %s, \"replay\": %s}\n",
        json_text(a.structure).c_str(), json_text(r.programs).c_str(), json_text(r.memory).c_str(),
        json_text(r.mode).c_str(), json_text(a.mutant).c_str(), t.programs, t.schedules, t.complete, t.states, t.steps,
        a.how.bound, t.exhaustive ? "true" : "false", t.violations, t.outcomes, t.seconds, json_text(t.why).c_str(),
        json_text(t.replay).c_str());
  } else {
    const std::string bound = r.mode != "dfs" ? "-" : a.how.bound < 0 ? "none" : std::to_string(a.how.bound);
    printf(
        "%-14s %-8s %-5s %-10s %9llu programs %12llu schedules   bound %-4s  %-14s %llu violations  %9.0f "
        "schedules/s\n",
        a.structure.c_str(), r.programs.c_str(), r.memory.c_str(), r.mode.c_str(), t.programs, t.schedules,
        bound.c_str(), t.exhaustive ? "exhaustive" : "not exhaustive", t.violations, rate);
    if (t.violations) printf("  %s\n  replay: %s\n", t.why.c_str(), t.replay.c_str());
  }
  fflush(stdout);
}

class campaign {
 public:
  campaign(const arguments& a, const structure& s) : a_(a), s_(s) {}

  // true: no violation.
  bool run() {
    if (a_.seconds > 0) return random_programs();
    if (a_.programs.find(':') != std::string::npos) return one_program();
    const bool all = a_.programs == "all";
    static const std::pair<const char*, bool (*)(const structure&, const selection&, const visitor&)> sets[] = {
        {"pairs", pairs}, {"written", written}, {"asymmetric", asymmetric}, {"triples", triples}};
    bool fine = true, known = all || a_.programs == "random";
    for (const auto& [name, set] : sets) {
      if (!all && a_.programs != name) continue;
      known = true;
      for (bool weak : {false, true}) {
        if (a_.memory == (weak ? "sc" : "weak")) continue;
        fine &= suite(name, weak, set);
        if (!fine && !a_.mutant.empty()) return false;
      }
    }
    if (!known)
      throw bad_input("--programs '" + a_.programs +
                      "' is neither pairs, triples, asymmetric, written, random, all nor a program (which has a ':')");
    if (all || a_.programs == "random") fine &= random_programs();
    return fine;
  }

 private:
  template <class Set>
  bool suite(const char* name, bool weak, Set set) {
    set_report r{name, weak ? "weak" : "sc", a_.mode.empty() ? "dfs" : a_.mode, {}};
    options how = a_.how;
    how.mode = r.mode;
    if (how.bound < 0) how.bound = weak ? s_.most_preemptions_weak : s_.most_preemptions;
    if (!how.limit) how.limit = s_.most_runs;
    u64 i = 0;
    const bool of_triples = set == triples, all = !a_.quick || (set == pairs && !weak);
    if (a_.quick && weak && of_triples) return true;
    const bool two = set == pairs || (!weak && !of_triples);
    const auto takes = [&](const std::string& format) {
      return all || format == "pair32" || (two && format == "set64");
    };
    set(s_, {weak, a_.format, a_.letters, a_.quick}, [&](const task& t) {
      if (!takes(t.format)) return true;
      if (i++ % a_.shards == a_.shard) r.sum.add(explore(t, how));
      return r.sum.violations == 0;
    });
    if (r.sum.programs) print(a_, r);
    return r.sum.violations == 0;
  }

  bool one_program() {
    task t{&s_,
           a_.format.empty() ? s_.formats.front() : a_.format,
           a_.layout.empty() ? s_.layouts.front() : a_.layout,
           false,
           a_.how.seed,
           parse_program(a_.programs)};
    if (std::find(s_.layouts.begin(), s_.layouts.end(), t.layout) == s_.layouts.end())
      throw bad_input(s_.name + " has no layout '" + t.layout + "'");
    bool fine = true;
    for (bool weak : {false, true}) {
      if (a_.memory == (weak ? "sc" : "weak")) continue;
      t.weak = weak;
      set_report r{a_.programs, weak ? "weak" : "sc", a_.mode.empty() ? "dfs" : a_.mode, {}};
      options how = a_.how;
      how.mode = r.mode;
      hash_set outcomes;
      r.sum = explore(t, how, &outcomes);
      r.sum.outcomes = outcomes.size();
      fine &= r.sum.violations == 0;
      print(a_, r);
    }
    return fine;
  }

  bool random_programs() {
    using clock = std::chrono::steady_clock;
    set_report r{"random", a_.memory == "both" ? "mixed" : a_.memory, a_.mode.empty() ? "random+pct" : a_.mode, {}};
    const auto begin = clock::now();
    auto printed = begin;
    for (u64 i = a_.shard; r.sum.violations == 0; i += a_.shards) {
      const auto now = clock::now();
      if (a_.seconds > 0 ? std::chrono::duration<double>(now - begin).count() >= a_.seconds : i >= a_.count) break;
      if (a_.seconds > 0 && !a_.json && std::chrono::duration<double>(now - printed).count() > 60)
        print(a_, r), printed = now;
      task t = random_task(s_, a_.how.seed, i, a_.format);
      if (a_.memory != "both") t.weak = a_.memory == "weak";
      for (const char* mode : {"random", "pct"}) {
        if (!a_.mode.empty() && a_.mode != mode && !(a_.mode == "dfs" && !strcmp(mode, "pct"))) continue;
        options how = a_.how;
        how.mode = a_.mode.empty() ? mode : a_.mode;
        how.seed = a_.how.seed + i;
        how.schedules = a_.mode.empty() ? (a_.how.schedules + 1) / 2 : a_.how.schedules;
        tally one = explore(t, how);
        one.programs = a_.mode.empty() && !strcmp(mode, "pct") ? 0 : 1;
        r.sum.add(one);
        if (r.sum.violations) break;
      }
    }
    print(a_, r);
    return r.sum.violations == 0;
  }

  const arguments& a_;
  const structure& s_;
};

// ---- replay ----------------------------------------------------------------------------------------------------------

const explorer* drawn;
u64 drawn_steps;

void draw_step(const access_record& r) {
  const model& m = drawn->table();
  std::string what = m.show(r.where, r.seen);
  const bool is_load = !strcmp(r.name, "load"), is_cas = !strcmp(r.name, "cas");
  if (is_load)
    what = "sees " + what;
  else if (is_cas && !r.writes)
    what = "lost: sees " + what;
  else
    what += " -> " + m.show(r.where, r.wrote);
  if (r.stale) what += is_load || is_cas ? " (stale)" : " (behind a newer store)";
  printf("%5llu   %c   %-8s %-9s %-22s %s\n", ++drawn_steps, 'A' + char(r.tile), r.name, m.where(r.where).c_str(),
         what.c_str(), m.draw().c_str());
}

int replay_run(const std::string& s) {
  const auto f = split(s, '/');
  if (f.size() != 7 && f.size() != 8)
    throw bad_input("'" + s +
                    "' is not a replay string: structure/format/layout/memory/seed/program/schedule[/mutant] has 7 or "
                    "8 parts, this has " +
                    std::to_string(f.size()));
  task t{&structure_named(f[0]), f[1], f[2], f[3] == "weak", number("the seed", f[4]), parse_program(f[5])};
  if (std::find(t.of->formats.begin(), t.of->formats.end(), f[1]) == t.of->formats.end())
    throw bad_input(f[0] + " has no format '" + f[1] + "'");
  if (std::find(t.of->layouts.begin(), t.of->layouts.end(), f[2]) == t.of->layouts.end())
    throw bad_input(f[0] + " has no layout '" + f[2] + "'");
  if (f[3] != "weak" && f[3] != "sc") throw bad_input("the memory is sc or weak, not '" + f[3] + "'");
  if (f.size() == 8) plant(f[7]);
  std::vector<uint8_t> answers;
  for (char c : f[6]) {
    const char* digit = strchr(key_digits, c);
    if (!digit) throw bad_input("'" + f[6] + "' is not a schedule: '" + std::string(1, c) + "' is none of 0-9 a-z");
    answers.push_back(uint8_t(digit - key_digits));
  }
  replay r(answers);
  explorer e(t);
  e.drawing = true;
  drawn = &e;
  the_machine.watcher = draw_step;
  for (size_t i = 0; i < t.what.tiles.size(); ++i) {
    printf("tile %c:", 'A' + char(i));
    for (const op& o : t.what.tiles[i]) printf(" %s;", operation_text(o).c_str());
    printf("\n");
  }
  printf(
      "words: . empty; 2=9 key 2 with value 9 (in a set 2); x2 tombstone of key 2 (in a set x)\n"
      "\n%5s  tile %-8s %-9s %-22s %s\n%53s %s\n",
      "step", "access", "where", "word", "table", "", e.table().draw().c_str());
  const bool fine = e.run(r);
  if (r.misfit) {
    fflush(stdout);
    throw bad_input("the schedule does not fit the program: its answer " + std::to_string(r.misfit) +
                    " names no alternative");
  }
  if (!r.used_up()) {
    fflush(stdout);
    throw bad_input("the schedule does not fit the program: the run ended before its answers were used up");
  }
  printf("\n%s\n", fine ? "no violation" : e.why().c_str());
  return fine ? 0 : 1;
}

int list() {
  for (const structure& s : structures()) {
    printf("%s: explored, operations %s\n", s.name.c_str(), s.letters.c_str());
    for (mutant m : s.mutants) {
      const mutant_entry& e = mutant_table[int(m) - 1];
      printf("  %-22s %s (%s)\n", e.name, e.deviates, e.source);
    }
  }
  for (const std::string& name : split(unexplored, ','))
    if (!name.empty()) printf("%s: not explored (no plugins/%s/plugin_sim.cpp)\n", name.c_str(), name.c_str());
  return 0;
}

int list_json() {
  for (const structure& s : structures())
    for (size_t i = 0; i < std::max<size_t>(s.mutants.size(), 1); ++i) {
      const bool has = i < s.mutants.size();
      const mutant_entry e = has ? mutant_table[int(s.mutants[i]) - 1] : mutant_entry{"", "", ""};
      printf("{\"structure\": %s, \"mutant\": %s, \"deviates\": %s, \"source\": %s}\n", json_text(s.name).c_str(),
             json_text(e.name).c_str(), json_text(e.deviates).c_str(), json_text(e.source).c_str());
    }
  return 0;
}

int main_(int argc, char** argv) {
  if (argc == 1) return puts(usage), 2;
  const arguments a = parse(argc, argv);
  if (a.list) return a.json ? list_json() : list();
  if (!a.replay.empty()) return replay_run(a.replay);
  if (a.structure.empty()) throw bad_input("which structure? --list names them");
  const structure& s = structure_named(a.structure);
  if (!a.mutant.empty()) {
    plant(a.mutant);
    if (std::find(s.mutants.begin(), s.mutants.end(), active_mutant) == s.mutants.end())
      throw bad_input("'" + a.mutant + "' is no mutant of " + s.name + "; --list names them");
  }
  return campaign(a, s).run() ? 0 : 1;
}

}  // namespace
}  // namespace gpuhash::sim

int main(int argc, char** argv) {
  try {
    return gpuhash::sim::main_(argc, argv);
  } catch (const gpuhash::sim::bad_input& e) {
    fprintf(stderr, "gpuhash-explore: %s\n", e.what());
    return 2;
  } catch (const std::string& why) {  // the simulated machine gave up while a setup was made
    fprintf(stderr, "gpuhash-explore: the setup of the program fails: %s\n", why.c_str());
    return 2;
  }
}
