// A table of stadium in a file: slots and ticket-board, mapped into memory.
//
//   | header, one page | ticket-board, whole pages | slots, whole pages |
//
// What was written survives the process, since the system's page cache holds it: after a kill, every published ticket has
// its pair. It does not survive the machine, which writes pages back in any order. So the header says whether the file was
// closed, and on which boot of which machine it was opened last.
//
//   F1  One table at a time has the file open: its file description holds flock(LOCK_EX).
//   F2  A file under its own name is a whole table. A new or larger one is written beside it, under the name with ".new",
//       and takes the name by rename(), from no file but the one that its table had.
//   F3  All blocks of a file are allocated before it is mapped, so that a full disk is an error of open, and not a signal
//       in the middle of a batch.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <string>

#include "layout.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

struct file_header {
  static constexpr char right_magic[16] = "gpuhash.stadium";
  static constexpr uint32_t right_version = 1;
  enum : uint32_t { closed = 1, open_for_writing = 2, being_made = 3 };

  char magic[16];
  uint32_t version;
  uint32_t state;
  uint32_t key_bytes, value_bytes;
  uint16_t log_bits;
  uint16_t log_line;    // 0 in files of before there were lines
  uint32_t path_limit;  // groups; 0: all of them
  uint64_t seed;
  uint64_t groups;
  uint64_t bytes;       // of the file
  char boot[40];        // of the system, when it was opened
  uint64_t sum;         // of all that is before it but for state and boot
  char elements[2048];  // what the caller has said of keys and values, cut off here; empty: nothing

  uint64_t checksum() const {
    file_header fixed = *this;
    fixed.state = 0;
    memset(fixed.boot, 0, sizeof(fixed.boot));
    uint64_t h = 0x9e3779b97f4a7c15ull;
    const unsigned char* const p = reinterpret_cast<const unsigned char*>(&fixed);
    for (size_t i = 0; i < offsetof(file_header, sum); ++i) h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
  }
};

class table_file {
 public:
  static constexpr uint64_t page = 4096;
  static_assert(sizeof(file_header) <= page);
  static constexpr uint64_t pages(uint64_t bytes) { return (bytes + page - 1) / page * page; }
  static uint64_t bytes_for(const stadium_table& t) {
    return page + pages(t.groups * sizeof(u64)) + pages(t.cells() * t.stride);
  }

  table_file() = default;
  table_file(const table_file&) = delete;
  table_file& operator=(const table_file&) = delete;
  ~table_file() {
    if (base_) munmap(base_, bytes_);
    if (temporary_) unlink((path_ + ".new").c_str());
    if (fd_ < 0) return;
    flock(fd_, LOCK_UN);  // also of the descriptors that children of this process have inherited
    ::close(fd_);
  }

