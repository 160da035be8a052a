// A simulated disk behind plugins/stadium/disk.hpp: one folder of files in memory, and the contents that they may have
// after a crash of the system.
//
//   pages   A sector of 512 bytes has on the disk what it had when its page was last synced, or anything that it had since:
//           the system writes pages back whenever it likes, in any order, and a page may be written in part. Stores into a
//           mapping are seen when a call is made, and where the test says note().
//   sizes   A file has on the disk the size that it had when fsync() was last called for it, or one that it had since.
//   names   A name leads on the disk to the file that it led to when fsync() was last called for the folder, or to one
//           since.
//   faults  A call may be refused. Pages that msync() or fsync() could not write count as written for the system, which does
//           not try again unless they change: so does Linux.
#pragma once
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "plugins/stadium/disk.hpp"

namespace gpuhash::sim {

class disk {
 public:
  static constexpr size_t sector_bytes = 512, page_bytes = 4096;
  using sector = std::array<unsigned char, sector_bytes>;

  struct file {
    unsigned char* memory = nullptr;
    size_t bytes = 0;
    std::vector<size_t> sizes{0};              // of which the disk has one; the last is the present one
    std::vector<std::vector<sector>> sectors;  // for each of which the disk has one of these
    std::map<size_t, sector> refused;          // what the system takes for written, and is not
    int locked_by = -1;

    file() = default;
    file(const file&) = delete;
    file& operator=(const file&) = delete;
    ~file() { free(memory); }
    const sector& now(size_t s) const { return *reinterpret_cast<const sector*>(memory + s * sector_bytes); }
    void grow(size_t n) {
      const size_t room = (n + page_bytes - 1) / page_bytes * page_bytes;
      auto* const larger = static_cast<unsigned char*>(aligned_alloc(page_bytes, room ? room : page_bytes));
      memset(larger, 0, room);
      free(memory);
      memory = larger;
      bytes = n;
      if (sectors.size() * sector_bytes < room) sectors.resize(room / sector_bytes, {sector{}});
    }
    void note() {
      for (size_t s = 0; s < sectors_now(); ++s)
        if (std::find(sectors[s].begin(), sectors[s].end(), now(s)) == sectors[s].end()) sectors[s].push_back(now(s));
      std::erase_if(refused, [&](const auto& r) { return r.first < sectors_now() && r.second != now(r.first); });
    }
    size_t sectors_now() const { return (bytes + sector_bytes - 1) / sector_bytes; }
    void sync(size_t from, size_t to, bool succeeds) {
      for (size_t s = from / sector_bytes; s < sectors_now() && s * sector_bytes < to; ++s) {
        const auto lost = refused.find(s);
        if (!succeeds) {
          if (sectors[s].size() > 1) refused[s] = now(s);
        } else if (lost == refused.end()) {
          sectors[s] = {now(s)};
        }
      }
    }
  };

  std::vector<std::unique_ptr<file>> files;
  std::map<std::string, std::vector<int>>
      names;  // files of which the disk has one, -1: none; the last is the present one
  std::string boot = "this boot";
  uint64_t calls = 0;
  std::function<int(const char* call)> before;  // answers an error number, with which the call is refused
  std::function<void(const char* call)> after;

  static disk* here;  // the one that calls go to

  int file_of(const std::string& name) const {
    const auto there = names.find(name);
    return there == names.end() ? -1 : there->second.back();
  }
  void lead(const std::string& name, int to) {
    const auto there = names.try_emplace(name, std::vector<int>{-1}).first;
    there->second.push_back(to);
  }
  void note() {
    for (const auto& f : files) f->note();
  }
  void unlock_all() {  // as when the process ends
    for (const auto& f : files) f->locked_by = -1;
    handles_.clear();
  }

