// Functions that the fuzz targets share: bytes read as numbers, modules that are open, and how a finding is reported.
#pragma once
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "gpuhash/gpuhash.h"

// Ends the program, which libFuzzer takes for a finding.
[[noreturn]] __attribute__((format(printf, 1, 2))) inline void wrong(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  abort();
}

// The input, taken from the front; zeros when it is used up.
struct bytes {
  const uint8_t* at;
  size_t left;

  uint8_t byte() { return left ? (--left, *at++) : 0; }
  uint64_t number(size_t width) {
    uint64_t n = 0;
    for (size_t i = 0; i < width; ++i) n |= uint64_t(byte()) << 8 * i;
    return n;
  }
  // Up to a zero byte.
  std::string text() {
    std::string s;
    while (left) {
      const char c = char(byte());
      if (c == 0) break;
      s += c;
    }
    return s;
  }
};

// A failed call has a code and a sentence that ends within its buffer.
inline void expect_explained(gpuhash_status status, const gpuhash_error& err) {
  if (status == GPUHASH_OK) return;
  if (err.code != status || err.message[0] == 0 || !memchr(err.message, 0, sizeof(err.message)))
    wrong("status %d without a sentence", status);
}

// The backends of GPUHASH_FUZZ_MODULES, opened once.
inline const std::vector<gpuhash_backend_info>& backends() {
  static const std::vector<gpuhash_backend_info> all = [] {
    std::vector<gpuhash_backend_info> found;
    const char* given = getenv("GPUHASH_FUZZ_MODULES");
    if (given == nullptr) wrong("GPUHASH_FUZZ_MODULES names no modules");
    std::string rest = given;
    while (!rest.empty()) {
      const std::string path = rest.substr(0, rest.find(':'));
      rest.erase(0, path.size() + 1);
      gpuhash_backend_info info{};
      info.struct_size = sizeof(info);
      gpuhash_error err = GPUHASH_ERROR_INIT;
      if (gpuhash_backend_open(path.c_str(), &info, &err) != GPUHASH_OK) wrong("%s", err.message);
      found.push_back(info);
    }
    return found;
  }();
  return all;
}

// Memory for one table or allocator, but never much of it, so that any capacity may be asked for.
struct little_memory {
  size_t left = size_t(32) << 20;

  gpuhash_memory resource() { return {sizeof(gpuhash_memory), this, take, give}; }
  static void* take(void* self, size_t n, size_t alignment, void*) {
    size_t& left = static_cast<little_memory*>(self)->left;
    if (n > left) return nullptr;
    left -= n;
    return aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
  }
  static void give(void* self, void* p, size_t n, size_t, void*) {
    static_cast<little_memory*>(self)->left += n;
    free(p);
  }
};
