// The registry of backends: see registry.hpp. The C functions gpuhash_backend_*.
#include "libgpuhash/src/registry.hpp"

#include <sys/stat.h>

#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/plugin_loader.hpp"
#include "libgpuhash/src/search_path.hpp"
#include "libgpuhash/src/structs.hpp"
#include "libgpuhash/src/suggest.hpp"

namespace gpuhash {
namespace {

// One module, known by its file's identity, so that two paths to one file are one backend.
struct module {
  std::string name;
  std::string path;
  dev_t device;
  ino_t inode;
  std::unique_ptr<backend> loaded{};  // set once, never reset
  const char* error = nullptr;        // why the last attempt to load it failed
};

class registry {
 public:
  gpuhash_status find(const char* name, const backend** out, gpuhash_error* err);
  gpuhash_status open(const char* path, const backend** out, gpuhash_error* err);
  size_t count();
  gpuhash_status describe(size_t index, gpuhash_backend_info& info, gpuhash_error* err);

 private:
  void scan();
  module* known(dev_t device, ino_t inode);
  gpuhash_status choose(const std::string& name, module** out, gpuhash_error* err);
  gpuhash_status load(module& m, gpuhash_error* err);
  gpuhash_status check_name(const module& m, const std::string& name, gpuhash_error* err);
  gpuhash_status unknown(const char* name, gpuhash_error* err);
  const char* keep(const char* text) { return kept_.insert(text).first->c_str(); }

  std::mutex mutex_;
  std::deque<module> modules_;  // only grows: indices and addresses stay
  std::set<std::string> kept_;  // messages that callers may still point to
};

// Never destroyed: plugins and callers may still ask while the process exits.
registry& the_registry() {
  static registry* const it = new registry;
  return *it;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

void registry::scan() {
  for (const auto& directory : plugin_directories())
    for (const auto& path : plugin_files(directory)) {
      struct stat file;
      if (stat(path.c_str(), &file) != 0 || known(file.st_dev, file.st_ino) != nullptr) continue;
      modules_.push_back({std::string(name_in_file_name(file_name(path))), path, file.st_dev, file.st_ino});
    }
}

module* registry::known(dev_t device, ino_t inode) {
  for (auto& m : modules_)
    if (m.device == device && m.inode == inode) return &m;
  return nullptr;
}

// The module that a name stands for; NULL when there is none. One that is in use wins over others.
gpuhash_status registry::choose(const std::string& name, module** out, gpuhash_error* err) {
  module *found = nullptr, *second = nullptr;
  *out = nullptr;
  for (auto& m : modules_) {
    if (m.name != name) continue;
    if (m.loaded != nullptr) {
      *out = &m;
      return GPUHASH_OK;
    }
    (found == nullptr ? found : second) = &m;
  }
  if (second != nullptr)
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "two modules are named '%s': '%s' and '%s'; remove one, or open the one you mean by its path",
                name.c_str(), found->path.c_str(), second->path.c_str());
  *out = found;
  return GPUHASH_OK;
}

// May this module take this name?
gpuhash_status registry::check_name(const module& m, const std::string& name, gpuhash_error* err) {
  if (!m.name.empty() && m.name != name)
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s' contains the backend '%s'; its file must be named gpuhash_%s.so", m.path.c_str(),
                name.c_str(), name.c_str());
  for (const auto& other : modules_) {
    if (&other == &m || other.loaded == nullptr || other.name != name) continue;
    if (other.path == m.path)
      return fail(err, GPUHASH_PLUGIN_ERROR,
                  "module '%s' was replaced on disk after it had been loaded; restart the process", m.path.c_str());
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' is named '%s', and so is '%s', which is in use already",
                m.path.c_str(), name.c_str(), other.path.c_str());
  }
  return GPUHASH_OK;
}

gpuhash_status registry::load(module& m, gpuhash_error* err) {
  if (m.loaded != nullptr) return GPUHASH_OK;
  gpuhash_error why = GPUHASH_ERROR_INIT;
  auto fresh = std::make_unique<backend>();
  auto status = load_plugin(m.path, fresh->api, &why);
  if (status == GPUHASH_OK) status = check_name(m, fresh->api.name, &why);
  if (status != GPUHASH_OK) {
    m.error = keep(why.message);
    return fail(err, status, "%s", why.message);
  }
  fresh->name = fresh->api.name;
  fresh->path = m.path;
  m.name = fresh->name;
  m.error = nullptr;
  m.loaded = std::move(fresh);
  return GPUHASH_OK;
}

gpuhash_status registry::unknown(const char* name, gpuhash_error* err) {
  std::set<std::string_view> names;
  for (const auto& m : modules_) names.insert(m.name);
  std::string directories;
  for (const auto& d : plugin_directories()) directories.append(directories.empty() ? "" : ", ").append(d);
  return fail(err, GPUHASH_NOT_FOUND, "backend '%.100s' is not known%s; looked for gpuhash_%.100s.so in %s", name,
              suggestion(name, {names.begin(), names.end()}).c_str(), name, directories.c_str());
}

