/* Expectations of the C test programs. A failed one is printed with its line; finish() is the exit status. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <string.h>

#include "gpuhash/gpuhash.h"

static int expectations, failures;
static gpuhash_error err = GPUHASH_ERROR_INIT; /* the last call's */

static inline void expect_status(int line, const char *call, gpuhash_status want, const char *sentence,
                                 gpuhash_status got) {
  ++expectations;
  const char *message = got == GPUHASH_OK ? "" : err.message;
  const int ends = memchr(err.message, 0, sizeof err.message) != NULL;
  const int agrees = got == want && (got == GPUHASH_OK || err.code == got) && ends && strstr(message, sentence) != NULL;
  if (!agrees) {
    ++failures;
    printf("line %d: %s\n  wanted %s with \"%s\"\n  got    %s (err.code %d) with \"%s\"\n", line, call,
           gpuhash_status_name(want), sentence, gpuhash_status_name(got), (int)err.code, message);
  }
  err = (gpuhash_error)GPUHASH_ERROR_INIT;
}

static inline void expect_true(int line, const char *text, int holds) {
  ++expectations;
  if (holds) return;
  ++failures;
  printf("line %d: %s does not hold\n", line, text);
}

/* The call, which must pass &err, is refused with this code and a message that contains the sentence. */
#define REFUSED(code, sentence, call) expect_status(__LINE__, #call, code, sentence, call)
#define OK(call) expect_status(__LINE__, #call, GPUHASH_OK, "", call)
#define EXPECT(condition) expect_true(__LINE__, #condition, condition)

static inline int finish(void) {
  printf("%d expectations, %d failed\n", expectations, failures);
  return failures != 0;
}

#endif