  // What a crash may leave: which file each name leads to, and of each such file a size and the contents of its sectors.
  struct choice {
    std::vector<size_t> digits, bases;
    bool next() {  // false: it was the last one
      for (size_t i = 0; i < digits.size(); ++i) {
        if (++digits[i] < bases[i]) return true;
        digits[i] = 0;
      }
      return false;
    }
    double many() const {
      double n = 1;
      for (const size_t b : bases) n *= double(b);
      return n;
    }
  };
  choice names_left() const {
    choice c;
    for (const auto& [name, to] : names) c.bases.push_back(to.size());
    c.digits.assign(c.bases.size(), 0);
    return c;
  }
  // Of a file that has not got its name, the header alone matters.
  choice files_left(const choice& leads) const {
    choice c;
    size_t i = 0;
    for (const auto& [name, to] : names) {
      const int f = to[leads.digits[i++]];
      if (f < 0) continue;
      c.bases.push_back(files[f]->sizes.size());
      const bool whole = name.find(".new") == std::string::npos;
      for (size_t s = 0; s < files[f]->sectors.size(); ++s)
        c.bases.push_back(whole || s == 0 ? files[f]->sectors[s].size() : 1);
    }
    c.digits.assign(c.bases.size(), 0);
    return c;
  }
  void leave(const choice& leads, const choice& contents, disk* image) const {
    size_t i = 0, digit = 0;
    for (const auto& [name, to] : names) {
      const int f = to[leads.digits[i++]];
      if (f < 0) continue;
      const file& from = *files[f];
      auto copy = std::make_unique<file>();
      const size_t bytes = from.sizes[contents.digits[digit++]];
      copy->grow(bytes);
      for (size_t s = 0; s < from.sectors.size(); ++s) {
        const sector& kept = from.sectors[s][contents.digits[digit++]];
        if (s * sector_bytes < copy->bytes) memcpy(copy->memory + s * sector_bytes, kept.data(), sector_bytes);
      }
      copy->note();
      copy->sync(0, bytes, true);
      copy->sizes = {bytes};
      image->names[name] = {int(image->files.size())};
      image->files.push_back(std::move(copy));
    }
  }

  // The process is killed: what the system has in memory stays.
  void leave_all(disk* image) const {
    image->boot = boot;
    for (const auto& [name, to] : names) {
      if (to.back() < 0) continue;
      const file& from = *files[size_t(to.back())];
      auto copy = std::make_unique<file>();
      copy->grow(from.bytes);
      if (from.bytes) memcpy(copy->memory, from.memory, from.bytes);
      image->names[name] = {int(image->files.size())};
      image->files.push_back(std::move(copy));
    }
  }

  static const disk_api api;

 private:
  std::vector<int> handles_;  // files; -1: the folder
  static constexpr int first_handle = 1000;

