// The numbers of stadium's engines, which follow from the sizes of keys and values, not from slot formats.
#pragma once
#include <stdint.h>

namespace gpuhash {

inline constexpr uint32_t stadium_wide = 6;  // any multiples of 4 bytes
inline constexpr uint32_t stadium_rows = 7;  // the same, for slots behind a bus
inline constexpr uint32_t stadium_engines = 8;
inline constexpr uint32_t stack_of_warp = 32;  // request.tile: inserts by warps that share a stack of jobs (CUDA)
constexpr uint32_t stadium_engine(uint32_t key_bytes, uint32_t value_bytes) {
  const bool small = (key_bytes == 4 || key_bytes == 8) && (value_bytes == 0 || value_bytes == 4 || value_bytes == 8);
  return small ? (key_bytes == 8 ? 3 : 0) + value_bytes / 4 : stadium_wide;
}

}  // namespace gpuhash
