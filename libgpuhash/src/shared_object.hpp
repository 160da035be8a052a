// Is a file fit to be given to the dynamic linker?
#pragma once

#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// Refuses what is missing, unreadable, not a shared object, or cut short (a download or a copy that did not finish).
/// dlopen's own messages do not tell the first apart, and it maps a file that was cut short and dies of SIGBUS.
gpuhash_status check_shared_object(const char* path, gpuhash_error* err);

}  // namespace gpuhash
