// Where the keys of a group of rows may be in an index: looked up in its slots, before any key is read.
#pragma once

#include <array>
#include <bit>

#include "libgpuhash/columns/keys.hpp"

namespace gpuhash::columns {

/// For a group of items: a bit for each item whose tag an entry has, that entry's number, and a bit for each item that
/// is null.
template <size_t Group>
struct located {
  static_assert(Group <= 64);  // bits of a word
  std::array<uint32_t, Group> numbers;
  uint64_t tagged = 0, nulls = 0;
};

/// serve(number of the bit) for each bit that is set, the lowest first.
template <class Serve>
void each_bit(uint64_t bits, Serve serve) {
  for (; bits; bits &= bits - 1) serve(std::countr_zero(bits));
}

/// Looks at the first slots of all items, without a branch; then at the following slots for items whose first slot has
/// another key's tag. probe_of(item): the slots of its partition. Bits are gathered in variables of their own: GCC
/// keeps members in memory.
template <size_t Group, class Key, class Probe>
located<Group> locate_by(const item<Key>* items, size_t n, Probe probe_of) {
  located<Group> l;
  uint64_t tagged = 0, nulls = 0, others = 0;
  for (size_t k = 0; k < n; ++k) {
    const auto s = probe_of(items[k]).first_slot_of(items[k]);
    l.numbers[k] = s.number;
    tagged |= uint64_t(s.tagged) << k;
    nulls |= uint64_t(items[k].null) << k;
    others |= uint64_t(s.other) << k;
  }
  for (; others; others &= others - 1) {
    const auto k = size_t(std::countr_zero(others));
    const uint32_t number = probe_of(items[k]).tagged_further(items[k]);
    if (number == partition<Key>::nothing) continue;
    l.numbers[k] = number;
    tagged |= uint64_t{1} << k;
  }
  l.tagged = tagged;
  l.nulls = nulls;
  return l;
}

}  // namespace gpuhash::columns
