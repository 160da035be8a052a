// Groups of a column on a CUDA device: the kernels of a call, one after the other on the caller's stream. Nothing comes
// back to the host; so a call can be captured into a graph, too.
#pragma once
#include "libgpuhash/columns/cuda/back.cuh"
#include "libgpuhash/columns/cuda/group.hpp"
#include "libgpuhash/columns/cuda/launch.cuh"

namespace gpuhash::columns {

template <class K>
group_work<K> work_of(const group_request& r, const group_plan& p) {
  char* const s = static_cast<char*>(r.scratch);
  const auto words = [&](size_t at) { return reinterpret_cast<u32*>(s + at); };
  const auto hashes = [&](size_t at) { return reinterpret_cast<K*>(s + at); };
  group_work<K> w{};
  w.keys = static_cast<const K*>(r.keys);
  w.more = static_cast<const K*>(r.more);
  w.values = r.values;
  w.n = u32(r.n);
  w.split = u32(r.n - r.n_more);
  w.seed = K(r.seed);
  w.wants = r.wants;
  w.plan = p;
  w.facts = reinterpret_cast<group_facts*>(s + p.facts);
  w.sampled_keys = hashes(p.sampled_keys);
  w.sampled_times = words(p.sampled_times);
  w.frequent = hashes(p.frequent);
  w.frequent_code = words(p.frequent_code);
  w.frequent_first = words(p.frequent_first);
  w.frequent_count = words(p.frequent_count);
  w.few_key = hashes(p.few_key);
  w.few_count = words(p.few_count);
  w.few_first = words(p.few_first);
  w.coarse_count = words(p.coarse_count);
  w.coarse_start = words(p.coarse_start);
  w.coarse_end = words(p.coarse_end);
  w.bin_count = words(p.bin_count);
  w.bin_start = words(p.bin_start);
  w.bin_end = words(p.bin_end);
  w.coarse_key = hashes(p.coarse_key);
  w.coarse_carried = s + p.coarse_carried;
  w.bin_key = hashes(p.bin_key);
  w.bin_carried = s + p.bin_carried;
  w.coarse_place = reinterpret_cast<u16*>(s + p.coarse_place);
  w.bin_place = reinterpret_cast<u16*>(s + p.bin_place);
  w.coarse_run = reinterpret_cast<tile_run*>(s + p.coarse_run);
  w.bin_run = reinterpret_cast<tile_run*>(s + p.bin_run);
  w.frequent_whole = reinterpret_cast<u64*>(s + p.frequent_whole);
  w.frequent_real = reinterpret_cast<double*>(s + p.frequent_real);
  w.frequent_low = s + p.frequent_low;
  w.frequent_high = s + p.frequent_high;
  w.results = {static_cast<u64*>(r.out_sums), r.out_means, r.out_low, r.out_high};
  w.first_bit = words(p.first_bits_at);
  w.ranked = reinterpret_cast<ranked_word*>(s + p.prefix);
  w.strip_total = words(p.strip_total);
  w.listed_first = words(p.coarse_carried);
  w.listed_count = words(p.coarse_key);
  w.listed_results = words(p.listed_results);
  w.listed_words = r.wants.listed_words();
  w.listed_mean = r.wants.listed_mean();
  w.listed_low = r.wants.listed_low();
  w.listed_high = r.wants.listed_high();
  w.listed_at = words(p.bin_key);
  w.out_keys = static_cast<K*>(r.out_keys);
  w.out_counts = reinterpret_cast<long long*>(r.out_counts);
  w.out_codes = reinterpret_cast<long long*>(r.out_codes);
  w.groups = reinterpret_cast<u32*>(r.groups);
  w.shown = reinterpret_cast<u64*>(r.shown);
  w.group_first = reinterpret_cast<long long*>(r.out_first_rows);
  w.first_row = reinterpret_cast<u32*>(r.out_first);
  w.known = reinterpret_cast<unsigned long long*>(s + p.known);
  w.repeats = r.repeats;
  return w;
}

template <class K>
unsigned frequent_blocks(const group_work<K>& w) {
  return (w.plan.known_places() + frequent_threads - 1) / frequent_threads;
}

template <class K, bool ByKeys, bool Halves>
void survey_rows(const launcher& launch, unsigned blocks, const group_work<K>& w) {
  launch.next(survey<K, ByKeys, Halves>, blocks, count_threads,
              counting_block<K, ByKeys, Halves>::bytes(w.plan, w.wants), w);
}

// Initialises the temporaries as kernels expect them, finds the frequent keys, and computes where each bin begins.
template <class K>
void prepare(const launcher& launch, const group_request& r, const group_work<K>& w) {
  const group_plan& p = w.plan;
  constexpr uint64_t at_once = sizeof(neighbouring_words);  // of which p.ones and p.rest are multiples
  launch(set_temporaries, launch.blocks((p.rest / at_once + count_threads - 1) / count_threads, 2), count_threads, 0,
         static_cast<neighbouring_words*>(r.scratch), p.ones / at_once, p.rest / at_once,
         reinterpret_cast<unsigned long long*>(r.groups));
  constexpr uint64_t piece = count_threads * count_each;
  const unsigned blocks = launch.blocks((w.n + piece - 1) / piece, 1);
  const bool codes_at_once = p.few_slots && w.wants.codes_at_once();
  if (codes_at_once) launch.next(code_few<K>, blocks, count_threads, met_keys<K, true>::bytes(p.few_slots), w);
  const bool by_keys = p.few_slots && !codes_at_once;
  if (by_keys && p.by_halves) return survey_rows<K, true, true>(launch, blocks, w);
  if (by_keys) return survey_rows<K, true, false>(launch, blocks, w);
  if (p.by_halves) return survey_rows<K, false, true>(launch, blocks, w);
  survey_rows<K, false, false>(launch, blocks, w);
}

// C: the type of the word that travels along with keys, V: the type of values.
template <class K, class C, class V>
void divide_rows(const launcher& launch, const group_work<K>& w) {
  const group_plan& p = w.plan;
  const auto tiles_of = [&](u32 tile) { return (uint64_t{w.n} + tile - 1) / tile; };
  launch.next(divide<K, C, V, false>, launch.blocks(tiles_of(divide_tile<K, C, V>), 2), divide_threads,
              divide_memory<K, C, V, false>::bytes(p, w.wants), w);
  if (!p.second_bits) return;
  const size_t coarse = p.coarse_bins(), fine = size_t{1} << p.second_bits;
  if (!p.counted_at_once) {
    const unsigned blocks = launch.blocks(tiles_of(divide_tile<K, nothing, nothing>) + coarse, 2);
    launch.next(count_again<K>, blocks, divide_threads, 4 * (fine + coarse + 1), w);
  }
  if (p.starts_by_parts())
    launch.next(find_starts, unsigned(coarse), scan_threads, 0, w.bin_count, u32(fine), w.coarse_start, w.bin_start,
                w.bin_end);
  launch.next(divide<K, C, nothing, true>, launch.blocks(tiles_of(divide_tile<K, C, nothing>) + coarse, 2),
              divide_threads, divide_memory<K, C, nothing, true>::bytes(p, w.wants), w);
}

template <class K, class V, bool Counts, bool First, bool Codes>
void group(const launcher& launch, const group_work<K>& w) {
  const unsigned bins = 1u << w.plan.bits;
  const bool fewer = serves_several<V, Counts, First, Codes> && w.plan.few_slots;
  launch.next(group_bins<K, V, Counts, First, Codes>, fewer ? launch.blocks(bins, several_blocks) : bins, bin_threads,
              grouping_block<K, V, Counts, First, Codes>::bytes(w.wants), w);
}
template <class K>
void group_all(const launcher& launch, const group_work<K>& w) {
  const bool first = w.wants.first, counts = w.wants.counts, codes = w.wants.codes;
  if (first && counts && codes) return group<K, nothing, true, true, true>(launch, w);
  if (first && counts) return group<K, nothing, true, true, false>(launch, w);
  if (first && codes) return group<K, nothing, false, true, true>(launch, w);
  if (first) return group<K, nothing, false, true, false>(launch, w);
  if (counts && codes) return group<K, nothing, true, false, true>(launch, w);
  if (counts) return group<K, nothing, true, false, false>(launch, w);
  if (codes) return group<K, nothing, false, false, true>(launch, w);
  return group<K, nothing, false, false, false>(launch, w);
}

// For the order of first appearance, when all groups have set the bits of their first rows.
template <class K, class V>
void put_in_order(const launcher& launch, const group_work<K>& w) {
  const unsigned blocks = launch.blocks((uint64_t{w.n} + order_threads - 1) / order_threads, 8);
  launch.next(count_firsts<K>, w.plan.strips, order_threads, 0, w);
  launch.next(give_in_order<K>, w.plan.strips, order_threads, 0, w);
  if (!w.wants.listed()) return;
  // Only the device knows which of two ways a single result is written: the kernels of the other way return at once.
  const bool several = w.wants.results_listed() > 1;
  if (!several) launch.next(give_listed<K, V, false>, blocks, order_threads, 0, w);
  if (!several && w.n <= few_rows) return;
  launch.next(find_listed<K>, blocks, order_threads, 0, w);
  launch.next(give_listed<K, V, true>, blocks, order_threads, 0, w);
}

// C: the word that traveled along with keys.
template <class K, class C, bool Lists = false, class Word = u32>
void go_back(const launcher& launch, const group_work<K>& w) {
  const group_plan& p = w.plan;
  const uint64_t tiles = (uint64_t{w.n} + p.tile - 1) / p.tile;
  if (p.second_bits)
    launch.next(bring_back<K, C, true, Lists, Word>, launch.blocks(tiles + p.coarse_bins(), back_blocks),
                divide_threads, back_bytes<K, C, true, Lists, Word>(p), w);
  launch.next(bring_back<K, C, false, Lists, Word>, launch.blocks(tiles, back_blocks), divide_threads,
              back_bytes<K, C, false, Lists, Word>(p), w);
}

// A kernel that looks every row up, if keys are few.
template <class K>
void look_up_few(const launcher& launch, void (*kernel)(group_work<K>), const group_work<K>& w, size_t memory) {
  launch.next(kernel, launch.blocks((uint64_t{w.n} + divide_threads - 1) / divide_threads, few_blocks), divide_threads,
              memory, w);
}

// All of a call without values.
template <class K>
void find_groups(const group_request& r) {
  const launcher launch(r.stream);
  const group_work<K> w = work_of<K>(r, plan_groups(r.n, r.key_bytes, r.wants));
  prepare(launch, r, w);
  r.wants.first ? divide_rows<K, u32, nothing>(launch, w) : divide_rows<K, nothing, nothing>(launch, w);
  group_all(launch, w);
  if (r.wants.first) {
    put_in_order<K, nothing>(launch, w);
    if (r.wants.counts_go_back()) launch.next(give_frequent_counts<K>, frequent_blocks(w), frequent_threads, 0, w);
  }
  if (w.plan.few_slots && r.wants.codes && !r.wants.codes_at_once())
    look_up_few(launch, give_few_codes<K>, w, few_codes_bytes<K>(w.plan));
  if (r.wants.way_back()) r.wants.first ? go_back<K, u32>(launch, w) : go_back<K, nothing>(launch, w);
}

// All kernels of a call with values of type V.
template <class K, class V>
void reduce_groups(const group_request& r) {
  const launcher launch(r.stream);
  const group_work<K> w = work_of<K>(r, plan_groups(r.n, r.key_bytes, r.wants));
  prepare(launch, r, w);
  if (w.plan.few_slots) look_up_few(launch, add_few_values<K, V>, w, few_values_bytes<K, V>(w.plan, w.wants));
  r.wants.first ? divide_rows<K, u32, V>(launch, w) : divide_rows<K, V, V>(launch, w);
  if (!r.wants.first) return group<K, V, true, false, false>(launch, w);
  group<K, V, true, true, false>(launch, w);
  put_in_order<K, V>(launch, w);
}

}  // namespace gpuhash::columns
