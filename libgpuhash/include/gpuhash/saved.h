/* gpuhash for programs that keep their tables in files: a table is saved through a callback that writes bytes, and
 * loaded through one that reads them.
 *
 *     gpuhash_saved_writer to = {put, file};                         // int put(void *file, const void *data, size_t bytes)
 *     gpuhash_table_save(table, NULL, &to, &error);
 *
 *     gpuhash_saved_reader from = {get, file, size};                 // at any offset
 *     gpuhash_config config = GPUHASH_CONFIG_INIT;
 *     config.backend = NULL;                                         // the structure that was saved
 *     gpuhash_table_load(&config, &from, &table, &error);
 *
 * The bytes are a file of Arrow IPC with the columns "key" and "value", in blocks with checksums (docs/saved.md).
 * pygpuhash.load, pyarrow, polars and duckdb read it. gpuhash_table_load reads files of Table.save that are not compressed
 * and whose keys and values are numbers of 4 or 8 bytes, times, or rows and bytes whose size is a multiple of 4.
 *
 * Saving reads the table in parts (gpuhash_export_part), so that it needs memory for one block beside the table; loading
 * needs memory for the largest block of the file. Both are for tables on the CPU; for CUDA, call gpuhash_export_part. */
#ifndef GPUHASH_SAVED_H
#define GPUHASH_SAVED_H

#include <gpuhash/gpuhash.h>

#ifdef __cplusplus
extern "C" {
#endif

/* write gets the next bytes of the file. It returns 0 when it took all of them; any other number ends gpuhash_table_save,
 * whose message says the number. Renaming the file and syncing it to the disk are left to the caller. */
typedef struct gpuhash_saved_writer {
  int (*write)(void *context, const void *data, size_t bytes);
  void *context;
} gpuhash_saved_writer;

/* read puts `bytes` bytes from an offset into `to`; all lie below size. 0: done; another number ends gpuhash_table_load. */
typedef struct gpuhash_saved_reader {
  int (*read)(void *context, uint64_t offset, void *to, size_t bytes);
  void *context;
  uint64_t size; /* of the whole file */
} gpuhash_saved_reader;

/* The types by which other programs read elements of 4 and 8 bytes. Wider elements are lists of uint32. */
typedef struct gpuhash_saved_types {
  size_t struct_size;
  uint32_t key_type, value_type; /* GPUHASH_UINT, _INT or _FLOAT */
  size_t block_bytes;            /* of the pairs in one block; 0: 16 MiB */
} gpuhash_saved_types;
#define GPUHASH_SAVED_TYPES_INIT {sizeof(gpuhash_saved_types), GPUHASH_UINT, GPUHASH_UINT, 0}

/* Write all pairs, as they are at one moment. types may be NULL. INVALID_ARGUMENT if a thread changes the table meanwhile,
 * or if the writer refuses: the bytes written so far are no file then. UNSUPPORTED: on CUDA, or without export_part. */
GPUHASH_API gpuhash_status gpuhash_table_save(gpuhash_table *table, const gpuhash_saved_types *types,
                                              const gpuhash_saved_writer *writer, gpuhash_error *err);

/* Make a table with the pairs of a file. config->backend may be NULL, for the file's; config's key_bytes and value_bytes
 * are ignored for the file's; the table gets room for config's capacity at least. No byte of the file is trusted: a broken
 * file is CORRUPT, and the message says in which part ("block 3 of 7"); a foreign file is INVALID_ARGUMENT; a newer or a
 * compressed file is UNSUPPORTED. The backend that a file names is a name, never a path. */
GPUHASH_API gpuhash_status gpuhash_table_load(const gpuhash_config *config, const gpuhash_saved_reader *reader,
                                              gpuhash_table **out, gpuhash_error *err);

#ifdef __cplusplus
}
#endif
#endif
