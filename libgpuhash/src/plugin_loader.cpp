// Loading one plugin module: see plugin_loader.hpp.
#include "libgpuhash/src/plugin_loader.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <exception>

#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/cpus.hpp"
#include "libgpuhash/src/memory.hpp"
#include "libgpuhash/src/shared_object.hpp"
#include "libgpuhash/src/team.hpp"

namespace gpuhash {
namespace {

constexpr const char* entry_symbol = "gpuhash_plugin_init_v1";
constexpr std::string_view prefix = "gpuhash_", suffix = ".so";

// What plugins of version 1.0 fill at least; what follows belongs to traits that a plugin may lack.
constexpr size_t least_struct_size = offsetof(gpuhash_backend_v1, find_all);

const gpuhash_host_api host_api = {sizeof(gpuhash_host_api),
                                   GPUHASH_PLUGIN_ABI_MAJOR,
                                   GPUHASH_PLUGIN_ABI_MINOR,
                                   GPUHASH_VERSION_MAJOR,
                                   GPUHASH_VERSION_MINOR,
                                   GPUHASH_VERSION_PATCH,
                                   fail,
                                   &host_memory,
                                   parallel,
                                   default_threads,
                                   check_memory,
                                   commit_memory};

gpuhash_status open_module(const std::string& path, void** module, gpuhash_error* err) {
  *module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (*module != nullptr) return GPUHASH_OK;
  const char* why = dlerror();
  if (why == nullptr) why = "dlopen gives no reason";
  constexpr std::string_view marker = "undefined symbol: ";
  if (const char* symbol = std::strstr(why, marker.data()))
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' needs the symbol '%s', which no library that it links defines",
                path.c_str(), symbol + marker.size());
  return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' cannot be loaded: %s", path.c_str(), why);
}

// Another major version of the plugin ABI has another entry point.
gpuhash_status refuse_symbols(void* module, const char* path, gpuhash_error* err) {
  for (unsigned major = 0; major < 100; ++major) {
    const std::string symbol = "gpuhash_plugin_init_v" + std::to_string(major);
    if (dlsym(module, symbol.c_str()) != nullptr)
      return fail(
          err, GPUHASH_PLUGIN_ERROR,
          "module '%s' is made for plugin ABI %u, and this library has plugin ABI %u; install versions that match",
          path, major, GPUHASH_PLUGIN_ABI_MAJOR);
  }
  return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' is not a gpuhash plugin: it exports no '%s'", path, entry_symbol);
}

// What init did when it threw; in a catch clause.
gpuhash_status explain_init(const char* path, gpuhash_error* err) {
  try {
    throw;
  } catch (const std::exception& e) {
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s': init threw an exception through the C ABI (%.200s)", path,
                e.what());
  } catch (...) {
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s': init threw an exception through the C ABI (not a std::exception)", path);
  }
}

gpuhash_status initialise(decltype(&gpuhash_plugin_init_v1) init, const char* path, gpuhash_backend_v1& filled,
                          gpuhash_error* err) {
  gpuhash_error why = GPUHASH_ERROR_INIT;
  gpuhash_status status = GPUHASH_INTERNAL;
  try {
    status = init(GPUHASH_PLUGIN_ABI_MAJOR, GPUHASH_PLUGIN_ABI_MINOR, &host_api, &filled, &why);
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return explain_init(path, err);
  }
  if (status == GPUHASH_OK) return GPUHASH_OK;
  if (status < GPUHASH_OK || status > GPUHASH_INTERNAL)
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s': init answered with the status %d, which gpuhash.h does not have", path, int(status));
  return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' refuses this host (plugin ABI %u.%u): %s", path,
              GPUHASH_PLUGIN_ABI_MAJOR, GPUHASH_PLUGIN_ABI_MINOR,
              why.message[0] != 0 ? printable(why.message, sizeof why.message).c_str() : "it gives no reason");
}

