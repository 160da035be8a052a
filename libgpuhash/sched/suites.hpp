// Which programs are explored: every pair and triple of operations on two keys, one operation beside many, and random ones.
#pragma once
#include "libgpuhash/sched/explorer.hpp"

namespace gpuhash::sim {

// Of a structure's programs those for one memory and, unless empty, of one format and of operations with these letters.
struct selection {
  bool weak;
  std::string format, letters;
  bool quick;
};

inline std::vector<u32> kinds_of(const structure& s, const std::string& layout, const std::string& letters = "*") {
  std::vector<u32> kinds;
  for (u32 k = nop + 1; k < kinds_end; ++k)
    if (s.has(layout, kind_letters[k]) && (letters == "*" || letters.find(kind_letters[k]) != std::string::npos))
      kinds.push_back(k);
  return kinds;
}

// What a suite hands its programs to; false: enough.
using visitor = std::function<bool(const task&)>;

// Letters of triples. Kinds without a kernel of their own differ from others in what they mean, which pairs show.
inline std::string letters_of_triples(const scene& sc) {
  std::string all;
  for (u32 k = nop + 1; k < kinds_end; ++k)
    if (in_kinds(k, kernel_kinds)) all += kind_letters[k];
  return sc.triples == "*" ? all : sc.triples;
}

// Every operation of the structure on the scene's two keys. Operations that add read lines of one width, the others of
// another. at: the position in the program, which makes its values distinct.
inline std::vector<op> choices(const structure& s, const scene& sc, std::pair<u32, u32> widths, bool by_mixed,
                               const std::string& letters) {
  std::vector<op> all;
  for (u32 kind : kinds_of(s, sc.layout, letters))
    for (u32 key : sc.keys)
      all.push_back({kind, key, 0, adds(kind) ? widths.first : widths.second, by_mixed && in_mixed(kind)});
  return all;
}
inline op with_value(op o, u64 v) {
  if (adds(o.kind)) o.value = v;
  return o;
}

template <class F>
bool for_each_scene(const structure& s, const selection& of, F f) {
  for (const std::string& fmt : s.formats) {
    if (!of.format.empty() && fmt != of.format) continue;
    for (const scene& sc : s.scenes)
      for (const auto& widths : sc.widths) {
        const task t{&s, fmt, sc.layout, of.weak, 1, {parse_ops(sc.setup), {}}};
        if (!f(sc, widths, t)) return false;
      }
  }
  return true;
}

// One operation on each of two tiles; once by the kernels of one kind, once by the kernel of mixed batches.
inline bool pairs(const structure& s, const selection& of, const visitor& visit) {
  return for_each_scene(s, of, [&](const scene& sc, auto widths, task t) {
    for (bool by_mixed : {false, true}) {
      const auto ops = choices(s, sc, widths, by_mixed, of.letters.empty() ? "*" : of.letters);
      for (size_t a = 0; a < ops.size(); ++a)
        for (size_t b = a; b < ops.size(); ++b) {
          t.what.tiles = {{with_value(ops[a], 1)}, {with_value(ops[b], 2)}};
          if (!visit(t)) return false;
        }
    }
    return true;
  });
}

// Three operations, on three tiles, or on two of which one serves two of them.
inline bool triples(const structure& s, const selection& of, const visitor& visit) {
  return for_each_scene(s, of, [&](const scene& sc, auto widths, task t) {
    const auto& affordable = s.triple_formats;
    if (of.format.empty() && !affordable.empty() &&
        std::find(affordable.begin(), affordable.end(), t.format) == affordable.end())
      return true;
    const auto ops = choices(s, sc, widths, false, of.letters.empty() ? letters_of_triples(sc) : of.letters);
    const int adders = of.letters.empty() ? int(sc.adders) : 3;
    for (size_t a = 0; a < ops.size(); ++a)
      for (size_t b = 0; b < ops.size(); ++b)
        for (size_t c = 0; c < ops.size(); ++c) {
          const op x = with_value(ops[a], 1), y = with_value(ops[b], 2), z = with_value(ops[c], 3);
          t.what.tiles = {{x, y}, {z}};
          if (!visit(t)) return false;
          if (a > b || b > c || adds(x.kind) + adds(y.kind) + adds(z.kind) > adders) continue;
          t.what.tiles = {{x}, {y}, {z}};
          if (!visit(t)) return false;
        }
    return true;
  });
}

// A look or an erase beside a tile that lets its key come and go: what three operations in all cannot show. In weak memory
// nothing orders that tile's operations, so that three show as much.
inline bool asymmetric(const structure& s, const selection& of, const visitor& visit) {
  if (of.weak) return true;
  return for_each_scene(s, of, [&](const scene& sc, auto widths, task t) {
    const auto& affordable = s.triple_formats;
    if (of.format.empty() && !affordable.empty() &&
        std::find(affordable.begin(), affordable.end(), t.format) == affordable.end())
      return true;
    const auto has = [&](u32 kind) { return s.has(sc.layout, kind_letters[kind]); };
    const u32 adding = has(insert_multi) ? insert_multi : insert;
    if (!has(adding) || !has(erase)) return true;
    for (const char* changes : {"+-+-", "+-++--+-"}) {
      t.what.tiles = {{}, {}};
      for (const char* c = changes; *c; ++c)
        t.what.tiles[0].push_back(*c == '+' ? op{adding, sc.keys[0], u64(c - changes + 1), widths.first}
                                            : op{erase, sc.keys[0], 0, widths.second});
      for (u32 other : kinds_of(s, sc.layout, of.letters.empty() ? "fec" : of.letters)) {
        if (changes[4] && !(adding == insert_multi && other == find)) continue;  // what is affordable
        t.what.tiles[1] = {with_value({other, sc.keys[0], 0, widths.second}, 9)};
        if (!visit(t)) return false;
      }
    }
    return true;
  });
}

// Programs that the structure wrote down itself.
inline bool written(const structure& s, const selection& of, const visitor& visit) {
  const auto is_long = [&](const std::string& what) {
    return std::find(s.long_in_weak.begin(), s.long_in_weak.end(), what) != s.long_in_weak.end();
  };
  for (const std::string& fmt : s.formats)
    for (const auto* programs : {&s.programs, &s.long_programs})
      for (const auto& [layout, what] : *programs) {
        if (!of.format.empty() && fmt != of.format) continue;
        if (of.quick && (programs == &s.long_programs || (of.weak && is_long(what)))) continue;
        if (!visit({&s, fmt, layout, of.weak, 1, parse_program(what)})) return false;
      }
  return true;
}

// The i-th random program of a seed: 2 to 4 tiles of 2 to 6 operations on a few colliding keys. Three of four begin from a
// setup: one of the structure's scenes, or random operations on keys that collide with the program's.
inline task random_task(const structure& s, u64 seed, u64 i, const std::string& format) {
  random_source r(seed * 0x9e3779b97f4a7c15ull + i);
  task t{&s,
         format.empty() ? s.formats[r.below(u32(s.formats.size()))] : format,
         s.layouts[r.below(u32(s.layouts.size()))],
         r.below(3) == 0,
         r.below(1000) + 1,
         {}};
  std::vector<u32> kinds, keys;
  for (u32 n = 1 + r.below(3); keys.size() < n;) keys.push_back(r.below(std::min(s.fillers, 4u)));
  if (s.side_keys && r.below(8) == 0) keys.push_back(dead_pattern + r.below(2));
  const auto width = [&] { return s.widths[r.below(u32(s.widths.size()))]; };
  u64 value = 10;
  const auto any_op = [&](u32 key) {
    const u32 kind = kinds[r.below(u32(kinds.size()))];
    return with_value({kind, key, 0, width(), r.below(4) == 0 && in_mixed(kind)}, ++value);
  };

  switch (r.below(4) + (s.scenes.empty() ? 2 : 0)) {
    case 0: break;
    case 1: {  // a scene belongs to its layout
      const scene& sc = s.scenes[r.below(u32(s.scenes.size()))];
      t.layout = sc.layout, t.what.setup = parse_ops(sc.setup);
      break;
    }
    default:
      for (u32 n = 2 + r.below(10); n; --n) {
        const u32 key = r.below(3) ? r.below(s.fillers) : keys[r.below(u32(keys.size()))];
        const u32 adding = s.has(t.layout, 'm') && r.below(2) ? insert_multi : insert;
        const u32 kind = r.below(3) || !s.has(t.layout, 'e') ? adding : u32(erase);
        t.what.setup.push_back(with_value({kind, key, 0, width(), false}, ++value));
      }
  }
  kinds = kinds_of(s, t.layout);
  const u32 tiles = 2 + r.below(3);
  for (u32 i = 0; i < tiles; ++i) {
    t.what.tiles.emplace_back();
    for (u32 n = 2 + r.below(5); n; --n) t.what.tiles.back().push_back(any_op(keys[r.below(u32(keys.size()))]));
  }
  if (s.has(t.layout, 'g') && r.below(2)) t.what.tiles[r.below(tiles)].push_back({.kind = grow});
  if (s.by_parts) {  // a batch of one kind, of an element each of some tiles
    const u32 kind = std::vector<u32>{insert, assign, accumulate, erase}[r.below(4)];
    for (auto& tile : t.what.tiles) {
      op& o = tile[r.below(u32(tile.size()))];
      if (r.below(4)) o = with_value({kind, o.key, 0, 0, false, true}, ++value);
    }
  }
  return t;
}

}  // namespace gpuhash::sim
