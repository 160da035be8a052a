// Pinned memory of the host, and what to say when it is refused: how much was asked, and what limits it.
#pragma once
#include <stdio.h>
#include <string.h>

#include "libgpuhash/kit/host_memory.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

// Bytes of a line of /proc/meminfo; 0: it is not known.
inline uint64_t meminfo(const char* name) {
  FILE* const f = fopen("/proc/meminfo", "r");
  if (!f) return 0;
  char line[128];
  unsigned long long kilobytes = 0;
  while (fgets(line, sizeof(line), f))
    if (!strncmp(line, name, strlen(name)) && sscanf(line + strlen(name), ": %llu kB", &kilobytes) == 1) break;
  fclose(f);
  return uint64_t(kilobytes) << 10;
}
inline gpuhash_status no_pinned_memory(uint64_t bytes, const char* said, gpuhash_error* err) {
  return host->fail(
      err, GPUHASH_NO_MEMORY,
      "%llu bytes of pinned host memory for the table's slots were refused (%s). Pinned memory cannot be "
      "swapped out: this host has %llu bytes, of which %llu are available. Ask for a smaller capacity, or "
      "use placement=file on the CPU",
      (unsigned long long)bytes, said, (unsigned long long)meminfo("MemTotal"),
      (unsigned long long)meminfo("MemAvailable"));
}

// Pinned memory, which is released by the device. Asking the system for more than there is may end in the death of some
// process instead of a refusal.
inline gpuhash_status pin(const device_api& api, uint64_t bytes, void** p, gpuhash_error* err) {
  if (const gpuhash_status lacking = check_host_memory(bytes, true, err)) return lacking;
  const int refused = api.allocate_pinned(p, bytes);
  return refused ? no_pinned_memory(bytes, api.error_text(refused), err) : gpuhash_status(GPUHASH_OK);
}

}  // namespace gpuhash
