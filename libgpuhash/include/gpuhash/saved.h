/* gpuhash for programs that keep their tables: a table is written to where a callback puts it, and is read from where
 * another one takes it.
 *
 *     gpuhash_saved_writer to = {put, file};                         // int put(void *file, const void *data, size_t bytes)
 *     gpuhash_table_save(table, NULL, &to, &error);
 *
 *     gpuhash_saved_reader from = {get, file, size};                 // at any offset
 *     gpuhash_config config = GPUHASH_CONFIG_INIT;
 *     config.backend = NULL;                                         // the structure that was saved
 *     gpuhash_table_load(&config, &from, &table, &error);
 *
 * What is written is a file of Arrow IPC with the columns "key" and "value", in blocks with checksums; docs/saved.md has all
 * of it. pygpuhash.load reads it, and so do pyarrow, polars and duckdb; gpuhash_table_load reads what Table.save writes, if
 * its keys and values are numbers of 4 or 8 bytes, times, or rows and bytes whose size is a multiple of 4, uncompressed.
 *
 * The table is read in parts (gpuhash_export_part), so that saving needs memory for one block beside it, and loading for
 * the largest block of the file. Both are for tables of the CPU; the pairs of one on CUDA go through gpuhash_export_part. */
#ifndef GPUHASH_SAVED_H
#define GPUHASH_SAVED_H

#include <gpuhash/gpuhash.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The next bytes, after those of the call before. 0: all were taken; any other number ends gpuhash_table_save, which says
 * it in its message. Making the file the one that a name leads to, and having it on the disk, is the caller's. */
typedef struct gpuhash_saved_writer {
  int (*write)(void *context, const void *data, size_t bytes);
  void *context;
} gpuhash_saved_writer;

/* So many bytes at an offset, all of which lie below size. 0: they are there; any other number ends gpuhash_table_load. */
typedef struct gpuhash_saved_reader {
  int (*read)(void *context, uint64_t offset, void *to, size_t bytes);
  void *context;
  uint64_t size; /* of the whole file */
} gpuhash_saved_reader;

/* What elements of 4 and 8 bytes are to other programs. Wider ones are lists of uint32. */
typedef struct gpuhash_saved_types {
  size_t struct_size;
  uint32_t key_type, value_type; /* GPUHASH_UINT, _INT or _FLOAT */
  size_t block_bytes;            /* of pairs in memory at a time; 0: 16 MiB */
} gpuhash_saved_types;
#define GPUHASH_SAVED_TYPES_INIT {sizeof(gpuhash_saved_types), GPUHASH_UINT, GPUHASH_UINT, 0}

/* Write all pairs, as they are at one moment. types may be NULL. INVALID_ARGUMENT if the table is written to meanwhile, or
 * if the writer refuses: what was written then is no file. UNSUPPORTED on CUDA, and for backends without export_part. */
GPUHASH_API gpuhash_status gpuhash_table_save(gpuhash_table *table, const gpuhash_saved_types *types,
                                              const gpuhash_saved_writer *writer, gpuhash_error *err);

/* A table with the pairs of a file. Of config backend may be NULL, for the file's; key_bytes and value_bytes are those of
 * the file, whatever they are here; capacity is what is needed at least. Nothing in the file is trusted: a file that is
 * broken is CORRUPT, and the message says in which part ("block 3 of 7"); a foreign one is INVALID_ARGUMENT; a newer or a
 * compressed one is UNSUPPORTED. A backend of the file is a name, never a path. */
GPUHASH_API gpuhash_status gpuhash_table_load(const gpuhash_config *config, const gpuhash_saved_reader *reader,
                                              gpuhash_table **out, gpuhash_error *err);

#ifdef __cplusplus
}
#endif
#endif
