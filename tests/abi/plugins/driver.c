/* A fake CUDA driver with the functions that the library calls. Compiled as libcuda.so.1, and found by LD_LIBRARY_PATH.
 *
 * FAKE_DEVICES     how many devices there are; 2 if it is not set
 * FAKE_INIT        what cuInit answers, FAKE_COUNT what cuDeviceGetCount does
 * -DWITHOUT_ATTRIBUTES leaves a function out, as an older driver would
 *
 * Memory is what a program has told of by fake_place(). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  uintptr_t begin, end;
  unsigned type;
  int managed, ordinal;
} places[8];
static int n_places;

int fake_inits, fake_questions;
void fake_place(const void *p, size_t bytes, unsigned type, int managed, int ordinal) {
  places[n_places].begin = (uintptr_t)p;
  places[n_places].end = (uintptr_t)p + bytes;
  places[n_places].type = type;
  places[n_places].managed = managed;
  places[n_places++].ordinal = ordinal;
}

static int from_environment(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : atoi(text);
}

int cuInit(unsigned flags) {
  ++fake_inits;
  return flags != 0 ? 1 : from_environment("FAKE_INIT", 0);
}
int cuGetErrorString(int code, const char **text) {
  *text = code == 999 ? NULL : "the fake refuses";
  return code == 999;
}
int cuDriverGetVersion(int *version) {
  *version = 13010;
  return 0;
}
int cuDeviceGetCount(int *count) {
  *count = from_environment("FAKE_DEVICES", 2);
  return from_environment("FAKE_COUNT", 0);
}
int cuDeviceGet(int *device, int ordinal) {
  *device = 40 + ordinal; /* no ordinal */
  return 0;
}
int cuDeviceGetName(char *name, int length, int device) {
  snprintf(name, (size_t)length, "fake %d", device);
  return 0;
}
int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  *bytes = ((size_t)device << 32) + 5;
  return 0;
}
#ifndef WITHOUT_ATTRIBUTES
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute * 100 + device; /* of cuda.h: 16 multiprocessors, 75 and 76 the compute capability */
  return from_environment("FAKE_ATTRIBUTE", 0) == attribute;
}
#endif
int cuPointerGetAttributes(unsigned n, int *attributes, void **values, unsigned long long pointer) {
  ++fake_questions;
  for (int i = 0; i < n_places; ++i) {
    if (pointer < places[i].begin || pointer >= places[i].end) continue;
    for (unsigned a = 0; a < n; ++a) {
      int *value = values[a];
      if (attributes[a] == 2) *value = (int)places[i].type; /* 1: host, 2: device */
      if (attributes[a] == 8) *value = places[i].managed;
      if (attributes[a] == 9) *value = places[i].ordinal;
    }
    return 0;
  }
  for (unsigned a = 0; a < n; ++a) *(int *)values[a] = attributes[a] == 9 ? -2 : 0; /* as the driver has it */
  return 0;
}

/* What staged batches call, all of it done at once. A stream and an event are any addresses but NULL. FAKE_FAILS is the name
 * of a function that answers 700, at its third call and all later ones. */
static int fails(const char *name) {
  static int asked;
  const char *failing = getenv("FAKE_FAILS");
  return failing != NULL && strcmp(failing, name) == 0 && ++asked > 2 ? 700 : 0;
}
int fake_copies, fake_capturing;
int cuMemcpyAsync(uintptr_t to, uintptr_t from, size_t bytes, void *stream) {
  if (fails("cuMemcpyAsync") != 0) return 700;
  memcpy((void *)to, (const void *)from, bytes);
  ++fake_copies;
  return stream == NULL;
}
int cuMemsetD8Async(uintptr_t to, unsigned char byte, size_t bytes, void *stream) {
  if (fails("cuMemsetD8Async") != 0) return 700;
  memset((void *)to, byte, bytes);
  return stream == NULL;
}
int cuEventRecord(void *event, void *stream) {
  (void)stream;
  return event == NULL ? 400 : fails("cuEventRecord");
}
int cuEventQuery(void *event) { return event == NULL ? 400 : fails("cuEventQuery"); }
int cuEventSynchronize(void *event) { return event == NULL ? 400 : 0; }
int cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
  (void)stream;
  return event == NULL || flags != 0 ? 400 : fails("cuStreamWaitEvent");
}
int cuStreamSynchronize(void *stream) { return stream == NULL ? 400 : fails("cuStreamSynchronize"); }
int cuStreamIsCapturing(void *stream, int *capturing) {
  (void)stream;
  *capturing = fake_capturing;
  return 0;
}
