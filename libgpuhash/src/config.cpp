// Checks of a table's configuration: see config.hpp.
#include "libgpuhash/src/config.hpp"

#include <sys/random.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/memory.hpp"
#include "libgpuhash/src/structs.hpp"
#include "libgpuhash/src/suggest.hpp"

namespace gpuhash {
namespace {

constexpr uint32_t max_threads = 4096;
constexpr double max_bytes = 0x1p62;  // of storage; leaves headroom for every product of sizes that follows

gpuhash_status check_numbers(const gpuhash_config& config, gpuhash_error* err) {
  const double load = config.max_load_factor;
  if (!(load == 0.0 || (load > 0.0 && load <= 1.0)))  // so written that NaN is refused
    return fail(err, GPUHASH_INVALID_ARGUMENT,
                "max_load_factor is %g; it must be above 0 and at most 1 (0: the default)", load);
  if (config.grow > 1) return fail(err, GPUHASH_INVALID_ARGUMENT, "grow is %u; it must be 0 or 1", config.grow);
  if (config.key_bytes == 0) return fail(err, GPUHASH_INVALID_ARGUMENT, "key_bytes is 0; keys need at least 4 bytes");
  if (const auto status = check_capacity("capacity", config.capacity, config.key_bytes, config.value_bytes, err))
    return status;
  if (load != 0.0 && double(config.capacity) * config.key_bytes > max_bytes * load)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "capacity %llu at a load factor of %g overflows the address space",
                static_cast<unsigned long long>(config.capacity), load);
  return GPUHASH_OK;
}

// "4 and 8", from a mask in which bit b stands for b bytes.
std::string widths(uint32_t mask) {
  std::string list;
  for (uint32_t b = 0; b < 32; ++b)
    if (mask >> b & 1) list.append(list.empty() ? "" : " or ").append(std::to_string(b));
  return list;
}

gpuhash_status check_width(const char* field, uint32_t bytes, uint32_t mask, const backend& b, gpuhash_error* err) {
  if (bytes < 32 && (mask >> bytes & 1)) return GPUHASH_OK;
  if ((b.api.traits & GPUHASH_TRAIT_WIDE) == 0)
    return fail(err, GPUHASH_UNSUPPORTED, "%s is %u; backend '%s' takes %s", field, bytes, b.name.c_str(),
                widths(mask).c_str());
  if (bytes % 4 == 0) return GPUHASH_OK;
  return fail(err, GPUHASH_UNSUPPORTED, "%s is %u; backend '%s' takes multiples of 4", field, bytes, b.name.c_str());
}

gpuhash_status check_options(const gpuhash_config& config, const backend& b, gpuhash_error* err) {
  if (config.n_options != 0 && config.options == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "options is NULL, but n_options is %zu", config.n_options);
  std::vector<std::string_view> keys;
  for (size_t i = 0; i < b.api.n_options; ++i) keys.emplace_back(b.api.options[i].key);
  for (size_t i = 0; i < config.n_options; ++i) {
    const auto& [key, value] = config.options[i];
    if (key == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "the key of option %zu is NULL", i);
    if (value == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "the value of option '%s' is NULL", key);
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      return fail(err, GPUHASH_NOT_FOUND, "option '%s' is unknown to backend '%s'%s", key, b.name.c_str(),
                  keys.empty() ? ", which takes none" : suggestion(key, keys).c_str());
    for (size_t j = 0; j < i; ++j)
      if (std::strcmp(config.options[j].key, key) == 0)
        return fail(err, GPUHASH_INVALID_ARGUMENT, "option '%s' is given twice ('%s' and '%s')", key,
                    config.options[j].value, value);
  }
  return GPUHASH_OK;
}

}  // namespace

gpuhash_status check_capacity(const char* field, uint64_t keys, uint32_t key_bytes, uint32_t value_bytes,
                              gpuhash_error* err) {
  if (double(keys) * (double(key_bytes) + value_bytes) <= max_bytes) return GPUHASH_OK;
  return fail(err, GPUHASH_INVALID_ARGUMENT, "%s is %llu; pairs of %u + %u bytes would overflow the address space",
              field, static_cast<unsigned long long>(keys), key_bytes, value_bytes);
}