gpuhash_status registry::find(const char* name, const backend** out, gpuhash_error* err) {
  const std::lock_guard lock(mutex_);
  module* m = nullptr;
  if (const auto status = choose(name, &m, err)) return status;
  if (m == nullptr || m->loaded == nullptr) {
    scan();
    if (const auto status = choose(name, &m, err)) return status;
  }
  if (m == nullptr) return unknown(name, err);
  if (const auto status = load(*m, err)) return status;
  *out = m->loaded.get();
  return GPUHASH_OK;
}

gpuhash_status registry::open(const char* path, const backend** out, gpuhash_error* err) {
  struct stat file;
  if (stat(path, &file) != 0) {
    gpuhash_backend_v1 unused;
    return load_plugin(path, unused, err);  // says why
  }
  const std::lock_guard lock(mutex_);
  if (module* m = known(file.st_dev, file.st_ino)) {
    if (const auto status = load(*m, err)) return status;
    *out = m->loaded.get();
    return GPUHASH_OK;
  }
  module fresh{std::string(name_in_file_name(file_name(path))), path, file.st_dev, file.st_ino};
  if (const auto status = load(fresh, err)) return status;
  modules_.push_back(std::move(fresh));
  *out = modules_.back().loaded.get();
  return GPUHASH_OK;
}

size_t registry::count() {
  const std::lock_guard lock(mutex_);
  scan();
  return modules_.size();
}

gpuhash_status registry::describe(size_t index, gpuhash_backend_info& info, gpuhash_error* err) {
  const std::lock_guard lock(mutex_);
  if (index >= modules_.size())
    return fail(err, GPUHASH_INVALID_ARGUMENT, "backend index %zu is out of range; there are %zu", index,
                modules_.size());
  const module& m = modules_[index];
  info.name = keep(m.name.c_str());
  info.path = keep(m.path.c_str());
  info.error = m.error;
  if (m.loaded != nullptr) {
    const auto& api = m.loaded->api;
    info.version = api.version;
    info.summary = api.summary;
    info.traits = api.traits;
    info.loaded = 1;
    info.key_widths = api.key_widths;
    info.value_widths = api.value_widths;
    info.devices = api.devices;
    info.options = api.options;
    info.n_options = api.n_options;
    return GPUHASH_OK;
  }
  gpuhash_error why = GPUHASH_ERROR_INIT;
  module* chosen = nullptr;
  if (info.error == nullptr && choose(m.name, &chosen, &why) != GPUHASH_OK) info.error = keep(why.message);
  return GPUHASH_OK;
}

gpuhash_backend_info describe(const backend& b) {
  return {sizeof(gpuhash_backend_info),
          b.name.c_str(),
          b.api.version,
          b.api.summary,
          b.path.c_str(),
          nullptr,
          b.api.traits,
          1,
          b.api.key_widths,
          b.api.value_widths,
          b.api.devices,
          b.api.options,
          b.api.n_options};
}

}  // namespace

gpuhash_status find_backend(const char* name, const backend** out, gpuhash_error* err) {
  if (name == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "the backend's name is NULL");
  return the_registry().find(name, out, err);
}

}  // namespace gpuhash

using namespace gpuhash;

extern "C" size_t gpuhash_backend_count(void) {
  size_t n = 0;
  guarded(nullptr, [&] {
    n = the_registry().count();
    return gpuhash_status{GPUHASH_OK};
  });
  return n;
}

extern "C" gpuhash_status gpuhash_backend_get(size_t index, gpuhash_backend_info* out, gpuhash_error* err) {
  return guarded(err, [&] {
    if (const auto status = check_output(out, "out", err)) return status;
    gpuhash_backend_info info{};
    if (const auto status = the_registry().describe(index, info, err)) return status;
    write_struct(out, info);
    return gpuhash_status{GPUHASH_OK};
  });
}

extern "C" gpuhash_status gpuhash_backend_load(const char* name, gpuhash_backend_info* out, gpuhash_error* err) {
  return guarded(err, [&] {
    if (out != nullptr)
      if (const auto status = check_output(out, "out", err)) return status;
    const backend* b = nullptr;
    if (const auto status = find_backend(name, &b, err)) return status;
    if (out != nullptr) write_struct(out, describe(*b));
    return gpuhash_status{GPUHASH_OK};
  });
}

extern "C" gpuhash_status gpuhash_backend_open(const char* path, gpuhash_backend_info* out, gpuhash_error* err) {
  return guarded(err, [&] {
    if (out != nullptr)
      if (const auto status = check_output(out, "out", err)) return status;
    if (path == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "the module's path is NULL");
    if (path[0] != '/') return fail(err, GPUHASH_INVALID_ARGUMENT, "the module's path '%s' is not absolute", path);
    const backend* b = nullptr;
    if (const auto status = the_registry().open(path, &b, err)) return status;
    if (out != nullptr) write_struct(out, describe(*b));
    return gpuhash_status{GPUHASH_OK};
  });
}

extern "C" gpuhash_status gpuhash_backend_probe(const char* name, gpuhash_device device, gpuhash_error* err) {
  return guarded(err, [&] {
    const backend* b = nullptr;
    if (const auto status = find_backend(name, &b, err)) return status;
    if (const auto status = resolve_device(device, err)) return status;
    if ((b->api.devices >> device.kind & 1) == 0)
      return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' was not built for %s", name, device_name(device).text);
    return b->api.probe(device, err);
  });
}