  // A new file beside `path`, with no key in it. publish() gives it its name. before: the file that it will replace, if any.
  gpuhash_status create(const std::string& path, const std::string& elements, const stadium_table& t,
                        const table_file* before, gpuhash_error* err) {
    path_ = path;
    if (before) refusal_ = GPUHASH_NO_MEMORY;  // no argument of the call is at fault
    const std::string name = path + ".new";
    fd_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) return failed(err, "cannot be created", name.c_str(), errno);
    if (flock(fd_, LOCK_EX | LOCK_NB)) return in_use(err, name.c_str());
    if (!is_left_over())
      return host->fail(err, refusal_,
                        "%s is where a new table is written, and holds something else; move it away, or name another "
                        "file",
                        name.c_str());
    temporary_ = true;
    if (ftruncate(fd_, 0)) return failed(err, "cannot be emptied", name.c_str(), errno);
    const uint64_t bytes = bytes_for(t);
    if (const int e = allocate(bytes)) {
      if (e != ENOSPC && e != EDQUOT && e != EFBIG) return failed(err, "cannot be written", name.c_str(), e);
      return host->fail(err, GPUHASH_NO_MEMORY,
                        "%s: no space left for %llu bytes (%s: %s); free some, or put the table elsewhere. What was "
                        "there before is as it was",
                        name.c_str(), (unsigned long long)bytes,
                        e == ENOSPC   ? "ENOSPC"
                        : e == EDQUOT ? "EDQUOT"
                                      : "EFBIG",
                        strerror(e));
    }
    if (const gpuhash_status s = map(bytes, name.c_str(), err)) return s;
    file_header& h = header();
    memcpy(h.magic, file_header::right_magic, sizeof(h.magic));
    h.version = file_header::right_version;
    h.key_bytes = t.key_bytes;
    h.value_bytes = t.value_bytes;
    h.log_bits = uint16_t(t.log_bits);
    h.log_line = uint16_t(t.log_line);
    h.path_limit = t.path_limit < t.groups && t.path_limit <= UINT32_MAX ? uint32_t(t.path_limit) : 0;
    h.seed = t.seed;
    h.groups = t.groups;
    h.bytes = bytes;
    h.sum = h.checksum();
    elements.copy(h.elements, sizeof(h.elements) - 1);
    begin_writing(file_header::being_made);
    return GPUHASH_OK;
  }
  gpuhash_status publish(const table_file* before, gpuhash_error* err) {
    const std::string name = path_ + ".new";
    if (before && !before->has_its_name())
      return host->fail(err, refusal_, "%s is another file by now, which is left as it is; move it away to go on",
                        path_.c_str());
    if (before ? rename(name.c_str(), path_.c_str()) : rename_to_nothing(name.c_str(), path_.c_str()))
      return failed(err, "cannot be given its name", path_.c_str(), errno);
    temporary_ = false;
    header().state = file_header::open_for_writing;
    return GPUHASH_OK;
  }

  // A file that is there. t, elements: what the caller asks for, completed by what the file says. *killed: it was not closed, on this
  // boot; *lost: on another one.
  gpuhash_status open(const std::string& path, std::string* elements, stadium_table* t, bool* killed, bool* lost,
                      gpuhash_error* err) {
    path_ = path;
    const char* const name = path_.c_str();
    fd_ = ::open(name, O_RDWR | O_CLOEXEC);
    if (fd_ < 0) return failed(err, "cannot be opened", name, errno);
    if (flock(fd_, LOCK_EX | LOCK_NB)) return in_use(err, name);
    struct stat about;
    struct stat named;
    if (fstat(fd_, &about) || stat(name, &named)) return failed(err, "cannot be looked at", name, errno);
    if (about.st_ino != named.st_ino) return in_use(err, name);  // its table has grown into another file meanwhile
    file_header h{};
    const ssize_t n = pread(fd_, &h, sizeof(h), 0);
    if (n < ssize_t(sizeof(h.magic)) || memcmp(h.magic, file_header::right_magic, sizeof(h.magic)))
      return host->fail(err, GPUHASH_INVALID_ARGUMENT, "%s is not a table of stadium; name another file", name);
    if (n >= ssize_t(offsetof(file_header, state)) && h.version != file_header::right_version)
      return host->fail(err, GPUHASH_UNSUPPORTED, "%s has version %u of the format, this library reads version %u",
                        name, h.version, file_header::right_version);
    if (n < ssize_t(sizeof(h)) || h.sum != h.checksum())
      return host->fail(err, GPUHASH_CORRUPT, "%s has a damaged header; restore the file from a copy", name);
    if (uint64_t(about.st_size) != h.bytes)
      return host->fail(
          err, GPUHASH_CORRUPT,
          "%s has %llu bytes, and its header says %llu: it was cut short or added to; restore it from a copy", name,
          (unsigned long long)about.st_size, (unsigned long long)h.bytes);
    if (h.key_bytes != t->key_bytes || h.value_bytes != t->value_bytes)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "%s holds keys of %u bytes and values of %u, and %u and %u are asked for", name, h.key_bytes,
                        h.value_bytes, t->key_bytes, t->value_bytes);
    h.elements[sizeof(h.elements) - 1] = 0;
    if (h.elements[0] && !elements->empty() && elements->compare(0, sizeof(h.elements) - 1, h.elements))
      return host->fail(err, GPUHASH_INVALID_ARGUMENT, "%s holds %s, and %s are asked for", name, h.elements,
                        elements->c_str());
    if (h.elements[0]) *elements = h.elements;
    if (h.log_bits != t->log_bits)
      return host->fail(err, GPUHASH_INVALID_ARGUMENT,
                        "%s has tickets of %u bits, and %u are asked for: pass ticket=%u", name, 1u << h.log_bits,
                        1u << t->log_bits, 1u << h.log_bits);
    t->seed = h.seed;
    t->log_line = h.log_line;
    t->groups = h.groups;
    t->path_limit = h.path_limit && h.path_limit < h.groups ? h.path_limit : h.groups;
    char now[sizeof(h.boot)];
    read_boot(now);
    *killed = h.state != file_header::closed && now[0] && !memcmp(h.boot, now, sizeof(now));
    *lost = h.state != file_header::closed && !*killed;
    return map(h.bytes, name, err);
  }

  // From here on the file is not closed, whatever happens.
  void begin_writing(uint32_t state = file_header::open_for_writing) {
    read_boot(header().boot);
    header().state = state;
    msync(base_, page, MS_SYNC);
  }
  // Everything is on the disk, and then the word that it is.
  void close() {
    if (!base_ || temporary_) return;
    if (msync(base_, bytes_, MS_SYNC)) return;  // the next one to open it is told
    header().state = file_header::closed;
    msync(base_, page, MS_SYNC);
  }

  u64* tickets() const { return reinterpret_cast<u64*>(static_cast<char*>(base_) + page); }
  void* slots() const { return static_cast<char*>(base_) + page + pages(header().groups * sizeof(u64)); }
  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  file_header& header() const { return *static_cast<file_header*>(base_); }

  // Is the open file nothing but what a table left that was killed before it gave the file its name?
  bool is_left_over() const {
    file_header h{};
    const ssize_t n = pread(fd_, &h, sizeof(h), 0);
    if (n <= 0) return n == 0;
    if (!memcmp(h.magic, file_header{}.magic, sizeof(h.magic))) return true;  // its blocks were allocated, no more
    return !memcmp(h.magic, file_header::right_magic, sizeof(h.magic)) &&
           (h.state == 0 || h.state == file_header::being_made);
  }
  // Does the path name this file, or none?
  bool has_its_name() const {
    struct stat mine;
    struct stat named;
    if (stat(path_.c_str(), &named)) return errno == ENOENT;
    return !fstat(fd_, &mine) && mine.st_dev == named.st_dev && mine.st_ino == named.st_ino;
  }
  // rename(), but not over a file that has come to be there meanwhile.
  static int rename_to_nothing(const char* from, const char* to) {
#ifdef RENAME_NOREPLACE
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE)) return 0;
    if (errno != EINVAL && errno != ENOSYS) return -1;  // what file systems answer that cannot do so
