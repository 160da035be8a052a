// gpuhash_set_threads of <gpuhash/gpuhash.h>.
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/error.hpp"

using namespace gpuhash;

extern "C" gpuhash_status gpuhash_set_threads(uint32_t threads, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    if (threads > most_threads)
      return fail(err, GPUHASH_INVALID_ARGUMENT, "threads is %u; pass 1 to %u, or 0 for the default", threads,
                  most_threads);
    set_default_threads(threads);
    return GPUHASH_OK;
  });
}
