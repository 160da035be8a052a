// What the programs of kernels on emulated warps share: how they say what is wrong, random numbers, and memory that notices
// what is written beside it.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "libgpuhash/hash/hash.hpp"

namespace warp_test {

inline std::string where;  // what runs, for messages

[[noreturn, gnu::format(printf, 1, 2)]] inline void wrong(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "wrong: %s: ", where.c_str());
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "\n");
  _Exit(1);
}
#define HOLDS(condition) (condition) ? void() : wrong("not %s (line %d)", #condition, __LINE__)

struct random_numbers {
  gpuhash::u64 state;
  gpuhash::u64 next() { return state = gpuhash::mix(gpuhash::u64(state + 0x9e3779b97f4a7c15u)); }
  gpuhash::u64 below(gpuhash::u64 n) { return next() % n; }
  std::string bytes(size_t n) {
    std::string s(n, 0);
    for (char& c : s) c = char(below(256));
    return s;
  }
};

// Memory with rubbish in it and around it, aligned as a device's is, or so many bytes further.
class memory {
 public:
  explicit memory(size_t bytes, size_t off = 0) : bytes_(bytes), off_(off), words_((bytes + off) / 8 + 128) { clear(); }
  memory(memory&&) = default;
  ~memory() {
    if (words_.empty()) return;  // they were moved
    for (const char* p : {begin() + off_ - 1, begin() + off_ + bytes_, begin() + off_ + bytes_ + 7})
      if (static_cast<unsigned char>(*p) != rubbish) wrong("memory beside an array was written");
  }
  char* data() { return begin() + off_; }
  template <class T>
  T* of() {
    return reinterpret_cast<T*>(data());
  }
  bool same(memory& other) { return memcmp(data(), other.data(), bytes_) == 0; }
  void clear() { memset(words_.data(), rubbish, words_.size() * 8); }

 private:
  static constexpr int rubbish = 0xab;
  char* begin() { return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(words_.data()) + 8 + 255) / 256 * 256); }
  size_t bytes_, off_;
  std::vector<gpuhash::u64> words_;
};

}  // namespace warp_test
