"""A cuckoo table on a GPU, to compare with in benchmarks: pairs of 4 and 4 bytes in slots of 8.

After D. A. Alcantara and others, "Real-time parallel hashing on the GPU" (2009) and "Building an efficient hash table
on the GPU" (2011): four hash functions; an insert exchanges its pair with a slot's content until it gets an empty one,
and takes what it has got to the next place of that key. There is no stash: at the loads that are measured here inserts
do without one, and one that does not end is an error. Nothing is erased.
"""

from __future__ import annotations

from typing import Any

import numpy as np

THREADS = 256
EMPTY = 0xFFFFFFFF  # no key

SOURCE = r"""
typedef unsigned u32;
typedef unsigned long long u64;
__device__ u32 place(u32 key, u32 function, u32 slots) {
  u64 h = key + function * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull;
  h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ h >> 27) * 0x94d049bb133111ebull;
  return (u32)((h >> 32) * slots >> 32);
}
extern "C" __global__ void cuckoo_insert(u64* table, u32 slots, const u32* keys, const u32* values, u32 n, u32 most,
                                         u32* failed) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  u64 pair = keys[i] | (u64)values[i] << 32;
  u32 at = place(keys[i], 0, slots);
  for (u32 k = 0; k < most; ++k) {
    pair = atomicExch(table + at, pair);
    const u32 key = (u32)pair;
    if (key == 0xffffffffu) return;
    u32 next = 0;
    for (u32 f = 0; f < 4; ++f)
      if (place(key, f, slots) == at) next = (f + 1) % 4;
    at = place(key, next, slots);
  }
  atomicAdd(failed, 1u);
}
extern "C" __global__ void cuckoo_find(const u64* table, u32 slots, const u32* keys, u32* values, bool* found, u32 n) {
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const u32 key = keys[i];
  u32 value = 0;
  bool there = false;
  for (u32 f = 0; f < 4 && !there; ++f) {
    const u64 pair = *(const volatile u64*)(table + place(key, f, slots));
    if ((u32)pair == 0xffffffffu) break;  // nothing was ever pushed on from here
    there = (u32)pair == key;
    if (there) value = pair >> 32;
  }
  values[i] = value;
  found[i] = there;
}
"""


class Cuckoo:
    """A table with room for so many pairs. `on_host`: in pinned memory of the host."""

    def __init__(self, cupy: Any, slots: int, on_host: bool = False) -> None:
        self.cupy, self.slots = cupy, slots
        module = cupy.RawModule(code=SOURCE)
        self._insert, self._find = module.get_function("cuckoo_insert"), module.get_function("cuckoo_find")
        self.failed = cupy.zeros(1, "u4")
        self.memory = cupy.cuda.alloc_pinned_memory(8 * slots) if on_host else cupy.cuda.alloc(8 * slots)
        self.at = np.uint64(int(self.memory.ptr))
        self.clear()

    def clear(self) -> None:
        """Empty it."""
        self.cupy.cuda.runtime.memset(int(self.at), 0xFF, 8 * self.slots)
        self.failed.fill(0)

    def _launch(self, kernel: Any, n: int, *arguments: Any) -> None:
        kernel((-(-n // THREADS),), (THREADS,), (self.at, np.uint32(self.slots), *arguments))

    def insert(self, keys: Any, values: Any) -> None:
        """Distinct keys of 4 bytes other than `EMPTY`, that are not there. `failed[0]` counts what found no place."""
        most = np.uint32(7 * len(keys).bit_length() + 100)
        self._launch(self._insert, len(keys), keys, values, np.uint32(len(keys)), most, self.failed)

    def find(self, keys: Any, out: Any, found: Any) -> None:
        """The value of each key, 0 where it is absent, and whether it was found."""
        self._launch(self._find, len(keys), keys, out, found, np.uint32(len(keys)))
