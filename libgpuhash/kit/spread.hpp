// The order in which the cells of a table are read for an export whose pairs go into another table.
#pragma once
#include <cstdint>
#include <numeric>

#include "libgpuhash/kit/engine.hpp"

namespace gpuhash {

// Neighbours in the table's order of cells leave it far apart (engine.hpp says why).
inline cell_order spread(uint64_t cells, uint32_t line_cells) {
  cell_order o;
  o.line_cells = line_cells;
  o.lines = cells / line_cells;
  if (o.lines < 3 || cells % line_cells) return {};
  // A product of line and stride fits 64 bits.
  const uint64_t span = o.lines >> 32 ? uint64_t(1) << 24 : o.lines;
  o.stride = uint64_t(double(span) * 0.6180339887498949) | 1;
  while (std::gcd(o.stride, o.lines) != 1) ++o.stride;
  return o;
}

}  // namespace gpuhash
