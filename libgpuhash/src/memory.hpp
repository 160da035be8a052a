// Memory of the host: the default memory resource of the CPU device, and how much there is to be had.
//
// Linux promises memory that it does not have, and ends a process that uses it. So what is asked for is compared with what
// the system has available and with what the control groups of the process allow, before it is used.
//
//   M1  Blocks of `checked_from` bytes and more are checked, which takes about a tenth of a millisecond. Smaller ones are
//       counted, and checked once as many bytes have been asked for.
//   M2  Blocks that take more than a sixteenth of what there is come into being in steps, before they are used, and each step
//       is checked again: other processes take memory, too. Smaller ones come into being when they are used, which is faster.
//   M3  Memory that was granted to one thread and has not come into being yet is not granted to another.
//   M4  What would fit is not refused: caches of files are given up by the system, and swap space counts. Nothing is known
//       where the files cannot be read, and then nothing is refused.
#pragma once

#include <cstdint>
#include <string>

#include "gpuhash/gpuhash.h"

namespace gpuhash {

/// Blocks aligned to at least 64 bytes (a cache line). Blocks of 2 MiB and more are aligned to 2 MiB and advised to lie
/// on huge pages, since a random probe of a large table else misses the TLB as well as the cache. More memory than there is
/// is refused.
extern const gpuhash_memory host_memory;

/// The number of bytes of memory that this process may still use, and what limits it.
struct memory_room {
  uint64_t bytes = ~uint64_t{0};
  char limit[256] = "";  ///< the end of a sentence: "the system has 4096 available"
};

/// The least of what the system has and of what each control group allows, swap space left out if `pinned`. `root` is a
/// folder whose proc and sys stand for those of the system.
memory_room available_memory(bool pinned, const std::string& root);

/// The same by the files of the system, or of the folder that GPUHASH_TEST_MEMORY names when the library is loaded.
memory_room available_memory(bool pinned);

/// gpuhash_host_api's check_memory and commit_memory.
gpuhash_status check_memory(uint64_t bytes, uint32_t pinned, gpuhash_error* err);
gpuhash_status commit_memory(void* p, size_t bytes, uint32_t threads, gpuhash_error* err);

/// Called in a forked child, where no thread is left that could use memory that it was granted.
void forget_grants();

}  // namespace gpuhash