  static disk& d() { return *here; }
  file& of(int fd) { return *files[size_t(handles_[size_t(fd - first_handle)])]; }
  static int refused(int e) {
    errno = e;
    return -1;
  }
  // Call `name` of the system, which answers an error number or 0.
  template <class Does>
  static int call(const char* name, Does does) {
    disk& mine = d();
    ++mine.calls;
    mine.note();
    int e = mine.before ? mine.before(name) : 0;
    e = does(mine, e);
    mine.note();
    if (mine.after) mine.after(name);
    return e ? refused(e) : 0;
  }
  int new_handle(int f) {
    handles_.push_back(f);
    return first_handle + int(handles_.size()) - 1;
  }
  static int open_file(const char* path, int flags) {
    int fd = -1;
    const bool folder = flags & O_DIRECTORY;
    const int failed = call(folder ? "open a folder" : "open", [&](disk& m, int e) {
      if (e) return e;
      int f = folder ? -1 : m.file_of(path);
      if (!folder && f >= 0 && flags & O_EXCL) return EEXIST;
      if (!folder && f < 0 && !(flags & O_CREAT)) return ENOENT;
      if (!folder && f < 0) {
        f = int(m.files.size());
        m.files.push_back(std::make_unique<file>());
        m.lead(path, f);
      }
      fd = m.new_handle(f);
      return 0;
    });
    return failed ? -1 : fd;
  }
  static int lock(int fd, int how) {
    return call(how & LOCK_UN ? "unlock" : "flock", [&](disk& m, int e) {
      file& f = m.of(fd);
      if (e) return e;
      if (how & LOCK_UN) return f.locked_by = -1, 0;
      if (f.locked_by >= 0 && f.locked_by != fd) return EWOULDBLOCK;
      f.locked_by = fd;
      return 0;
    });
  }
  static void about(const disk& m, int f, struct stat* out) {
    *out = {};
    out->st_ino = ino_t(f + 1);
    out->st_size = off_t(m.files[size_t(f)]->bytes);
  }
  static int sync_pages(void* p, uint64_t n) {
    return call("msync", [&](disk& m, int e) {
      for (const auto& f : m.files) {
        const auto* const at = static_cast<unsigned char*>(p);
        if (at < f->memory || at >= f->memory + f->bytes) continue;
        f->sync(size_t(at - f->memory), size_t(at - f->memory) + n, !e);
      }
      return e;
    });
  }
  static int sync_file(int fd) {
    const bool folder = d().handles_[size_t(fd - first_handle)] < 0;
    return call(folder ? "fsync of a folder" : "fsync", [&](disk& m, int e) {
      if (folder) {
        if (!e)
          for (auto& [name, to] : m.names) to = {to.back()};
        return e;
      }
      file& f = m.of(fd);
      f.sync(0, f.bytes, !e);
      if (!e) f.sizes = {f.bytes};
      return e;
    });
  }
  static int move(const char* from, const char* to, bool replaces) {
    return call("rename", [&](disk& m, int e) {
      const int f = m.file_of(from);
      if (e) return e;
      if (f < 0) return ENOENT;
      if (!replaces && m.file_of(to) >= 0) return EEXIST;
      m.lead(to, f);
      m.lead(from, -1);
      return 0;
    });
  }
};

inline disk* disk::here = nullptr;

inline const disk_api disk::api = {
    .open = disk::open_file,
    .close =
        [](int fd) {
          return call("close", [&](disk& m, int e) {
            const int f = m.handles_[size_t(fd - first_handle)];
            if (f >= 0 && m.of(fd).locked_by == fd) m.of(fd).locked_by = -1;
            return e;
          });
        },
    .flock = disk::lock,
    .fstat =
        [](int fd, struct stat* out) {
          return call("fstat", [&](disk& m, int e) {
            if (!e) about(m, m.handles_[size_t(fd - first_handle)], out);
            return e;
          });
        },
    .stat =
        [](const char* path, struct stat* out) {
          return call("stat", [&](disk& m, int e) {
            const int f = m.file_of(path);
            if (!e && f >= 0) about(m, f, out);
            return e ? e : f < 0 ? ENOENT : 0;
          });
        },
    .read = [](int fd, void* to, size_t n) -> ssize_t {
      const int failed = call("read", [&](disk& m, int e) {
        if (e) return e;
        n = std::min(n, m.of(fd).bytes);
        if (n) memcpy(to, m.of(fd).memory, n);
        return 0;
      });
      return failed ? -1 : ssize_t(n);
    },
    .empty =
        [](int fd) {
          return call("truncate", [&](disk& m, int e) {
            if (e) return e;
            m.of(fd).grow(0);
            m.of(fd).sizes.push_back(0);
            return 0;
          });
        },
    .allocate =
        [](int fd, uint64_t n) {
          return call("allocate",
                      [&](disk& m, int e) {
                        if (e) return e;
                        m.of(fd).grow(n);
                        m.of(fd).sizes.push_back(n);
                        return 0;
                      })
                     ? errno
                     : 0;
        },
    .map = [](int fd, uint64_t) -> void* {
      return call("map", [](disk&, int e) { return e; }) ? MAP_FAILED : d().of(fd).memory;
    },
    .unmap = [](void*, uint64_t) { return call("unmap", [](disk&, int e) { return e; }); },
    .msync = disk::sync_pages,
    .fsync = disk::sync_file,
    .rename = [](const char* from, const char* to) { return move(from, to, true); },
    .rename_to_nothing = [](const char* from, const char* to) { return move(from, to, false); },
    .unlink =
        [](const char* path) {
          return call("unlink", [&](disk& m, int e) {
            if (!e && m.file_of(path) >= 0) m.lead(path, -1);
            return e;
          });
        },
    .advise = [](void*, uint64_t, void*, uint64_t) {},
    .boot =
        [](disk_api::boot_id& id) {
          memset(id, 0, sizeof(id));
          d().boot.copy(id, sizeof(id) - 1);
        },
};

}  // namespace gpuhash::sim
