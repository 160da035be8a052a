// Checks of a table's configuration.
#pragma once

#include "libgpuhash/src/registry.hpp"

namespace gpuhash {

/// Read the caller's configuration, check everything that does not depend on the backend, and fill in what the caller
/// left open: the device's kind and the seed. `memory` receives the caller's memory resource.
gpuhash_status read_config(const gpuhash_config* from, gpuhash_config& config, gpuhash_memory& memory,
                           gpuhash_error* err);

/// Check the configuration against what the backend announces.
gpuhash_status check_config(const gpuhash_config& config, const backend& b, gpuhash_error* err);

/// Refuse an operation that takes a trait which the backend does not have.
gpuhash_status check_trait(const backend& b, uint64_t trait, const char* operation, gpuhash_error* err);

/// Read the memory resource of a configuration; NULL stands for the device's default.
gpuhash_status read_memory(const gpuhash_memory* from, gpuhash_device device, gpuhash_memory& memory,
                           const gpuhash_memory** out, gpuhash_error* err);

/// Refuse a number of keys whose pairs could not be addressed.
gpuhash_status check_capacity(const char* field, uint64_t keys, uint32_t key_bytes, uint32_t value_bytes,
                              gpuhash_error* err);
gpuhash_status check_stream(gpuhash_device device, const void* stream, gpuhash_error* err);
gpuhash_status check_threads(uint32_t threads, gpuhash_error* err);

/// Replace a seed of 0 by a random one.
gpuhash_status draw_seed(uint64_t& seed, gpuhash_error* err);

}  // namespace gpuhash
