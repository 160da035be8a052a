// Is a file fit to be given to the dynamic linker? See shared_object.hpp.
#include "libgpuhash/src/shared_object.hpp"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

namespace gpuhash {
namespace {

#if defined(__x86_64__)
constexpr unsigned our_machine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned our_machine = EM_AARCH64;
#elif defined(__powerpc64__)
constexpr unsigned our_machine = EM_PPC64;
#elif defined(__riscv)
constexpr unsigned our_machine = EM_RISCV;
#else
constexpr unsigned our_machine = EM_NONE;  // not compared: the dynamic linker will
#endif
constexpr int our_class = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
constexpr int our_order = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_386: return "32-bit x86";
    case EM_X86_64: return "x86-64";
    case EM_ARM: return "32-bit Arm";
    case EM_AARCH64: return "AArch64";
    case EM_PPC64: return "POWER";
    case EM_RISCV: return "RISC-V";
    case EM_S390: return "S/390";
  }
  return "ELF machine " + std::to_string(machine);
}

// The header, and what is wrong with it: "" if it is that of a shared object for this machine.
std::string read_header(int fd, ElfW(Ehdr) & header) {
  std::memset(&header, 0, sizeof header);
  const ssize_t got = pread(fd, &header, sizeof header, 0);
  if (got == 0) return "is empty";
  if (got < ssize_t{SELFMAG} || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return "is not a shared object";
  if (got != ssize_t{sizeof header}) return "is cut short: it ends after " + std::to_string(got) + " bytes";
  const bool ours = header.e_ident[EI_CLASS] == our_class && header.e_ident[EI_DATA] == our_order;
  const bool known = header.e_ident[EI_CLASS] != ELFCLASSNONE && header.e_ident[EI_DATA] != ELFDATANONE;
  if (known && header.e_machine != EM_NONE && our_machine != EM_NONE && (!ours || header.e_machine != our_machine))
    return "is built for another machine (" + machine_name(header.e_machine) + "); this one is " +
           machine_name(our_machine);
  if (!ours || header.e_type != ET_DYN || header.e_phentsize != sizeof(ElfW(Phdr))) return "is not a shared object";
  return {};
}

// Bytes that the file must have for its headers and segments to be complete.
uint64_t bytes_needed(int fd, const ElfW(Ehdr) & header) {
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

// What is wrong with an open file, or "".
std::string fault_of(int fd) {
  struct stat file;
  if (fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return "is not a file";
  ElfW(Ehdr) header;
  std::string fault = read_header(fd, header);
  if (fault.empty() && bytes_needed(fd, header) > uint64_t(file.st_size))
    fault = "is cut short: it ends after " + std::to_string(file.st_size) + " bytes";
  return fault;
}

// Where a link that leads nowhere points to; "" for anything else.
std::string dangling_target(const char* path) {
  char target[256];
  const ssize_t length = readlink(path, target, sizeof target);
  return length > 0 ? std::string(target, size_t(length)) : std::string();
}

}  // namespace

gpuhash_status check_shared_object(const char* path, gpuhash_error* err) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const int code = errno;
    const bool missing = code == ENOENT || code == ENOTDIR;
    const std::string target = missing ? dangling_target(path) : std::string();
    if (!target.empty())
      return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' is a link to '%s', which does not exist", path,
                  target.c_str());
    return fail(err, missing ? GPUHASH_NOT_FOUND : GPUHASH_PLUGIN_ERROR, "module '%s' cannot be read: %s", path,
                std::strerror(code));
  }
  std::string fault;
  try {
    fault = fault_of(fd);
  } catch (...) {
    close(fd);
    throw;
  }
  close(fd);
  if (fault.empty()) return GPUHASH_OK;
  return fail(err, GPUHASH_PLUGIN_ERROR, "module '%s' %s", path, fault.c_str());
}

}  // namespace gpuhash
