// The kinds of operations: one row for each, and everything that follows from the rows.
//
// A new operation gets an enumerator, a row, and a name in gpuhash.h. What it does to a key is said in kit/meaning.hpp, for
// all structures; where a structure has to do something of its own for it, that is in its ops.hpp. A kind without a kernel of
// its own is served by the kernel of mixed batches, in which the kind is data.
#pragma once
#include "gpuhash/gpuhash.h"
#include "libgpuhash/tile/types.hpp"

GH_BEGIN

// `mixed` marks a batch whose elements each have a kind.
enum kind : u32 {
  nop = GPUHASH_OP_NOP,
  insert = GPUHASH_OP_INSERT,
  assign = GPUHASH_OP_ASSIGN,
  accumulate = GPUHASH_OP_ACCUMULATE,
  find = GPUHASH_OP_FIND,
  erase = GPUHASH_OP_ERASE,
  insert_multi = GPUHASH_OP_INSERT_MULTI,
  count = GPUHASH_OP_COUNT,
  erase_all = GPUHASH_OP_ERASE_ALL,
  mixed = GPUHASH_OP_EXECUTE,
  pop = GPUHASH_OP_POP,
  find_or_insert = GPUHASH_OP_FIND_OR_INSERT,
  kinds_end
};

struct kind_row {
  u32 code;
  const char* name;  // of the C function
  u64 trait;         // of the backends that have it
  char letter;       // of the explorer's programs
  // What an operation of the kind does to its key. Of a mixed batch its elements' rows say so.
  bool adds = false;     // puts a pair there where the key is absent
  bool erases = false;   // takes pairs away
  bool changes = false;  // changes the value of a pair that is there
  // What a batch takes and answers, beside keys and statuses.
  bool operand = false;        // a value for each key
  bool joins = false;          // gpuhash_batch.combine and value_type
  bool answers_value = false;  // a value of the table for each key
  bool answers_count = false;  // 8 bytes for each key
  // How batches are served.
  bool in_mixed = false;    // may be an element of a mixed batch
  bool combines = false;    // equal keys of a batch may reach the table as one operation
  bool own_kernel = false;  // else the kernel of mixed batches serves it
};

// The order of the enumerators.
inline constexpr kind_row kind_rows[] = {
    {.code = nop, .name = nullptr, .trait = 0, .letter = 'n', .in_mixed = true},
    {.code = insert,
     .name = "insert",
     .trait = GPUHASH_TRAIT_INSERT,
     .letter = 'i',
     .adds = true,
     .operand = true,
     .in_mixed = true,
     .combines = true,
     .own_kernel = true},
    {.code = assign,
     .name = "insert_or_assign",
     .trait = GPUHASH_TRAIT_INSERT,
     .letter = 's',
     .adds = true,
     .changes = true,
     .operand = true,
     .in_mixed = true,
     .combines = true,
     .own_kernel = true},
    {.code = accumulate,
     .name = "accumulate",
     .trait = GPUHASH_TRAIT_ACCUMULATE,
     .letter = 'a',
     .adds = true,
     .changes = true,
     .operand = true,
     .joins = true,
     .in_mixed = true,
     .combines = true,
     .own_kernel = true},
    {.code = find,
     .name = "find",
     .trait = GPUHASH_TRAIT_INSERT,
     .letter = 'f',
     .answers_value = true,
     .in_mixed = true,
     .own_kernel = true},
    {.code = erase,
     .name = "erase",
     .trait = GPUHASH_TRAIT_INSERT,
     .letter = 'e',
     .erases = true,
     .in_mixed = true,
     .own_kernel = true},
    {.code = insert_multi,
     .name = "insert_multi",
     .trait = GPUHASH_TRAIT_MULTI,
     .letter = 'm',
     .adds = true,
     .operand = true,
     .own_kernel = true},
    {.code = count,
     .name = "count",
     .trait = GPUHASH_TRAIT_INSERT,
     .letter = 'c',
     .answers_count = true,
     .own_kernel = true},
    {.code = erase_all,
     .name = "erase_all",
     .trait = GPUHASH_TRAIT_MULTI,
     .letter = 'd',
     .erases = true,
     .own_kernel = true},
    {.code = mixed,
     .name = "execute",
     .trait = GPUHASH_TRAIT_INSERT,
     .letter = '.',
     .operand = true,
     .joins = true,
     .answers_value = true,
     .own_kernel = true},
    {.code = pop, .name = "pop", .trait = GPUHASH_TRAIT_ANSWERS, .letter = 'p', .erases = true, .answers_value = true},
    {.code = find_or_insert,
     .name = "find_or_insert",
     .trait = GPUHASH_TRAIT_ANSWERS,
     .letter = 'o',
     .adds = true,
     .operand = true,
     .answers_value = true},
};

