// Reading a backend's key=value options. The host has refused unknown keys already; values are the backend's matter.
#pragma once
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <charconv>

#include "libgpuhash/kit/table.hpp"

namespace gpuhash {

inline const char* option_text(const gpuhash_config& c, const char* key) {
  const char* value = nullptr;  // the last one given counts
  for (size_t i = 0; i < c.n_options; ++i)
    if (!strcmp(c.options[i].key, key)) value = c.options[i].value;
  return value;
}

// One of the words of choices ("multiply|mask"): its position in *out. An absent option leaves *out alone.
inline gpuhash_status option_word(const gpuhash_config& c, const char* key, const char* choices, uint32_t* out,
                                  gpuhash_error* err) {
  const char* text = option_text(c, key);
  if (!text) return GPUHASH_OK;
  const size_t length = strlen(text);
  uint32_t position = 0;
  for (const char* p = choices;; ++position) {
    const char* end = strchr(p, '|');
    const size_t n = end ? size_t(end - p) : strlen(p);
    if (n == length && !memcmp(p, text, n)) return *out = position, GPUHASH_OK;
    if (!end) break;
    p = end + 1;
  }
  return host->fail(err, GPUHASH_INVALID_ARGUMENT, "option %s=%s: choose one of %s", key, text, choices);
}

// A number of low..high, a power of two if pow2.
inline gpuhash_status option_number(const gpuhash_config& c, const char* key, uint64_t low, uint64_t high, bool pow2,
                                    uint64_t* out, gpuhash_error* err) {
  const char* text = option_text(c, key);
  if (!text) return GPUHASH_OK;
  char* end = nullptr;
  errno = 0;
  const unsigned long long n = strtoull(text, &end, 10);
  if (errno || end == text || *end || *text == '-' || n < low || n > high || (pow2 && (n & (n - 1))))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "option %s=%s: give a whole number%s from %llu to %llu", key, text,
                      pow2 ? ", a power of two," : "", (unsigned long long)low, (unsigned long long)high);
  return *out = n, GPUHASH_OK;
}

// A real number of low..high. The decimal point is a point in every locale, as the callers that write options assume.
inline gpuhash_status option_real(const gpuhash_config& c, const char* key, double low, double high, double* out,
                                  gpuhash_error* err) {
  const char* text = option_text(c, key);
  if (!text) return GPUHASH_OK;
  double x = 0;
  const auto [end, fault] = std::from_chars(text, text + strlen(text), x);
  if (fault != std::errc() || *end || !(x >= low && x <= high))
    return host->fail(err, GPUHASH_INVALID_ARGUMENT, "option %s=%s: give a number from %g to %g", key, text, low, high);
  return *out = x, GPUHASH_OK;
}

}  // namespace gpuhash