// Entries that may be NULL only when their trait is absent.
gpuhash_status check_entries(const gpuhash_backend_v1& api, const char* path, gpuhash_error* err) {
  const struct {
    const char* name;
    bool given;
    uint64_t trait;  // 0: always needed
  } entries[] = {
      {"probe", api.probe != nullptr, 0},
      {"create", api.create != nullptr, 0},
      {"destroy", api.destroy != nullptr, 0},
      {"run", api.run != nullptr, 0},
      {"info", api.info != nullptr, 0},
      {"export_pairs", api.export_pairs != nullptr, 0},
      {"clear", api.clear != nullptr, 0},
      {"reserve", api.reserve != nullptr, 0},
      {"shrink", api.shrink != nullptr, 0},
      {"check", api.check != nullptr, 0},
      {"stats", api.stats != nullptr, 0},
      {"histogram", api.histogram != nullptr, 0},
      {"flush", api.flush != nullptr, GPUHASH_TRAIT_FLUSH},
      {"find_all", api.find_all != nullptr, GPUHASH_TRAIT_MULTI},
      {"lower_bound", api.lower_bound != nullptr, GPUHASH_TRAIT_ORDERED},
      {"range", api.range != nullptr, GPUHASH_TRAIT_ORDERED},
  };
  for (const auto& entry : entries)
    if (!entry.given && (entry.trait == 0 || (api.traits & entry.trait) != 0))
      return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' leaves the entry '%s' NULL%s", path, entry.name,
                  entry.trait == 0 ? ", which every plugin has to have" : ", though its traits promise it");
  return GPUHASH_OK;
}

gpuhash_status check_slab(const gpuhash_slab_api_v1* slab, const char* path, gpuhash_error* err) {
  if (slab == nullptr) return GPUHASH_OK;
  if (slab->struct_size < sizeof *slab)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' sets struct_size of its slab allocator to %zu; %zu are needed",
                path, slab->struct_size, sizeof *slab);
  const struct {
    const char* name;
    bool given;
  } entries[] = {
      {"create", slab->create != nullptr},       {"destroy", slab->destroy != nullptr},
      {"allocate", slab->allocate != nullptr},   {"free_units", slab->free_units != nullptr},
      {"translate", slab->translate != nullptr}, {"stats", slab->stats != nullptr},
  };
  for (const auto& entry : entries)
    if (!entry.given)
      return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' leaves the entry '%s' of its slab allocator NULL", path,
                  entry.name);
  return GPUHASH_OK;
}

// Key and value widths: 4 and 8 bytes, no value at all, and with the trait WIDE any multiple of 4.
gpuhash_status check_widths(const gpuhash_backend_v1& api, const char* path, gpuhash_error* err) {
  const bool wide = (api.traits & GPUHASH_TRAIT_WIDE) != 0;
  constexpr uint32_t multiples_of_4 = 0x11111110, narrow = 1u << 4 | 1u << 8;
  const uint32_t keys = wide ? multiples_of_4 : narrow;
  if (!wide && (api.key_widths == 0 || api.value_widths == 0))
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces no key or no value width", path);
  const bool is_key = (api.key_widths & ~keys) != 0;
  const uint32_t unknown = is_key ? api.key_widths & ~keys : api.value_widths & ~(keys | 1u);
  if (unknown == 0) return GPUHASH_OK;
  return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces %s of %d bytes; %s are possible", path,
              is_key ? "keys" : "values", std::countr_zero(unknown),
              wide ? "multiples of 4" : (is_key ? "4 and 8" : "0, 4 and 8"));
}

