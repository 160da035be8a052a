// Programs: what the tiles of one exploration do, and their text.
//
//   i2=7,e2:i0=1,f0+a1=3@4
//
// reads: first, one after the other and unobserved, insert key 2 with value 7 and erase it (the setup); then two tiles at
// once, the first inserting key 0 with value 1 and looking it up, the second adding 3 to key 1 with lines of 4 slots.
//
//   operation   letter key [= value] [@ slots per line] [m] [p]
//   letter      i insert   s insert_or_assign   a accumulate   f find   e erase   m insert_multi   c count   d erase_all
//               p pop   o find_or_insert
//               g what the structure does with the table to itself: grow, or FLUSH
//   key         0-9 a-v: keys whose homes collide, as the structure's model picks them
//               y z: the two keys whose patterns structures use themselves
//   m           served by the kernel of mixed batches, where the kind of operation is data
//   p           an element of a batch that goes by parts of the table (plugins/linear_probe/bulk_sim.cpp)
//
// A replay string adds all that is needed to run a program again:
//
//   structure/format/layout/memory/seed/program/schedule[/mutant]
#pragma once
#include <stdlib.h>
#include <string.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "libgpuhash/tile/kinds.hpp"

namespace gpuhash::sim {

struct bad_input : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr u32 grow = 16;                                             // an operation kind of the explorer's own
inline constexpr u32 max_keys = 36, dead_pattern = 34, empty_pattern = 35;  // y and z
struct letters_by_kind {
  char of[kinds_end + 1] = {};
  constexpr letters_by_kind() {
    for (const kind_row& row : kind_rows) of[row.code] = row.letter;
  }
};
inline constexpr letters_by_kind all_letters;
inline constexpr const char* kind_letters = all_letters.of;
inline constexpr char key_digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

struct op {
  u32 kind = nop;
  u32 key = 0;
  u64 value = 0;
  u32 slots = 0;  // per line; 0: the structure's first width
  bool by_mixed = false, by_parts = false;
  bool operator==(const op&) const = default;
};

struct program {
  std::vector<op> setup;
  std::vector<std::vector<op>> tiles;
};

inline bool adds(u32 kind) { return in_kinds(kind, adding_kinds); }
// Operations that a mixed batch has.
inline bool in_mixed(u32 kind) { return in_kinds(kind, mixable_kinds); }

inline std::string text(const op& o) {
  if (o.kind == grow) return "g";
  std::string s;
  s += kind_letters[o.kind], s += key_digits[o.key];
  if (o.value) s += '=' + std::to_string(o.value);
  if (o.slots) s += '@' + std::to_string(o.slots);
  if (o.by_mixed) s += 'm';
  if (o.by_parts) s += 'p';
  return s;
}
inline std::string text(const std::vector<op>& ops) {
  std::string s;
  for (const op& o : ops) s += (s.empty() ? "" : ",") + text(o);
  return s;
}
inline std::string text(const program& p) {
  std::string s = text(p.setup) + ':';
  for (size_t t = 0; t < p.tiles.size(); ++t) s += (t ? "+" : "") + text(p.tiles[t]);
  return s;
}

inline std::vector<std::string> split(const std::string& s, char at) {
  std::vector<std::string> parts(1);
  for (char c : s) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

inline op parse_op(const std::string& s) {
  const auto bad = [&](const char* why) {
    return bad_input("'" + s + "' is not an operation: " + why + " (example: i0=7@4, f0)");
  };
  if (s == "g") return {.kind = grow};
  op o;
  const char* letter = s.empty() ? nullptr : strchr(kind_letters + 1, s[0]);
  if (!letter || !*letter || *letter == kind_letters[mixed])
    throw bad("it has to begin with one of i s a f e m c d p o, or to be g");
  o.kind = u32(letter - kind_letters);
  const char* digit = s.size() < 2 ? nullptr : strchr(key_digits, s[1]);
  if (!digit || !*digit) throw bad("the key has to be one of 0-9 a-z");
  o.key = u32(digit - key_digits);
  const char* rest = s.c_str() + 2;
  char* end;
  if (*rest == '=') {
    o.value = strtoull(rest + 1, &end, 10);
    if (end == rest + 1) throw bad("a number has to follow =");
    rest = end;
  }
  if (*rest == '@') {
    o.slots = u32(strtoul(rest + 1, &end, 10));
    if (end == rest + 1) throw bad("a number has to follow @");
    rest = end;
  }
  if (*rest == 'm') o.by_mixed = true, ++rest;
  if (*rest == 'p') o.by_parts = true, ++rest;
  if (*rest) throw bad("something follows its end");
  return o;
}

inline std::vector<op> parse_ops(const std::string& s) {
  std::vector<op> ops;
  if (s.empty()) return ops;
  for (const std::string& part : split(s, ',')) ops.push_back(parse_op(part));
  return ops;
}

inline program parse_program(const std::string& s) {
  const auto halves = split(s, ':');
  if (halves.size() != 2)
    throw bad_input("'" + s + "' is not a program: it needs one ':' between setup and tiles (example: i0=7:e0+f0)");
  program p;
  p.setup = parse_ops(halves[0]);
  for (const std::string& tile : split(halves[1], '+')) p.tiles.push_back(parse_ops(tile));
  return p;
}

}  // namespace gpuhash::sim
