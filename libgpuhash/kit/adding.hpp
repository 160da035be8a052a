// Which operations may add keys, and so need room.
#pragma once
#include <stdint.h>

#include "gpuhash/gpuhash.h"

namespace gpuhash {

// May an operation, or a batch of them, add keys?
constexpr bool adds(uint32_t op) {
  return op == GPUHASH_OP_INSERT || op == GPUHASH_OP_ASSIGN || op == GPUHASH_OP_ACCUMULATE ||
         op == GPUHASH_OP_INSERT_MULTI || op == GPUHASH_OP_EXECUTE;
}
// An element's, of a mixed batch. One comparison, for vectors.
constexpr bool adds_in_mix(uint8_t op) {
  static_assert(GPUHASH_OP_ASSIGN == GPUHASH_OP_INSERT + 1 && GPUHASH_OP_ACCUMULATE == GPUHASH_OP_INSERT + 2);
  return uint8_t(op - GPUHASH_OP_INSERT) <= 2;
}

}  // namespace gpuhash
