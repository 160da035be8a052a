// -Dsizes=smallest: sizes that bound loops over elements, as small as they may be. tests/sizes/test_sizes.py compares the
// names with the sources.
#pragma once

// clang-format off
#define GPUHASH_SIZES \
  {"divided_chunk", 64}, {"divided_piece", 1}, {"estimate_least", 2}, {"picked", 1}, {"rebuild_step", 1}, \
  {"most_parts", 1}, {"looked_up_least", 1}, {"status_part", 1}, {"alone_part", 1}, {"parts_least", 1}, \
  {"parts_all_least", 1}, {"hive_step", 1}, {"hive_segments", 2}, {"hive_walk", 1}, {"least_behind", 1}, \
  {"least_behind_on_cuda", 1}, {"refused_slice", 1}, \
  {"lone_batch", 0}, {"cut.alone", 0}, {"cut.least", 1}, {"cut.most", 1}, \
  {"block_size", 1}, {"blocks_ahead", 1}, {"blocks_joined", 1}, {"combined_least", 1}, {"sorted_least", 1}, \
  {"chunk_by_kind", 1}, {"leaving_pairs", 64}, {"leaving_slots", 32}, \
  {"leaders", 4}, {"leaders_step", 4}, {"cached", 16}, {"few", 16}, {"keys_of_few", 1}, {"log_cached", 2}, {"log_few", 1}, \
  {"host_parts", 1}, {"divided_at_once", 1}, {"divided_least", 1}, {"divided_least_share", 1}, {"divided_table", 1}, \
  {"estimated", 2}, {"few_distinct", 1}, {"counted_at_once", 1}, {"newcomer_sample", 1}, {"small_table", 1}, \
  {"few_keys_of_batch", 1}, {"lone_share", 1024}, {"turns_in_a_crowd", 1}, \
  {"hashed_tries", 1}, {"units_in_hand", 1 << 14}, \
  {"any_of", 1}, {"copied", 64}, {"staged_first", 1}, {"index_block", 1}, {"index_group", 1}, {"index_piece", 1}, {"index_slice", 1}, {"index_alone", 1}, {"large_array", 1}, {"large_page", 4096}, \
  {"few_keys_of_index", 1}, {"encoded_rows", 1}, {"members", 1}, {"members_block", 1}, {"members_share", 1}, {"members_rows", 0}, \
  {"window_slots", 32}, {"window_over", 32}, {"rebuilt_alone", 1}, {"window_buckets", 1}, \
  {"look_share", 1}, {"second_victims", 1}, {"hive_retries", 1}, {"slots_at_once", 1}, {"turns_of_a_placing", 1}, \
  {"order_chunk", 1}, {"order_rounds", 1}, {"asked_ahead", 1}, {"pages_between", 0}, {"pages_looked_at", 1}, \
  {"walks", 1}, {"short_chunks", 1}, {"chunks_ahead", 1}, {"chunks_of_part", 1}, {"range_parts", 1}, {"long_range", 1}, \
  {"pairs_per_cut", 1}, {"built_pieces", 64}, {"built_piece", 1}, {"elements_ahead", 1}, {"least_built", 1}, \
  {"looks_left_out", 1}, {"sideways", 1}, \
  {"hash.block", 1}, {"hash.piece", 1}, {"hash.alone", 0}, {"partition.slice", 1}, \
  {"partition.far", 1}
// clang-format on
