// Sizes that bound loops over elements: of pieces, chunks, windows, samples, and how often something is tried again. They
// cost time or save it, and no answer depends on them. Meson's option `sizes` replaces those that tests/sizes names, by ones
// as small as they can be, or odd ones: then batches of a few elements reach the second piece.
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
