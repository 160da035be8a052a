// Structs that cross the C ABI. Each begins with struct_size and only ever grows at its end, so a caller may have been
// compiled against an older or a newer header than this library.
#pragma once

#include <algorithm>
#include <cstring>

#include "libgpuhash/src/error.hpp"

namespace gpuhash {

/// No version of a struct is longer: a larger struct_size is memory that the caller did not initialise.
constexpr size_t longest_struct = 4096;

/// Copy the caller's input struct into `to`. A struct shorter than `least` bytes (its size in version 0.1) was not
/// initialised. In a longer one, fields that this library does not know must be zero: they ask for something that it
/// cannot do.
template <class Struct>
gpuhash_status read_struct(const Struct* from, Struct& to, const char* name, const char* initializer, size_t least,
                           gpuhash_error* err) {
  if (from == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "%s is NULL", name);
  const size_t size = from->struct_size;
  if (size < least)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%s: struct_size is %zu, at least %zu is needed; initialise it with %s",
                name, size, least, initializer);
  if (size > longest_struct)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%s: struct_size is %zu, which no version has; initialise it with %s",
                name, size, initializer);
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(Struct); i < size; ++i)
    if (bytes[i] != 0)
      return fail(err, GPUHASH_UNSUPPORTED, "%s: byte %zu is set, but this library (version %d.%d.%d) knows %zu bytes",
                  name, i, GPUHASH_VERSION_MAJOR, GPUHASH_VERSION_MINOR, GPUHASH_VERSION_PATCH, sizeof(Struct));
  std::memcpy(&to, from, std::min(size, sizeof(Struct)));
  to.struct_size = sizeof(Struct);
  return GPUHASH_OK;
}

/// Check an output struct before any work is done for it.
template <class Struct>
gpuhash_status check_output(const Struct* out, const char* name, gpuhash_error* err) {
  if (out == nullptr) return fail(err, GPUHASH_INVALID_ARGUMENT, "%s is NULL", name);
  if (out->struct_size < sizeof(out->struct_size) || out->struct_size > longest_struct)
    return fail(err, GPUHASH_INVALID_ARGUMENT, "%s: struct_size is %zu; set it to sizeof(*%s)", name, out->struct_size,
                name);
  return GPUHASH_OK;
}

/// Copy `from` to the caller's struct, as much as both know; what only the caller knows becomes zero. struct_size
/// stays the caller's.
template <class Struct>
void write_struct(Struct* out, const Struct& from) {
  const size_t size = out->struct_size, common = std::min(size, sizeof(Struct));
  auto* bytes = reinterpret_cast<unsigned char*>(out);
  std::memcpy(bytes + sizeof(size_t), reinterpret_cast<const unsigned char*>(&from) + sizeof(size_t),
              common - sizeof(size_t));
  std::memset(bytes + common, 0, size - common);
}

/// Write defaults to a caller's struct of struct_size bytes, whatever was in it.
template <class Struct>
void init_struct(Struct* out, size_t struct_size, const Struct& defaults) {
  if (out == nullptr || struct_size < sizeof(out->struct_size) || struct_size > longest_struct) return;
  out->struct_size = struct_size;
  write_struct(out, defaults);
}

}  // namespace gpuhash
