// The registry of backends: see registry.hpp. The C functions gpuhash_backend_*.
#include "libgpuhash/src/registry.hpp"

#include <sys/stat.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string_view>
#include <vector>

#include "libgpuhash/src/answers.hpp"
#include "libgpuhash/src/device.hpp"
#include "libgpuhash/src/fork.hpp"
#include "libgpuhash/src/plugin_loader.hpp"
#include "libgpuhash/src/search_path.hpp"
#include "libgpuhash/src/structs.hpp"
#include "libgpuhash/src/suggest.hpp"

namespace gpuhash {
namespace {

// One module, known by its file's identity, so that two paths to one file are one backend. A link that leads nowhere is
// known by its own.
struct module {
  std::string name;
  std::string path;
  dev_t device;
  ino_t inode;
  uint32_t origin;
  std::unique_ptr<backend> loaded{};  // set once, never reset
  const char* error = nullptr;        // why the last attempt to load it failed
};

class registry {
 public:
  gpuhash_status find(const char* name, const backend** out, gpuhash_error* err);
  gpuhash_status open(const char* path, const backend** out, gpuhash_error* err);
  size_t count();
  gpuhash_status describe(size_t index, gpuhash_backend_info& info, gpuhash_error* err);
  void describe(const backend& b, gpuhash_backend_info& info);

 private:
  void scan();
  module* known(dev_t device, ino_t inode);
  const module* choose(const std::string& name);
  gpuhash_status load(module& m, gpuhash_error* err);
  gpuhash_status check_name(const module& m, const std::string& name, gpuhash_error* err);
  gpuhash_status unknown(const char* name, gpuhash_error* err);
  const char* name_for_config(const module& m);
  void fill(const module& m, gpuhash_backend_info& info);
  const char* keep(const std::string& text) { return kept_.insert(text).first->c_str(); }

