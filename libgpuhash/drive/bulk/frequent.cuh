// Large batches: where a frequent key, which many elements of the batch name, is in the list of those.
//
// The list is a hash table of rows of two keys. Behind its frequent_slots slots are two more, for the keys of the
// table's side slots, which always count as frequent.
#pragma once
#include "libgpuhash/drive/bulk/sizes.hpp"
#include "libgpuhash/hash/hash.hpp"

GH_BEGIN

// A key that finds no place in its row the first time has another row the second time.
template <class Key>
GH_FN u32 frequent_row(Key k, bool again) {
  const auto h = mix(Key(k ^ Key(0x5bd1e995u)));
  return u32(again ? h >> 16 : h) & (frequent_slots - 2);
}
// Where the key is in the list, or none.
template <class Key>
GH_FN u32 frequent_slot(const Key* list, Key k, bool again) {
  const u32 row = frequent_row(k, again);
  return list[row] == k ? row : list[row + 1] == k ? row + 1 : none;
}
template <class Key>
GH_FN u32 side_slot(Key k) {
  return frequent_slots + u32(empty_key<Key> - k);
}

GH_END