gpuhash_status draw_seed(uint64_t& seed, gpuhash_error* err) {
  while (seed == 0)
    if (getrandom(&seed, sizeof seed, 0) != ssize_t{sizeof seed})
      return fail(err, GPUHASH_INTERNAL, "the system gives no random seed; set config.seed");
  return GPUHASH_OK;
}

gpuhash_status check_stream(gpuhash_device device, const void* stream, gpuhash_error* err) {
  if (stream == nullptr || device.kind == GPUHASH_CUDA) [[likely]]
    return GPUHASH_OK;
  return fail(err, GPUHASH_INVALID_ARGUMENT, "stream is %p, but the device is the CPU, which has no streams; pass NULL",
              stream);
}

gpuhash_status check_threads(uint32_t threads, gpuhash_error* err) {
  if (threads <= max_threads) return GPUHASH_OK;
  return fail(err, GPUHASH_INVALID_ARGUMENT, "threads is %u; at most %u are allowed (0: one for each CPU)", threads,
              max_threads);
}

gpuhash_status read_memory(const gpuhash_memory* from, gpuhash_device device, gpuhash_memory& memory,
                           const gpuhash_memory** out, gpuhash_error* err) {
  *out = device.kind == GPUHASH_CPU ? &host_memory : nullptr;
  if (from == nullptr) return GPUHASH_OK;
  if (const auto status = read_struct(from, memory, "memory", "sizeof(gpuhash_memory)", sizeof(gpuhash_memory), err))
    return status;
  if (memory.allocate == nullptr || memory.deallocate == nullptr)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "memory: %s is NULL",
                memory.allocate == nullptr ? "allocate" : "deallocate");
  *out = &memory;
  return GPUHASH_OK;
}

gpuhash_status read_config(const gpuhash_config* from, gpuhash_config& config, gpuhash_memory& memory,
                           gpuhash_error* err) {
  if (const auto status = read_struct(from, config, "config", "GPUHASH_CONFIG_INIT", sizeof(gpuhash_config), err))
    return status;
  if (config.backend == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "config.backend is NULL");
  if (const auto status = check_numbers(config, err)) return status;
  if (const auto status = check_threads(config.threads, err)) return status;
  if (const auto status = resolve_device(config.device, err)) return status;
  if (const auto status = check_stream(config.device, config.stream, err)) return status;
  if (const auto status = read_memory(config.memory, config.device, memory, &config.memory, err)) return status;
  if (config.device.kind == GPUHASH_CPU && config.threads == 0) config.threads = default_threads();
  return draw_seed(config.seed, err);
}

gpuhash_status check_trait(const backend& b, uint64_t trait, const char* operation, gpuhash_error* err) {
  if ((b.api.traits & trait) != 0) return GPUHASH_OK;
  constexpr const char* names[] = {"INSERT", "ACCUMULATE", "MULTI", "ORDERED", "GROW", "WIDE", "FLUSH", "ANSWERS"};
  static_assert(sizeof names / sizeof *names == std::countr_zero(unsigned{GPUHASH_TRAIT_ANSWERS}) + 1);
  return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' does not have %s: choose one with the trait %s", b.name.c_str(),
              operation, names[std::countr_zero(trait)]);
}

gpuhash_status check_config(const gpuhash_config& config, const backend& b, gpuhash_error* err) {
  if ((b.api.devices >> config.device.kind & 1) == 0)
    return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' was not built for %s", b.name.c_str(),
                device_name(config.device).text);
  if (const auto status = check_width("key_bytes", config.key_bytes, b.api.key_widths, b, err)) return status;
  if (const auto status = check_width("value_bytes", config.value_bytes, b.api.value_widths, b, err)) return status;
  return check_options(config, b, err);
}

}  // namespace gpuhash

void gpuhash_config_init(gpuhash_config* config, size_t struct_size) {
  gpuhash::init_struct(config, struct_size, gpuhash_config GPUHASH_CONFIG_INIT);
}

void gpuhash_slab_config_init(gpuhash_slab_config* config, size_t struct_size) {
  gpuhash::init_struct(config, struct_size, gpuhash_slab_config GPUHASH_SLAB_CONFIG_INIT);
}
