// Loading one plugin module: see plugin_loader.hpp.
#include "libgpuhash/src/plugin_loader.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

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
                                   default_threads};

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
                  entry.trait == 0 ? "" : ", though its traits promise it");
  return GPUHASH_OK;
}

gpuhash_status check_description(const gpuhash_backend_v1& api, const char* path, gpuhash_error* err) {
  if (api.name == nullptr || !is_backend_name(api.name))
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s' calls its backend '%s'; a name is 1 to 63 lower-case letters, digits and underscores",
                path, api.name == nullptr ? "(NULL)" : api.name);
  if (api.n_options != 0 && api.options == nullptr)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces %zu options, but options is NULL", path,
                api.n_options);
  for (size_t i = 0; i < api.n_options; ++i)
    if (api.options[i].key == nullptr)
      return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s': the key of option %zu is NULL", path, i);
  if ((api.traits & GPUHASH_TRAIT_WIDE) == 0 && (api.key_widths == 0 || api.value_widths == 0))
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces no key or no value width", path);
  if (api.devices == 0) return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' announces no device", path);
  return check_entries(api, path, err);
}

}  // namespace

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
  if (init == nullptr)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' is not a gpuhash plugin: it exports no '%s'", path.c_str(),
                entry_symbol);

  gpuhash_error why = GPUHASH_ERROR_INIT;
  gpuhash_backend_v1 filled{};
  filled.struct_size = sizeof filled;
  if (init(GPUHASH_PLUGIN_ABI_MAJOR, GPUHASH_PLUGIN_ABI_MINOR, &host_api, &filled, &why) != GPUHASH_OK)
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' refuses this host (plugin ABI %u.%u): %s", path.c_str(),
                GPUHASH_PLUGIN_ABI_MAJOR, GPUHASH_PLUGIN_ABI_MINOR,
                why.message[0] != 0 ? why.message : "it gives no reason");
  if (filled.struct_size < least_struct_size || filled.struct_size > sizeof filled)
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s' sets struct_size to %zu; between %zu and %zu bytes of gpuhash_backend_v1 are needed",
                path.c_str(), filled.struct_size, least_struct_size, sizeof filled);

  api = gpuhash_backend_v1{};
  std::memcpy(&api, &filled, filled.struct_size);
  api.struct_size = sizeof api;
  return check_description(api, path.c_str(), err);
}

}  // namespace gpuhash