gpuhash_status check_options(const gpuhash_backend_v1& api, const char* path, gpuhash_error* err) {
  constexpr size_t most_options = 256;
  if (api.n_options > most_options)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces %zu options; at most %zu are taken", path,
                api.n_options, most_options);
  if (api.n_options != 0 && api.options == nullptr)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces %zu options, but options is NULL", path,
                api.n_options);
  for (size_t i = 0; i < api.n_options; ++i) {
    const char* key = api.options[i].key;
    if (key == nullptr || !is_backend_name(key))
      return fail(err, GPUHASH_PLUGIN_ERROR,
                  "module '%s': the key of option %zu is '%s'; it has to be 1 to 63 lower-case letters, digits and "
                  "underscores",
                  path, i, key == nullptr ? "(NULL)" : printable(key).c_str());
    for (size_t j = 0; j < i; ++j)
      if (std::strcmp(key, api.options[j].key) == 0)
        return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces the option '%s' twice", path, key);
  }
  return GPUHASH_OK;
}

}  // namespace

gpuhash_status check_backend(const gpuhash_backend_v1& api, const char* path, gpuhash_error* err) {
  constexpr uint64_t known_traits = 2 * uint64_t{GPUHASH_TRAIT_ANSWERS} - 1;
  constexpr uint32_t known_devices = 1u << GPUHASH_CPU | 1u << GPUHASH_CUDA;
  if (api.name == nullptr && api.run == nullptr)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s': init answered OK, but has filled nothing in", path);
  if (api.name == nullptr || !is_backend_name(api.name))
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s' calls its backend '%s'; a name is 1 to 63 lower-case letters, digits and underscores",
                path, api.name == nullptr ? "(NULL)" : printable(api.name).c_str());
  if ((api.traits & ~known_traits) != 0)
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s' announces trait bit %d, which plugin ABI %u.%u does not have; a plugin sets the bits that "
                "its host knows",
                path, std::countr_zero(api.traits & ~known_traits), GPUHASH_PLUGIN_ABI_MAJOR, GPUHASH_PLUGIN_ABI_MINOR);
  if (const auto status = check_widths(api, path, err)) return status;
  if (api.devices == 0) return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces no device", path);
  if ((api.devices & ~known_devices) != 0)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces device kind %d; 1 (CPU) and 2 (CUDA) are known", path,
                std::countr_zero(api.devices & ~known_devices));
  if (const auto status = check_options(api, path, err)) return status;
  if (const auto status = check_slab(api.slab, path, err)) return status;
  return check_entries(api, path, err);
}

bool is_backend_name(std::string_view name) {
  return !name.empty() && name.size() < 64 &&
         std::all_of(
             name.begin(), name.end(),
             [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; });
}

std::string_view name_in_file_name(std::string_view file_name) {
  if (file_name.size() <= prefix.size() + suffix.size() || !file_name.starts_with(prefix) ||
      !file_name.ends_with(suffix))
    return {};
  const auto name = file_name.substr(prefix.size(), file_name.size() - prefix.size() - suffix.size());
  return is_backend_name(name) ? name : std::string_view{};
}

gpuhash_status load_plugin(const std::string& path, gpuhash_backend_v1& api, gpuhash_error* err) {
  void* module = nullptr;
  if (const auto status = check_shared_object(path.c_str(), err)) return status;
  if (const auto status = open_module(path, &module, err)) return status;
  const auto init = reinterpret_cast<decltype(&gpuhash_plugin_init_v1)>(dlsym(module, entry_symbol));
  if (init == nullptr) return refuse_symbols(module, path.c_str(), err);

  gpuhash_backend_v1 filled{};
  filled.struct_size = sizeof filled;
  if (const auto status = initialise(init, path.c_str(), filled, err)) return status;
  if (filled.struct_size < least_struct_size || filled.struct_size > sizeof filled)
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s' sets struct_size to %zu; between %zu and %zu bytes of gpuhash_backend_v1 are needed",
                path.c_str(), filled.struct_size, least_struct_size, sizeof filled);

  api = gpuhash_backend_v1{};
  std::memcpy(&api, &filled, filled.struct_size);
  api.struct_size = sizeof api;
  return check_backend(api, path.c_str(), err);
}

}  // namespace gpuhash
