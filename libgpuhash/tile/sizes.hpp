// tunable(name, usual): a size that bounds a loop over elements: of a chunk, window or sample, or a number of retries.
// Such a size costs time or saves it, and no answer depends on it. A test replaces it by a header of tests/sizes, which
// defines GPUHASH_SIZES (meson's option `sizes` includes two of them): then batches of a few elements reach the second chunk.
#pragma once

namespace gpuhash {

// The size of that name.
template <class T>
constexpr T tunable(const char* name, T usual) {
#ifdef GPUHASH_SIZES
  struct named {
    const char* name;
    unsigned long long size;
  };
  constexpr named replaced[] = {GPUHASH_SIZES};
  for (const named& one : replaced) {
    int i = 0;
    while (name[i] && name[i] == one.name[i]) ++i;
    if (name[i] == one.name[i]) return T(one.size);
  }
#endif
  return (void)name, usual;
}

}  // namespace gpuhash
