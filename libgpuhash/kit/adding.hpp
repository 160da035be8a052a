// Which kinds of operation may add keys to a table, and so need free slots.
#pragma once
#include <stdint.h>

#include "libgpuhash/tile/kinds.hpp"

namespace gpuhash {

// May an operation, or a batch of them, add keys?
constexpr bool adds(uint32_t op) { return in_kinds(op, adding_batches); }
// The same for one element of a mixed batch: one comparison, so that compilers make vectors of it.
constexpr bool adds_in_mix(uint8_t op) {
  static_assert((adding_kinds & mixable_kinds) == 7u << GPUHASH_OP_INSERT);
  return uint8_t(op - GPUHASH_OP_INSERT) <= 2;
}
// How many elements of a batch take a slot, at most, if the keys are in the table whose byte of `there` is not 0. An
// erase counts, too: the key may come back in the same batch, to another slot.
constexpr bool takes_room_in_mix(uint8_t op, uint8_t there) { return there ? op == GPUHASH_OP_ERASE : adds_in_mix(op); }

}  // namespace gpuhash
