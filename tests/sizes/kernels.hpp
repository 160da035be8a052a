// Sizes of kernels in small, for emulated warps (tests/warp, tests/hive, tests/slab_hash): batches of a few hundred
// elements meet all that large ones do. A test that needs another size defines GPUHASH_OWN_SIZES, which come first.
#pragma once

#ifndef GPUHASH_OWN_SIZES
#define GPUHASH_OWN_SIZES
#endif

// clang-format off
#define GPUHASH_SIZES GPUHASH_OWN_SIZES \
  /* bulk batches */ \
  {"cuda.partition_threads", 64}, {"cuda.sample_size", 128}, {"cuda.sample_threads", 64}, {"cuda.bin_slack", 0}, \
  {"cuda.slice_at_most", 900}, {"cuda.cache_bytes", 64}, {"cuda.partition_each", 4}, {"cuda.chained_at_most", 16}, \
  {"cuda.most_bins", 8}, {"cuda.serve_threads", 64}, {"cuda.own_threads", 64}, {"cuda.loads_at_once", 2}, \
  {"cuda.combine_threads", 32}, {"cuda.combine_bytes", 1024}, {"cuda.rest_share", 20}, {"cuda.rest_few", 0}, \
  {"cuda.partition_slots_wanted", 128}, {"parts_least", 1}, {"parts_all_least", 1}, \
  {"cuda.few_repeats", 40} /* a small batch is sampled twice in places */, \
  /* linear_probe: its rebuild */ \
  {"cuda.moved_bytes", 1024}, {"cuda.move_threads", 32}, {"cuda.moved_at_once", 2}, {"cuda.moved_least", 128}, \
  {"cuda.left_room_share", 16}, \
  /* skiplist */ \
  {"cuda.join_rounds_least", 2}, {"cuda.most_subranges", 400}, {"cuda.first_piece", 100}, \
  /* stadium: rows are put into order piece by piece, and windows joined */ \
  {"cuda.list_chunk", 300}, {"cuda.windows_at_once", 16}, {"cuda.window_part", 48}, {"cuda.rows_at_least", 64}, \
  {"cuda.rows_at_most", 128}, \
  /* columns: both passes from 1,025 rows on, counts by halves of words from 2,049 on, the count between passes from 4,097 on
     (of two columns, from half as many others on), a sample from 256 on, chunks of a few rows */ \
  {"cuda.group_threads", 64}, {"cuda.group_dividers", 64}, {"cuda.group_servers", 64}, {"cuda.group_slots", 512}, \
  {"cuda.group_each", 4}, {"cuda.group_pass_bits", 2}, {"cuda.group_counted_bits", 3}, {"cuda.group_halves_bits", 4}, {"cuda.group_half_bits", 10}, {"cuda.group_frequent", 64}, \
  {"cuda.group_few", 64}, {"cuda.group_few_from", 20}, {"cuda.group_few_probes", 8}, {"cuda.group_sample", 64}, {"cuda.group_long_run", 100}, {"cuda.group_few_rows", 400}, {"cuda.group_several", 1}, \
  {"cuda.isin_table", 3000}, \
  /* joins: lists that a warp, a block and a block in pieces sort, lengths before them, and more than are listed */ \
  {"cuda.group_of_warp", 64}, {"cuda.group_listed", 1024}, {"cuda.group_list_bits", 27}, \
  /* columns of bytes: rows of a thread, of a warp and of the grid; strips of one or two tiles */ \
  {"cuda.bytes_by_thread", 2}, {"cuda.bytes_by_warp", 40}, {"cuda.bytes_strips", 5}, \
  /* columns by shard: tiles of 256 rows, up to 40 strips, and two passes from 17 shards on */ \
  {"cuda.shard_threads", 64}, {"cuda.shard_each", 4}, {"cuda.shard_bits", 4}, {"cuda.shard_blocks", 20}
// clang-format on
