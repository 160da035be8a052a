// Is a file fit to be given to the dynamic linker? See shared_object.hpp.
#include "libgpuhash/src/shared_object.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpuhash {
namespace {

// Bytes that the file must have for its headers and segments to be complete; 0 when its first bytes are not those of a
// shared object of this platform's word size.
uint64_t bytes_needed(int fd) {
  ElfW(Ehdr) header;
  constexpr int our_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (pread(fd, &header, sizeof header, 0) != ssize_t{sizeof header} ||
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != our_class ||
      header.e_type != ET_DYN || header.e_phentsize != sizeof(ElfW(Phdr)))
    return 0;
  uint64_t end = header.e_phoff + uint64_t{header.e_phnum} * sizeof(ElfW(Phdr));
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) segment;
    const auto at = static_cast<off_t>(header.e_phoff + i * sizeof segment);
    if (pread(fd, &segment, sizeof segment, at) != ssize_t{sizeof segment}) return UINT64_MAX;
    uint64_t segment_end;
    if (__builtin_add_overflow(uint64_t{segment.p_offset}, uint64_t{segment.p_filesz}, &segment_end)) return UINT64_MAX;
    if (segment.p_type == PT_LOAD) end = std::max(end, segment_end);
  }
  return end;
}

}  // namespace

gpuhash_status check_shared_object(const char* path, gpuhash_error* err) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return fail(err, errno == ENOENT || errno == ENOTDIR ? GPUHASH_NOT_FOUND : GPUHASH_PLUGIN_ERROR,
                "module '%s' cannot be read: %s", path, std::strerror(errno));
  struct stat file;
  const bool is_file = fstat(fd, &file) == 0 && S_ISREG(file.st_mode);
  const uint64_t needed = is_file ? bytes_needed(fd) : 0;
  close(fd);
  if (!is_file) return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' is not a file", path);
  if (needed == 0) return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' is not a shared object", path);
  if (needed > uint64_t(file.st_size))
    return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' is cut short: it ends after %lld bytes", path,
                static_cast<long long>(file.st_size));
  return GPUHASH_OK;
}

}  // namespace gpuhash
