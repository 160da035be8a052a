// A table of stadium in a file: slots and ticket-board, mapped into memory.
//
//   | header, one page | ticket-board, whole pages | slots, whole pages |
//
// What was written survives the process, since the system's page cache holds it: after a kill, every published ticket has
// its pair. It does not survive the machine, which writes pages back in any order, or in part. So the header says whether
// the file was closed, and on which boot of which machine it was opened last.
//
//   F1  One table at a time has the file open: its file description holds flock(LOCK_EX).
//   F2  A file under its own name is a whole table. A new or larger one is written beside it, under the name with ".new",
//       and takes the name by rename(), from no file but the one that its table had.
//   F3  All blocks of a file are allocated before it is mapped, so that a full disk is an error of open, and not a signal
//       in the middle of a batch.
//   F4  What the disk has (docs/adr/0025): a file has all its pages there before it takes its name, and the folder has the
//       name before the file is open for writing; the disk knows that a file is open before any of its pages changes; and
//       all pages are there before the word `closed`. Where the disk refuses one of these steps, the next one is not taken.
#pragma once
#include <string>

#include "disk.hpp"
#include "layout.hpp"
#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

struct file_header {
  static constexpr char right_magic[16] = "gpuhash.stadium";
  static constexpr uint32_t right_version = 1;
  enum : uint32_t {
    closed = 1,
    open_for_writing = 2,
    being_made = 3,    // or its name may not be on the disk
    torn = 4,          // its pages may be of different ages, whatever the boot: a close or a repair came to no end
    being_cleared = 8  // a bit beside one of the others
  };

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

  explicit table_file(const disk_api& disk) : disk_(disk) {}
  table_file(const table_file&) = delete;
  table_file& operator=(const table_file&) = delete;
  ~table_file() {
    if (base_) disk_.unmap(base_, bytes_);
    if (temporary_) disk_.unlink((path_ + ".new").c_str());
    if (fd_ < 0) return;
    disk_.flock(fd_, LOCK_UN);  // also of the descriptors that children of this process have inherited
    disk_.close(fd_);
  }