#endif
    struct stat there;
    if (!lstat(to, &there)) {
      errno = EEXIST;
      return -1;
    }
    return rename(from, to);
  }

  gpuhash_status map(uint64_t bytes, const char* name, gpuhash_error* err) {
    void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    if (p == MAP_FAILED) return failed(err, "cannot be mapped", name, errno);
    base_ = p;
    bytes_ = bytes;
    madvise(slots(), pages_of_slots(), MADV_RANDOM);  // a slot's neighbours are nobody's next slot
    // Tickets stay in memory as far as the process may lock it (RLIMIT_MEMLOCK); they are touched so often that they stay
    // there without, as a rule.
    mlock(tickets(), header().groups * sizeof(u64));
    return GPUHASH_OK;
  }
  uint64_t pages_of_slots() const { return bytes_ - page - pages(header().groups * sizeof(u64)); }

  // All blocks of the file (F3). A file system that cannot do so at once is asked for its free space first, rather than
  // filled to the brim.
  int allocate(uint64_t bytes) const {
    struct statvfs space;
    if (bytes > uint64_t(INT64_MAX)) return EFBIG;
    if (!fstatvfs(fd_, &space) && space.f_frsize && space.f_bavail < bytes / space.f_frsize) return ENOSPC;
    return posix_fallocate(fd_, 0, off_t(bytes));
  }
  static void read_boot(char (&boot)[40]) {
    memset(boot, 0, sizeof(boot));
    const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (read(fd, boot, sizeof(boot) - 1) < 0) memset(boot, 0, sizeof(boot));
    ::close(fd);
  }
  gpuhash_status failed(gpuhash_error* err, const char* how, const char* name, int e) const {
    return host->fail(err, e == ENOMEM ? GPUHASH_NO_MEMORY : refusal_, "%s %s: %s", name, how, strerror(e));
  }
  gpuhash_status in_use(gpuhash_error* err, const char* name) const {
    return host->fail(err, refusal_, "%s is open in another table, of this process or another one; close that first",
                      name);
  }

  int fd_ = -1;
  void* base_ = nullptr;
  uint64_t bytes_ = 0;
  std::string path_;
  bool temporary_ = false;                             // it has not got its name yet
  gpuhash_status refusal_ = GPUHASH_INVALID_ARGUMENT;  // of files that cannot be had
};

}  // namespace gpuhash
