/* Expectations of the C test programs. A failed one is printed with its line; finish() is the exit status. */
#ifndef EXPECT_H
#define EXPECT_H

#include <stdio.h>
#include <string.h>

#include "gpuhash/gpuhash.h"

static int expectations, failures;
/* The last call's. Before each it says what none of them says. */
#define STALE_ERROR {sizeof(gpuhash_error), GPUHASH_CORRUPT, "what an earlier call said"}
static gpuhash_error err = STALE_ERROR;

static inline void expect_status(int line, const char *call, gpuhash_status want, const char *sentence,
                                 gpuhash_status got) {
  ++expectations;
  const char *message = err.message;
  const int ends = memchr(err.message, 0, sizeof err.message) != NULL;
  const int told = strstr(call, "err") == NULL || (err.code == got && (got == GPUHASH_OK) == (message[0] == 0));
  const int agrees = got == want && told && ends && (got == GPUHASH_OK || strstr(message, sentence) != NULL);
  if (!agrees) {
    ++failures;
    printf("line %d: %s\n  wanted %s with \"%s\"\n  got    %s (err.code %d) with \"%s\"\n", line, call,
           gpuhash_status_name(want), sentence, gpuhash_status_name(got), (int)err.code, message);
  }
  err = (gpuhash_error)STALE_ERROR;
}

static inline void expect_true(int line, const char *text, int holds) {
  ++expectations;
  if (holds) return;
  ++failures;
  printf("line %d: %s does not hold\n", line, text);
}

/* The call, which must pass &err, is refused with this code and a message that contains the sentence. */
#define REFUSED(code, sentence, call) expect_status(__LINE__, #call, code, sentence, call)
/* The call is OK; if it passes &err, that says so too, whatever was in it before. */
#define OK(call) expect_status(__LINE__, #call, GPUHASH_OK, "", call)
#define EXPECT(condition) expect_true(__LINE__, #condition, condition)

static inline int finish(void) {
  printf("%d expectations, %d failed\n", expectations, failures);
  return failures != 0;
}

#endif
