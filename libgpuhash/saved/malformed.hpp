// The exception that libgpuhash/saved throws where the bytes of a file are malformed; load.cpp turns it into a status.
#pragma once
#include <cstdarg>
#include <cstdio>

namespace gpuhash::saved {

struct malformed {
  char text[240];
};

[[noreturn, gnu::format(printf, 1, 2), gnu::cold]] inline void refuse(const char* format, ...) {
  malformed m;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(m.text, sizeof m.text, format, arguments);
  va_end(arguments);
  throw m;
}

}  // namespace gpuhash::saved