// ---- what follows ----------------------------------------------------------------------------------------------------

// Is there a row for each kind, in their order?
constexpr bool every_kind_has_its_row() {
  u32 next = nop;
  for (const kind_row& row : kind_rows)
    if (row.code != next++) return false;
  return next == kinds_end;
}
static_assert(every_kind_has_its_row(),
              "a kind of operation has no row in kind_rows, or the rows are in another order");
static_assert(kinds_end <= 32, "sets of kinds are u32");

// A set of kinds has a bit for each.
GH_FN constexpr bool in_kinds(u32 k, u32 kinds) { return (kinds >> k) & 1; }
constexpr u32 kinds_with(bool kind_row::* fact) {
  u32 kinds = 0;
  for (const kind_row& row : kind_rows) kinds |= u32(row.*fact) << row.code;
  return kinds;
}
constexpr u32 kinds_of_trait(u64 trait) {
  u32 kinds = 0;
  for (const kind_row& row : kind_rows) kinds |= u32((row.trait & trait) != 0) << row.code;
  return kinds;
}
// The traits of a backend that has these kinds.
constexpr u64 traits_of_kinds(u32 kinds) {
  u64 traits = 0;
  for (const kind_row& row : kind_rows) traits |= in_kinds(row.code, kinds) ? row.trait : 0;
  return traits;
}

inline constexpr u32 adding_kinds = kinds_with(&kind_row::adds);
inline constexpr u32 erasing_kinds = kinds_with(&kind_row::erases);
inline constexpr u32 changing_kinds = kinds_with(&kind_row::changes);
inline constexpr u32 updating_kinds = erasing_kinds | changing_kinds;  // write where they find their key
inline constexpr u32 writing_kinds = adding_kinds | updating_kinds;    // but for `mixed`, which may write
inline constexpr u32 operand_kinds = kinds_with(&kind_row::operand);
inline constexpr u32 joining_kinds = kinds_with(&kind_row::joins);
inline constexpr u32 answering_kinds = kinds_with(&kind_row::answers_value);
inline constexpr u32 counting_kinds = kinds_with(&kind_row::answers_count);
inline constexpr u32 mixable_kinds = kinds_with(&kind_row::in_mixed);
inline constexpr u32 combining_kinds = kinds_with(&kind_row::combines);
inline constexpr u32 kernel_kinds = kinds_with(&kind_row::own_kernel);
// Those of a structure that has one pair for each key, and those of one that has several.
inline constexpr u32 multi_kinds = kinds_of_trait(GPUHASH_TRAIT_MULTI);
inline constexpr u32 all_kinds = ((1u << kinds_end) - 1) & ~(1u << nop);
inline constexpr u32 single_kinds = all_kinds & ~multi_kinds;
// What may add keys, or erase them, is an element of a mixed batch, too.
inline constexpr u32 adding_batches = adding_kinds | 1u << mixed;
inline constexpr u32 erasing_batches = erasing_kinds | 1u << mixed;
inline constexpr u32 writing_batches = writing_kinds | 1u << mixed;

// In a set, all that adds is the same.
template <class F>
inline constexpr u32 assigns = F::has_value ? u32(assign) : u32(insert);
template <class F>
inline constexpr u32 joins = F::has_value ? u32(accumulate) : u32(insert);

// The kind whose kernel serves operations of this one on slots of format F.
template <class F>
constexpr u32 kernel_of(u32 kind) {
  return kind == assign ? assigns<F> : kind == accumulate ? joins<F> : in_kinds(kind, kernel_kinds) ? kind : u32(mixed);
}

// Calls act.operator()<K>(), where K is the kind whose kernel serves `kind`. `otherwise`: if it is none of Kinds.
template <class F, u32 Kinds, u32 K = nop + 1, class Answer, class Act>
Answer for_kind(u32 kind, Answer otherwise, Act&& act) {
  if constexpr (K == kinds_end) {
    return otherwise;
  } else {
    if constexpr (in_kinds(K, Kinds))
      if (kind == K) return act.template operator()<kernel_of<F>(K)>();
    return for_kind<F, Kinds, K + 1>(kind, otherwise, act);
  }
}

GH_END
