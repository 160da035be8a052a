// -Dsizes=odd: sizes that bound loops over elements, as primes, where they may be such. See smallest.hpp.
#pragma once

// clang-format off
#define GPUHASH_SIZES \
  {"divided_chunk", 509}, {"divided_piece", 61}, {"estimate_least", 67}, {"picked", 53}, {"rebuild_step", 101}, \
  {"most_parts", 3}, {"looked_up_least", 11}, {"status_part", 97}, {"alone_part", 89}, {"parts_least", 131}, \
  {"parts_all_least", 257}, {"hive_step", 3}, {"hive_segments", 3}, {"hive_walk", 7}, {"least_behind", 13}, \
  {"least_behind_on_cuda", 13}, {"refused_slice", 83}, \
  {"lone_batch", 17}, {"cut.alone", 17}, {"cut.least", 7}, {"cut.most", 23}, \
  {"block_size", 13}, {"blocks_ahead", 3}, {"blocks_joined", 3}, {"combined_least", 19}, {"sorted_least", 5}, \
  {"chunk_by_kind", 37}, {"leaving_pairs", 71}, {"leaving_slots", 41}, \
  {"leaders", 43}, {"leaders_step", 8}, {"cached", 59}, {"few", 83}, {"keys_of_few", 5}, {"log_cached", 5}, {"log_few", 3}, \
  {"host_parts", 7}, {"divided_at_once", 23}, {"divided_least", 127}, {"divided_least_share", 7}, {"divided_table", 1021}, \
  {"estimated", 211}, {"few_distinct", 31}, {"counted_at_once", 41}, {"newcomer_sample", 7}, {"small_table", 251}, \
  {"few_keys_of_batch", 5}, {"lone_share", 1021}, {"turns_in_a_crowd", 3}, \
  {"hashed_tries", 3}, {"units_in_hand", 16381}, \
  {"any_of", 7}, {"copied", 257}, {"staged_first", 61}, {"index_block", 7}, {"index_group", 3}, {"index_piece", 11}, {"index_slice", 37}, {"index_alone", 31}, {"large_array", 5001}, {"large_page", 12288}, \
  {"few_keys_of_index", 29}, {"encoded_rows", 5}, {"members", 37}, {"members_block", 5}, {"members_share", 1}, {"members_rows", 3}, \
  {"window_slots", 37}, {"window_over", 41}, {"rebuilt_alone", 7}, {"window_buckets", 5}, \
  {"look_share", 7}, {"second_victims", 3}, {"hive_retries", 5}, {"slots_at_once", 1}, {"turns_of_a_placing", 3}, \
  {"order_chunk", 103}, {"order_rounds", 3}, {"asked_ahead", 11}, {"pages_between", 3}, {"pages_looked_at", 5}, \
  {"walks", 13}, {"short_chunks", 2}, {"chunks_ahead", 3}, {"chunks_of_part", 3}, {"range_parts", 11}, {"long_range", 47}, \
  {"pairs_per_cut", 3}, {"built_pieces", 61}, {"built_piece", 17}, {"elements_ahead", 3}, {"least_built", 31}, \
  {"looks_left_out", 3}, {"sideways", 2}, \
  {"hash.block", 7}, {"hash.piece", 19}, {"hash.alone", 29}, {"partition.slice", 31}, \
  {"partition.far", 13}
// clang-format on