  // A new file beside `path`, with no key in it. publish() gives it its name. before: the file that it will replace, if any.
  gpuhash_status create(const std::string& path, const std::string& elements, const stadium_table& t,
                        const table_file* before, gpuhash_error* err) {
    path_ = path;
    if (before) refusal_ = GPUHASH_NO_MEMORY;  // no argument of the call is at fault
    const std::string name = path + ".new";
    fd_ = disk_.open(name.c_str(), O_RDWR | O_CREAT | O_EXCL);
    temporary_ = fd_ >= 0;
    if (fd_ < 0 && errno == EEXIST) fd_ = disk_.open(name.c_str(), O_RDWR | O_CREAT);
    if (fd_ < 0) return failed(err, "cannot be created", name.c_str(), errno);
    if (const int e = lock()) {
      temporary_ = temporary_ && e != EWOULDBLOCK;
      return not_locked(err, name.c_str(), e);
    }
    holder named;
    if (const int e = holder_of(name, &named)) return failed(err, "cannot be looked at", name.c_str(), e);
    temporary_ = temporary_ && named == holder::this_file;
    if (named != holder::this_file) return in_use(err, name.c_str());  // it has become another table's file meanwhile
    bool left_over = temporary_;
    if (const int e = left_over ? 0 : look_for_left_over(&left_over))
      return failed(err, "cannot be read", name.c_str(), e);
    if (!left_over)
      return host->fail(err, refusal_,
                        "%s is where a new table is written, and holds something else; move it away, or name another "
                        "file",
                        name.c_str());
    temporary_ = true;
    if (disk_.empty(fd_)) return failed(err, "cannot be emptied", name.c_str(), errno);
    const uint64_t bytes = bytes_for(t);
    if (const int e = disk_.allocate(fd_, bytes)) {
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
    write_header(elements, t);
    advise();
    return GPUHASH_OK;
  }
  // Where this fails, the file that has the name is as it was.
  gpuhash_status publish(const table_file* before, gpuhash_error* err) {
    const std::string name = path_ + ".new";
    if (sync_all()) return failed(err, "cannot be written", name.c_str(), errno);
    const int folder = open_folder();
    if (folder < 0)
      return failed(err, "cannot be given its name, since its folder cannot be opened", name.c_str(), errno);
    holder named = holder::none;
    if (const int e = before ? before->holder_of(path_, &named) : 0) {
      disk_.close(folder);
      return failed(err, "cannot be looked at", path_.c_str(), e);
    }
    if (named == holder::another) {
      disk_.close(folder);
      return host->fail(err, refusal_, "%s is another file by now, which is left as it is; move it away to go on",
                        path_.c_str());
    }
    if ((before ? disk_.rename : disk_.rename_to_nothing)(name.c_str(), path_.c_str())) {
      const int e = errno;
      disk_.close(folder);
      return failed(err, "cannot be given its name", path_.c_str(), e);
    }
    temporary_ = false;
    name_error_ = sync_and_close(folder);
    if (!name_error_) header().state = file_header::open_for_writing;
    if (!name_error_ || before) return GPUHASH_OK;
    disk_.unlink(path_.c_str());
    return failed(err, "cannot be given its name", path_.c_str(), name_error_);
  }
  // After publish: the file has its name, but has the disk?
  gpuhash_status has_kept_name(gpuhash_error* err) const {
    if (!name_error_) return GPUHASH_OK;
    return host->fail(err, refusal_,
                      "%s: the table was rebuilt, and goes on in its new file, whose name could not be written to the "
                      "disk: %s. Until a later flush or close can do so, a crash of the system may bring back the file "
                      "of before",
                      path_.c_str(), strerror(name_error_));
  }

  // A file that is there. t, elements: what the caller asks for, completed by what the file says. *killed: it was not
  // closed, on this boot; *lost: on another one, or its pages may be of different ages for another reason.
  gpuhash_status open(const std::string& path, std::string* elements, stadium_table* t, bool* killed, bool* lost,
                      gpuhash_error* err) {
    path_ = path;
    const char* const name = path_.c_str();
    fd_ = disk_.open(name, O_RDWR);
    if (fd_ < 0) return failed(err, "cannot be opened", name, errno);
    if (const int e = lock()) return not_locked(err, name, e);
    struct stat about;
    holder named;
    if (disk_.fstat(fd_, &about)) return failed(err, "cannot be looked at", name, errno);
    if (const int e = holder_of(path_, &named)) return failed(err, "cannot be looked at", name, e);
    if (named != holder::this_file) return in_use(err, name);  // its table has grown into another file meanwhile
    file_header h{};
    const ssize_t n = disk_.read(fd_, &h, sizeof(h));
    if (n < 0) return failed(err, "cannot be read", name, errno);
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
    disk_api::boot_id now;
    disk_.boot(now);
    const bool same_boot = now[0] && !memcmp(h.boot, now, sizeof(now));
    *killed = h.state != file_header::closed && h.state != file_header::torn && same_boot;
    *lost = h.state != file_header::closed && !*killed;
    if (const gpuhash_status s = map(h.bytes, name, err)) return s;
    advise();
    return GPUHASH_OK;
  }

  gpuhash_status refuse_lost(gpuhash_error* err) const {
    return host->fail(
        err, GPUHASH_CORRUPT,
        "%s was not closed before %s, so parts of it may be older than others; pass repair=1 to keep every "
        "pair whose ticket agrees with its key, or restore it from a copy",
        path_.c_str(),
        header().state == file_header::torn ? "the disk refused to write it, or its repair was cut off"
                                            : "the system went down");
  }

  // Marks the file as open: from here on it is not closed, whatever happens, and the disk has that. lost: as open() has
  // said; it stays so until the pairs are in another file. If this fails, no pair has changed.
  gpuhash_status begin_writing(bool lost, gpuhash_error* err) {
    file_header& h = header();
    const file_header before = h;
    const bool was_closed = before.state == file_header::closed;
    if (const int e = was_closed ? 0 : sync_folder())
      return failed(err, "lies in a folder that cannot be synced", path_.c_str(), e);
    if (before.state & file_header::being_cleared && !lost) memset(tickets(), 0, h.groups * sizeof(u64));
    if (!lost) disk_.boot(h.boot);  // a torn file is one on every boot
    __atomic_store_n(&h.state, uint32_t(lost ? file_header::torn : file_header::open_for_writing), __ATOMIC_SEQ_CST);
    if (!disk_.msync(base_, page)) return GPUHASH_OK;
    const int e = errno;
    // Pages that a killed table has left in memory may be among those that the disk has refused.
    h = before;
    if (!was_closed) h.state = file_header::torn;
    return failed(err, "cannot be written", path_.c_str(), e);
  }
  // Writes everything to the disk, and then the state that says so. The next open learns from the state whether that
  // went well.
  void close() {
    if (!base_ || temporary_ || header().state == file_header::torn) return;
    const bool refused = sync_all();
    if (!refused && name_error_ && sync_folder()) return;
    header().state = refused ? file_header::torn : file_header::closed;
    disk_.msync(base_, page);
  }
  // All tickets become `never`. A table that is killed meanwhile has a part of its keys, some of which no path leads to.
  template <class Clear>
  void clear(Clear clear_tickets) {
    uint32_t* const state = &header().state;
    const uint32_t before = *state;
    __atomic_store_n(state, before | file_header::being_cleared, __ATOMIC_SEQ_CST);
    clear_tickets();
    __atomic_store_n(state, before, __ATOMIC_SEQ_CST);
  }

  u64* tickets() const { return reinterpret_cast<u64*>(static_cast<char*>(base_) + page); }
  void* slots() const { return static_cast<char*>(base_) + page + pages(header().groups * sizeof(u64)); }
  uint64_t bytes() const { return bytes_; }
  const std::string& path() const { return path_; }

 private:
  file_header& header() const { return *static_cast<file_header*>(base_); }

  void write_header(const std::string& elements, const stadium_table& t) {
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
    h.bytes = bytes_;
    h.sum = h.checksum();
    elements.copy(h.elements, sizeof(h.elements) - 1);
    disk_.boot(h.boot);
    h.state = file_header::being_made;
  }

  // Is the open file nothing but what a table left that was killed before it gave the file its name? Answers an error
  // number.
  int look_for_left_over(bool* left_over) const {
    file_header h{};
    const ssize_t n = disk_.read(fd_, &h, sizeof(h));
    if (n < 0) return errno;
    const bool empty = !memcmp(h.magic, file_header{}.magic, sizeof(h.magic));  // its blocks were allocated, no more
    const bool was_made = !memcmp(h.magic, file_header::right_magic, sizeof(h.magic)) &&
                          (h.state == 0 || (h.state & ~file_header::being_cleared) == file_header::being_made);
    *left_over = n == 0 || empty || was_made;
    return 0;
  }
  int lock() const { return disk_.flock(fd_, LOCK_EX | LOCK_NB) ? errno : 0; }
  // Finds the file that a name leads to. Answers an error number.
  enum class holder { none, this_file, another };
  int holder_of(const std::string& name, holder* out) const {
    struct stat mine;
    struct stat named;
    *out = holder::none;
    if (disk_.stat(name.c_str(), &named)) return errno == ENOENT ? 0 : errno;
    if (disk_.fstat(fd_, &mine)) return errno;
    *out = mine.st_dev == named.st_dev && mine.st_ino == named.st_ino ? holder::this_file : holder::another;
    return 0;
  }

  // All pages and the size of the file are on the disk. Not 0: errno says why not.
  int sync_all() const { return disk_.msync(base_, bytes_) ? -1 : disk_.fsync(fd_); }
  // The folder has the names on the disk that it has in memory. Answers an error number.
  int sync_folder() const {
    const int folder = open_folder();
    return folder < 0 ? errno : sync_and_close(folder);
  }
  int open_folder() const {
    const size_t slash = path_.rfind('/');
    const std::string name = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
    return disk_.open(name.c_str(), O_RDONLY | O_DIRECTORY);
  }
  int sync_and_close(int folder) const {
    const int e = disk_.fsync(folder) ? errno : 0;
    disk_.close(folder);
    return e == EINVAL ? 0 : e;  // some file systems cannot be asked
  }

  gpuhash_status map(uint64_t bytes, const char* name, gpuhash_error* err) {
    void* const p = disk_.map(fd_, bytes);
    if (p == MAP_FAILED) return failed(err, "cannot be mapped", name, errno);
    base_ = p;
    bytes_ = bytes;
    return GPUHASH_OK;
  }
  void advise() const {
    const uint64_t ticket_bytes = header().groups * sizeof(u64);
    disk_.advise(tickets(), ticket_bytes, slots(), bytes_ - page - pages(ticket_bytes));
  }
  gpuhash_status failed(gpuhash_error* err, const char* how, const char* name, int e) const {
    return host->fail(err, e == ENOMEM ? GPUHASH_NO_MEMORY : refusal_, "%s %s: %s", name, how, strerror(e));
  }
  gpuhash_status not_locked(gpuhash_error* err, const char* name, int e) const {
    return e == EWOULDBLOCK ? in_use(err, name) : failed(err, "cannot be locked", name, e);
  }
  gpuhash_status in_use(gpuhash_error* err, const char* name) const {
    return host->fail(err, refusal_, "%s is open in another table, of this process or another one; close that first",
                      name);
  }

  const disk_api& disk_;
  int fd_ = -1;
  void* base_ = nullptr;
  uint64_t bytes_ = 0;
  std::string path_;
  bool temporary_ = false;                             // it has not got its name yet
  int name_error_ = 0;                                 // why the disk does not have the name
  gpuhash_status refusal_ = GPUHASH_INVALID_ARGUMENT;  // of files that cannot be had
};

}  // namespace gpuhash
