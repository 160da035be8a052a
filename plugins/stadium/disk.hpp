// disk_api: the calls of the system that a table in a file makes, besides stores into its mapped pages. Tests replace
// it: tests/stadium has one that records and fails these calls, and knows what a crash of the system leaves behind.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace gpuhash {

// A call answers -1 and sets errno where the system has refused it, unless another answer is named.
struct disk_api {
  using boot_id = char[40];

  int (*open)(const char* path, int flags);
  int (*close)(int fd);
  int (*flock)(int fd, int how);
  int (*fstat)(int fd, struct stat* about);
  int (*stat)(const char* path, struct stat* about);
  ssize_t (*read)(int fd, void* to, size_t bytes);  // from the file's beginning
  int (*empty)(int fd);                             // cut a file off at its beginning
  int (*allocate)(int fd, uint64_t bytes);          // all blocks of a file; answers an error number
  void* (*map)(int fd, uint64_t bytes);             // answers MAP_FAILED
  int (*unmap)(void* p, uint64_t bytes);
  int (*msync)(void* p, uint64_t bytes);  // pages of a mapping are on the disk when this returns,
  int (*fsync)(int fd);                   // and here the size of a file, or the names in a folder
  int (*rename)(const char* from, const char* to);
  int (*rename_to_nothing)(const char* from, const char* to);  // not over a file that has come to be there
  int (*unlink)(const char* path);
  void (*advise)(void* tickets, uint64_t ticket_bytes, void* slots, uint64_t slot_bytes);  // how a mapping is used
  void (*boot)(boot_id& id);  // of the running system; empty: it has none
};

namespace disk_detail {

inline int rename_to_nothing(const char* from, const char* to) {
#ifdef RENAME_NOREPLACE
  if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE)) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;  // what file systems answer that cannot do so
#endif
  struct stat there;
  if (!lstat(to, &there)) {
    errno = EEXIST;
    return -1;
  }
  return ::rename(from, to);
}

// A file system that cannot allocate at once is asked for its free space first, rather than filled to the brim.
inline int allocate(int fd, uint64_t bytes) {
  struct statvfs space;
  if (bytes > uint64_t(INT64_MAX)) return EFBIG;
  if (!fstatvfs(fd, &space) && space.f_frsize && space.f_bavail < bytes / space.f_frsize) return ENOSPC;
  int e;
  do e = posix_fallocate(fd, 0, off_t(bytes));
  while (e == EINTR);  // a signal to the process says nothing about the disk
  return e;
}

inline void boot(disk_api::boot_id& id) {
  memset(id, 0, sizeof(id));
  const int fd = ::open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (::read(fd, id, sizeof(id) - 1) < 0) memset(id, 0, sizeof(id));
  ::close(fd);
}

// After a slot no operation reads its neighbours. Tickets stay in memory as far as the process may lock it (RLIMIT_MEMLOCK);
// they are touched so often that they stay there without, as a rule.
inline void advise(void* tickets, uint64_t ticket_bytes, void* slots, uint64_t slot_bytes) {
  madvise(slots, slot_bytes, MADV_RANDOM);
  mlock(tickets, ticket_bytes);
}

}  // namespace disk_detail

inline constexpr disk_api system_disk = {
    .open = [](const char* path, int flags) { return ::open(path, flags | O_CLOEXEC, 0666); },
    .close = [](int fd) { return ::close(fd); },
    .flock = [](int fd, int how) { return ::flock(fd, how); },
    .fstat = [](int fd, struct stat* about) { return ::fstat(fd, about); },
    .stat = [](const char* path, struct stat* about) { return ::stat(path, about); },
    .read = [](int fd, void* to, size_t bytes) { return ::pread(fd, to, bytes, 0); },
    .empty = [](int fd) { return ::ftruncate(fd, 0); },
    .allocate = disk_detail::allocate,
    .map = [](int fd, uint64_t n) { return ::mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0); },
    .unmap = [](void* p, uint64_t bytes) { return ::munmap(p, bytes); },
    .msync = [](void* p, uint64_t bytes) { return ::msync(p, bytes, MS_SYNC); },
    .fsync = [](int fd) { return ::fsync(fd); },
    .rename = [](const char* from, const char* to) { return ::rename(from, to); },
    .rename_to_nothing = disk_detail::rename_to_nothing,
    .unlink = [](const char* path) { return ::unlink(path); },
    .advise = disk_detail::advise,
    .boot = disk_detail::boot,
};

}  // namespace gpuhash
