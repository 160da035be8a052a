// Large batches: which batches are divided by partitions of the table. Plain functions of plain numbers, without a GPU.
//
// A structure has a policy (bulk_policy), the host knows some facts of a batch and its table (batch_facts), and
// choose() says whether the batch is divided always, never, or if a sample of its elements says so. Then the device
// takes the sample, and sample_wants() says what follows from it; the host does not wait for that.
#pragma once
#include "libgpuhash/drive/bulk/sizes.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/kit/parts.hpp"

GH_BEGIN

// Numbers of elements and slots from which on dividing is faster, measured for each structure (ADR 0019, 0037).
struct bulk_policy {
  // An accumulate that adds integers has no operation that waits for another one of its key.
  bool adds_in_place;
  // A batch is divided if its keys are skewed and its operations wait for one another (parts_least elements, and one
  // for every parts_least_share slots).
  bool divides_skewed;
  // A batch without frequent keys is not divided after all where many slots of the table are dead.
  bool declines_dead;
  // A batch of distinct keys: at least so many elements, and one for every least_share slots. Where fewer elements
  // suffice, by one of the next three numbers, there has to be one for every least_share / 2 slots.
  u64 least, least_share;
  u64 least_into_empty;  // the same for a table that is nearly empty
  u64 least_sums;        // an accumulate, whatever its keys are; into a nearly empty table with statuses: the one above
  u64 least_sums_into_empty;  // the same without statuses, into a table that is nearly empty
  // An accumulate with statuses, into a table with contents, is divided only if some sampled elements repeat a key.
  bool sums_if_repeating;
  // Kinds (bits) whose batches of distinct keys are divided only if the table is nearly empty.
  u32 only_into_empty, only_into_empty_with_statuses;
  // Not divided where chains may get longer than so many keys. 0: there are no chains.
  u64 longest_chain;
};

// A table is nearly empty if no more than one of so many slots is in use.
inline constexpr u64 nearly_empty_share = 32;

struct batch_facts {
  u32 kind;
  bool adds_floats;    // an accumulate that adds floats
  bool with_statuses;  // each element has a status
  bool always;         // the table's option says that all batches are divided
  u64 elements;        // that are divided at a time
  u64 slots;           // of the table
  u64 added;           // elements that were added since the table was empty, at most
  u64 chain;           // keys of a chain after the batch, if no key repeats
};

// A batch is divided if one of these bits is set and holds. No bit: it is not divided.
inline constexpr u32 always = 1;        // whatever the sample says
inline constexpr u32 if_skewed = 2;     // many sampled elements are of frequent keys, or of runs of equal keys
inline constexpr u32 if_distinct = 4;   // hardly any sampled element repeats another, or nearly all are of few keys
inline constexpr u32 if_repeating = 8;  // some sampled elements repeat others

struct bulk_choice {
  u32 when;          // any of the bits above
  bool unless_dead;  // not if many slots are dead
};

constexpr bulk_choice choose(const bulk_policy& p, const batch_facts& b) {
  if (!b.always && p.longest_chain && b.chain > p.longest_chain) return {0, false};
  const bool has_contents = b.added > b.slots / nearly_empty_share;
  const bool sums = b.kind == accumulate;
  const auto enough = [&](u64 least) {
    return b.elements >= least && b.elements >= b.slots / p.least_share * (b.elements < p.least ? 2 : 1);
  };

  const u32 empty_only = b.with_statuses ? p.only_into_empty_with_statuses : p.only_into_empty;
  const bool if_keys_differ = b.kind != erase && enough(has_contents ? p.least : p.least_into_empty) &&
                              !(empty_only >> b.kind & 1 && has_contents);

  const bool waits = b.kind == assign || (sums && !(p.adds_in_place && !b.adds_floats));
  const bool if_keys_skewed =
      p.divides_skewed && waits && b.elements >= parts_least && b.elements >= b.slots / parts_least_share;

  const u64 least_sums = has_contents ? p.least_sums : b.with_statuses ? p.least_into_empty : p.least_sums_into_empty;
  const bool whatever_the_keys = sums && enough(least_sums);
  const bool if_keys_repeat = whatever_the_keys && p.sums_if_repeating && b.with_statuses && has_contents;

  const u32 when = (b.always || (whatever_the_keys && !if_keys_repeat) ? always : 0) |
                   (if_keys_skewed ? if_skewed : 0) | (if_keys_differ && !if_keys_repeat ? if_distinct : 0) |
                   (if_keys_repeat ? if_repeating : 0);
  return {when, p.declines_dead && !b.always};
}

// What a sample says of the elements.
struct sample_facts {
  bool skewed;  // one sampled element in skewed_share is of a frequent key, or of a run
  bool few;     // nearly all are of few keys, and the batch may be combined as a whole
  u32 repeats;  // sampled elements that repeat another one, or their neighbour
};
GH_FN constexpr bool sample_wants(u32 when, const sample_facts& s) {
  return when & always || (when & if_skewed && s.skewed) ||
         (when & if_distinct && (s.few || s.repeats < few_repeats)) ||
         (when & if_repeating && s.repeats >= few_repeats);
}

GH_END
