// The default memory resource of the CPU device.
#pragma once

#include "gpuhash/gpuhash.h"

namespace gpuhash {

/// Blocks aligned to at least 64 bytes (a cache line). Blocks of 2 MiB and more are aligned to 2 MiB and advised to lie
/// on huge pages, since a random probe of a large table else misses the TLB as well as the cache.
extern const gpuhash_memory host_memory;

}  // namespace gpuhash