  // Everything under registry_lock.
  std::deque<module> modules_;                 // only grows: indices and addresses stay
  std::map<std::string, const module*> used_;  // names that have been used, and what they stand for
  std::set<std::string> kept_;                 // text that callers may still point to
};

// Never destroyed: plugins and callers may still ask while the process exits. Made without a lock, since the child of a
// fork during the initialisation of an ordinary static would wait for that for ever.
registry& the_registry() {
  static constinit std::atomic<registry*> it{nullptr};
  registry* made = it.load(std::memory_order_acquire);
  if (made == nullptr) {
    auto fresh = std::make_unique<registry>();
    if (it.compare_exchange_strong(made, fresh.get())) made = fresh.release();
  }
  return *made;
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

void registry::scan() {
  const std::string built_in = built_in_directory();
  for (const auto& directory : plugin_directories())
    for (const auto& path : plugin_files(directory)) {
      struct stat file;
      if (stat(path.c_str(), &file) != 0 && lstat(path.c_str(), &file) != 0) continue;
      if (known(file.st_dev, file.st_ino) != nullptr) continue;
      modules_.push_back({std::string(name_in_file_name(file_name(path))), path, file.st_dev, file.st_ino,
                          uint32_t(directory == built_in ? GPUHASH_BUILT_IN : GPUHASH_ON_PATH)});
    }
}

module* registry::known(dev_t device, ino_t inode) {
  for (auto& m : modules_)
    if (m.device == device && m.inode == inode) return &m;
  return nullptr;
}

// The module that a name stands for; NULL when there is none.
const module* registry::choose(const std::string& name) {
  if (const auto it = used_.find(name); it != used_.end()) return it->second;
  const module* best = nullptr;
  for (const auto& m : modules_)
    if (m.name == name && (best == nullptr || m.origin < best->origin)) best = &m;
  return best;
}

// The text of a config's field `backend` that stands for this module.
const char* registry::name_for_config(const module& m) {
  return keep(!m.name.empty() && choose(m.name) == &m ? m.name : m.path);
}

// May this module contain a backend of this name?
gpuhash_status registry::check_name(const module& m, const std::string& name, gpuhash_error* err) {
  if (!m.name.empty() && m.name != name)
    return fail(err, GPUHASH_PLUGIN_ERROR,
                "module '%s' contains the backend '%s'; its file must be named gpuhash_%s.so", m.path.c_str(),
                name.c_str(), name.c_str());
  for (const auto& other : modules_)
    if (&other != &m && other.loaded != nullptr && other.path == m.path)
      return fail(err, GPUHASH_PLUGIN_ERROR,
                  "module '%s' was replaced on disk after it had been loaded; restart the process", m.path.c_str());
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
  fresh->version = printable(fresh->api.version, 64);
  fresh->summary = printable(fresh->api.summary);
  m.name = fresh->name;
  m.error = nullptr;
  m.loaded = std::move(fresh);
  return GPUHASH_OK;
}

gpuhash_status registry::unknown(const char* name, gpuhash_error* err) {
  if (std::strchr(name, '/') != nullptr)
    return fail(err, GPUHASH_NOT_FOUND, "backend '%.64s' is a relative path: give the module's absolute path",
                printable(name).c_str());
  std::set<std::string_view> names;
  for (const auto& m : modules_) names.insert(m.name);
  std::string directories;
  for (const auto& d : plugin_directories()) directories.append(directories.empty() ? "" : ", ").append(d);
  return fail(err, GPUHASH_NOT_FOUND, "backend '%.64s' is not known%s; %slooked for gpuhash_%.64s.so in %s",
              printable(name).c_str(), suggestion(name, {names.begin(), names.end()}).c_str(),
              search_path_faults().c_str(), printable(name).c_str(), directories.c_str());
}

gpuhash_status registry::find(const char* name, const backend** out, gpuhash_error* err) {
  const std::lock_guard lock(library_lock[registry_lock]);
  const module* chosen = choose(name);
  if (chosen == nullptr || used_.find(name) == used_.end()) {
    scan();
    chosen = choose(name);
  }
  if (chosen == nullptr) return unknown(name, err);
  if (const auto status = load(const_cast<module&>(*chosen), err)) return status;
  used_.emplace(name, chosen);
  *out = chosen->loaded.get();
  return GPUHASH_OK;
}

gpuhash_status registry::open(const char* path, const backend** out, gpuhash_error* err) {
  struct stat file;
  if (stat(path, &file) != 0) {
    gpuhash_backend_v1 unused;
    return load_plugin(path, unused, err);  // says why
  }
  const std::lock_guard lock(library_lock[registry_lock]);
  scan();  // so that a module of the search path is known as one, however it was reached first
  module* m = known(file.st_dev, file.st_ino);
  if (m == nullptr) {
    module fresh{std::string(name_in_file_name(file_name(path))), path, file.st_dev, file.st_ino, GPUHASH_OPENED};
    if (const auto status = load(fresh, err)) return status;
    modules_.push_back(std::move(fresh));
    m = &modules_.back();
  }
  if (const auto status = load(*m, err)) return status;
  *out = m->loaded.get();
  return GPUHASH_OK;
}

size_t registry::count() {
  const std::lock_guard lock(library_lock[registry_lock]);
  scan();
  return modules_.size();
}

gpuhash_status registry::describe(size_t index, gpuhash_backend_info& info, gpuhash_error* err) {
  const std::lock_guard lock(library_lock[registry_lock]);
  if (index >= modules_.size())
    return fail(err, GPUHASH_INVALID_ARGUMENT, "backend index %zu is out of range; there are %zu", index,
                modules_.size());
  fill(modules_[index], info);
  return GPUHASH_OK;
}

void registry::describe(const backend& b, gpuhash_backend_info& info) {
  const std::lock_guard lock(library_lock[registry_lock]);
  for (const auto& m : modules_)
    if (m.loaded.get() == &b) fill(m, info);
}

void registry::fill(const module& m, gpuhash_backend_info& info) {
  info = gpuhash_backend_info{};
  info.struct_size = sizeof info;
  info.name = name_for_config(m);
  info.path = keep(m.path);
  info.error = m.error;
  info.origin = m.origin;
  if (m.loaded == nullptr) return;
  const auto& api = m.loaded->api;
  info.version = m.loaded->version.c_str();
  info.summary = m.loaded->summary.c_str();
  info.traits = api.traits;
  info.loaded = 1;
  info.key_widths = api.key_widths;
  info.value_widths = api.value_widths;
  info.devices = api.devices;
  info.options = api.options;
  info.n_options = api.n_options;
}

}  // namespace

gpuhash_status find_backend(const char* name, const backend** out, gpuhash_error* err) {
  if (name == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "the backend's name is NULL");
  return name[0] == '/' ? the_registry().open(name, out, err) : the_registry().find(name, out, err);
}

}  // namespace gpuhash

using namespace gpuhash;

namespace {

void write_description(const backend& b, gpuhash_backend_info* out) {
  if (out == nullptr) return;
  gpuhash_backend_info info;
  the_registry().describe(b, info);
  write_struct(out, info);
}

}  // namespace

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
    write_description(*b, out);
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
    write_description(*b, out);
    return gpuhash_status{GPUHASH_OK};
  });
}

extern "C" gpuhash_status gpuhash_backend_probe(const char* name, gpuhash_device device, gpuhash_error* err) {
  return guarded(err, [&]() -> gpuhash_status {
    const backend* b = nullptr;
    if (const auto status = find_backend(name, &b, err)) return status;
    if (const auto status = resolve_device(device, err)) return status;
    if ((b->api.devices >> device.kind & 1) == 0)
      return fail(err, GPUHASH_UNSUPPORTED, "backend '%s' was not built for %s", name, device_name(device).text);
    return ask(*b, "probe", err, [&](gpuhash_error* said) { return b->api.probe(device, said); });
  });
}
