/* gpuhash for programs whose arrays lie on the host while their table is on a GPU: a batch goes through pinned memory in
 * chunks, with copies in both directions beside the kernels.
 *
 *     gpuhash_slot slots[6] = {{host, device, uploaded, downloaded}, ...};
 *     gpuhash_staging staging = GPUHASH_STAGING_INIT;
 *     staging.slots = slots, staging.n_slots = 6, staging.slot_bytes = 10 << 20;
 *     staging.up = one_stream, staging.down = another;
 *     gpuhash_batch batch = GPUHASH_BATCH_INIT;
 *     batch.op = GPUHASH_OP_FIND, batch.n = n, batch.keys = keys, batch.out_values = values, batch.out_status = found;
 *     gpuhash_run_staged(table, &batch, &staging, &error);           // returns when the results are in the arrays
 *
 * The memory of the slots, the two streams and the events are the caller's, who keeps them for the next batch: to pin
 * memory takes as long as to copy it several times. What bounds a batch is the larger of the bytes up and the bytes down
 * over the bus, and what the host's threads copy, since every byte passes through the host's memory once more. */
#ifndef GPUHASH_STAGING_H
#define GPUHASH_STAGING_H

#include <gpuhash/gpuhash.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory of one chunk on both sides. Each slot is used by one chunk at a time, so that as many chunks are under way as
 * there are slots. Slots share no memory. */
typedef struct gpuhash_slot {
  void *host;     /* pinned memory. With pageable memory copies do not run beside anything */
  void *device;   /* of the table's device, aligned to 8 bytes; ready for what is queued on `up` */
  void *uploaded; /* CUevents of the device; those with CU_EVENT_DISABLE_TIMING are faster */
  void *downloaded;
} gpuhash_slot;

/* The functions of the CUDA driver that a staged batch calls, as cuda.h declares them; each answers 0 or the driver's
 * error, event_query 600 where the event has not happened. run is gpuhash_run, or a function around it. All are needed, and
 * none throws. For tests without a device, where the table may be on the CPU, and for programs that watch what is queued. */
typedef struct gpuhash_staging_calls {
  size_t struct_size;
  int (*memcpy_async)(uintptr_t to, uintptr_t from, size_t bytes, void *stream);
  int (*memset_async)(uintptr_t to, unsigned char byte, size_t bytes, void *stream);
  int (*event_record)(void *event, void *stream);
  int (*event_query)(void *event);
  int (*event_synchronize)(void *event);
  int (*stream_wait_event)(void *stream, void *event, unsigned flags);
  int (*stream_synchronize)(void *stream);
  int (*stream_is_capturing)(void *stream, int *status);
  gpuhash_status (*run)(gpuhash_table *table, const gpuhash_batch *batch, gpuhash_error *err);
} gpuhash_staging_calls;

enum gpuhash_staging_flag {
  GPUHASH_STAGING_NEW_VALUES = 1, /* batch.out_values is memory that nobody has written to: its pages are brought in */
  GPUHASH_STAGING_NEW_STATUS = 2, /* so is batch.out_status */
  GPUHASH_STAGING_PAST_CACHES = 4 /* results are written past the caches: they are more than those hold */
};
#define GPUHASH_MOST_SLOTS 16

typedef struct gpuhash_staging {
  size_t struct_size;
  const gpuhash_slot *slots;
  uint32_t n_slots; /* 1 to GPUHASH_MOST_SLOTS; 6 are as many as are of use */
  uint32_t flags;   /* GPUHASH_STAGING_NEW_VALUES, ... */
  /* Of each slot, on each side. A chunk is of at most (slot_bytes - 1280) / b elements, where b are the bytes of an element in
   * all arrays that the batch has; that is 1 at least. */
  size_t slot_bytes;
  void *up, *down; /* two streams of the device, made with CU_STREAM_NON_BLOCKING and used for nothing else meanwhile */
  size_t most_keys;  /* of a chunk; 0: as many as a slot holds */
  size_t first_keys; /* of the first and the last chunk, whose copies nothing runs beside, at most; 0: 2^18 */
  /* Values on the device, the same for each chunk, which has at most most_keys elements; batch.values is NULL then. Or NULL. */
  const void *device_values;
  /* Called by the calling thread before each chunk is launched, with the number of elements that are done so far; an answer
   * other than 0 ends the batch. It must not throw. May be NULL. */
  int32_t (*tell)(void *context, size_t done, size_t n);
  void *context;
  const gpuhash_staging_calls *calls; /* NULL: those of the CUDA driver, and gpuhash_run */
  /* Set by the call. */
  size_t done;       /* the first so many elements have had their turn, and their results are in the arrays */
  uint32_t in_doubt; /* 1: the device failed, and what was queued may still use slots, events and device_values */
} gpuhash_staging;
#define GPUHASH_STAGING_INIT {sizeof(gpuhash_staging), NULL, 0, 0, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, 0, 0}

/* Carry out a batch whose arrays are memory of the host, on a table of a GPU, whose context is current. Chunks are carried out
 * one after the other, each as gpuhash_run would. Arrays, and what is refused, are those of gpuhash_run for a table on the
 * CPU, but that batch.out_status is needed, and op codes that execute does not have are refused before anything is done;
 * batch.stream is not being captured.
 *   - FULL, NO_MEMORY: some elements found no room; all others are carried out.
 *   - A batch that was refused has done 0, and no array was written to.
 *   - A batch may end before its last element: by `tell` (INVALID_ARGUMENT), by an error of the table, of the device. The
 *     first staging->done elements are as their statuses say; all others have the status GPUHASH_ELEMENT_NO_MEMORY. If the
 *     device failed, some of these may have been carried out. */
GPUHASH_API gpuhash_status gpuhash_run_staged(gpuhash_table *table, const gpuhash_batch *batch,
                                              gpuhash_staging *staging, gpuhash_error *err);

#ifdef __cplusplus
}
#endif
#endif
