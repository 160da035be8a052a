// stadium on CUDA with slots in host memory: who serves which key, in which order, and how rows cross the bus.
//
// A thread has an element and looks at its tickets. Where its operation wants a slot, the warp reads or writes the row
// together: a row of up to 16 bytes by one lane, a longer one in pieces of 16 bytes by as many lanes, so that one
// instruction asks for the whole of it. All lanes take part in every round, with full-warp masks.
//
// Rows of a large table that are read in random order cost a translation of their address each, which is many times what
// the bus would give. So a large batch is put into the order of windows of the slots first:
//
//   place     each element looks at tickets, until they say which slot it will touch; that slot's window is counted.
//             Elements whose keys the tickets know to be absent are done here, and no row is read for them
//   start     the windows' counts become positions
//   list      element numbers, in the order of their windows
//   serve     the threads of the grid take elements in that order. Results go where the elements are
//
// Elements of a batch do not see what the others will book. An insert whose slot is taken meanwhile would go on to a row
// anywhere, and its warp would wait for it. It is put off instead; nothing of it has happened. A second round of the same
// four serves those that were put off, and puts none off.
//
// Where there is no memory for the lists, a batch is served as it came.
#pragma once
#include "libgpuhash/drive/cuda.cuh"
#include "libgpuhash/kit/cuda_device.cuh"
#include "rows.hpp"
#include "sizes.hpp"

GH_BEGIN

inline constexpr u32 row_threads = 64;  // of a block that serves elements: they are spread over all multiprocessors
inline constexpr u32 least_window_shift = 8;
inline constexpr u32 settled = ~0u;    // in place of a window: nothing is left to do
inline constexpr u32 later = ~0u - 1;  // it was put off

// ---- rows ------------------------------------------------------------------------------------------------------------

struct row_piece {
  u32 w[4];
};
GH_FN row_piece load_piece(const stadium_table& t, u64 byte) {
  row_piece p{};
  const u32* const words = reinterpret_cast<const u32*>(t.slots + byte);
  if (t.value_bytes == 8) {
    u64 two[2];
    mapped_mem::load_two(reinterpret_cast<const u64*>(t.long_slots + byte), two);
    for (int i = 0; i < 4; ++i) p.w[i] = u32(two[i / 2] >> 32 * (i % 2));
  } else if (t.stride == 4) {
    p.w[0] = mapped_mem::load<order::relaxed>(words);
  } else if (t.stride == 8) {
    mapped_mem::load_two(words, p.w);
  } else {
    mapped_mem::load_four(words, p.w);
  }
  return p;
}
GH_FN void store_piece(const stadium_table& t, u64 byte, const row_piece& p) {
  u32* const words = reinterpret_cast<u32*>(t.slots + byte);
  if (t.value_bytes == 8) {
    const u64 two[2] = {p.w[0] | u64(p.w[1]) << 32, p.w[2] | u64(p.w[3]) << 32};
    mapped_mem::store_two(reinterpret_cast<u64*>(t.long_slots + byte), two);
  } else if (t.stride == 4) {
    mapped_mem::store<order::relaxed>(words, p.w[0]);
  } else if (t.stride == 8) {
    mapped_mem::store_two(words, p.w);
  } else {
    mapped_mem::store_four(words, p.w);
  }
}

// Word `at` (in bytes) of a row that holds this key and value: of the caller's arrays, or 0.
GH_FN u32 word_of_row(const stadium_table& t, const request& q, size_t element, u32 at) {
  const u32* const keys = static_cast<const u32*>(q.keys) + element * (t.key_bytes / 4);
  const u32* const values = static_cast<const u32*>(q.values) + element * (t.value_bytes / 4);
  if (at < t.key_bytes) return keys[at / 4];
  if (q.values && at >= t.value_at && at < t.value_at + t.value_bytes) return values[(at - t.value_at) / 4];
  return 0;
}

// Calls f(whose, there, at): in each round the lanes of a group have the pieces of the row of lane `whose`; mine begins `at`
// bytes into it, and there says whether there is such a row, and such a piece of it.
template <class F>
GH_FN void each_round(const stadium_table& t, bool wants, F f) {
  const u32 lanes = 1u << t.log_lanes;
  const u32 lane = threadIdx.x % 32;
  const u32 at = (lane & (lanes - 1)) * 16;
  const u32 wanted = __ballot_sync(full_warp, wants);
  for (u32 r = 0; r < lanes; ++r) {
    const u32 whose = (lane & ~(lanes - 1)) | r;
    f(whose, (wanted >> whose & 1) && at < t.stride, at);
  }
}

// Is the key in the row of `cell` that of the element? copies: then its value is written to the caller's array.
GH_FN bool compare_rows(const stadium_table& t, const request& q, bool wants, u64 cell, size_t element, bool copies) {
  const u32 lanes = 1u << t.log_lanes;
  const u32 lane = threadIdx.x % 32;
  const u32 group = u32((u64(1) << lanes) - 1) << (lane & ~(lanes - 1));
  bool equal = false;
  each_round(t, wants, [&](u32 whose, bool there, u32 at) {
    const u64 its_cell = shuffle(u64(cell), whose, 32);
    const size_t its_element = shuffle(u64(element), whose, 32);
    const bool its_copies = shuffle(u32(copies), whose, 32) != 0;
    row_piece p{};
    if (there && (at < t.key_bytes || its_copies)) p = load_piece(t, its_cell * t.stride + at);
    const u32* const key = static_cast<const u32*>(q.keys) + its_element * (t.key_bytes / 4);
    bool differs = false;
#pragma unroll
    for (u32 w = 0; w < 4; ++w)
      if (there && at + w * 4 < t.key_bytes) differs |= p.w[w] != key[at / 4 + w];
    const bool same = !(__ballot_sync(full_warp, differs) & group);
    u32* const out = static_cast<u32*>(q.out_values) + its_element * (t.value_bytes / 4);
#pragma unroll
    for (u32 w = 0; w < 4; ++w) {
      const u32 byte = at + w * 4;
      if (there && same && its_copies && byte >= t.value_at && byte < t.value_at + t.value_bytes)
        out[(byte - t.value_at) / 4] = p.w[w];
    }
    if (whose == lane) equal = wants && same;
  });
  return equal;
}

// Write the element's key and value to the row of `cell`; or its value only. copies: and its value to the caller's array.
GH_FN void write_rows(const stadium_table& t, const request& q, bool wants, u64 cell, size_t element, bool value_only,
                      bool copies = false) {
  each_round(t, wants, [&](u32 whose, bool there, u32 at) {
    const u64 its_cell = shuffle(u64(cell), whose, 32);
    const size_t its_element = shuffle(u64(element), whose, 32);
    const bool its_copies = shuffle(u32(copies), whose, 32) != 0;
    if (!there) return;
    row_piece p{};
#pragma unroll
    for (u32 w = 0; w < 4; ++w) p.w[w] = word_of_row(t, q, its_element, at + w * 4);
    u32* const out = static_cast<u32*>(q.out_values) + its_element * (t.value_bytes / 4);
#pragma unroll
    for (u32 w = 0; w < 4; ++w) {
      const u32 byte = at + w * 4;
      if (its_copies && byte >= t.value_at && byte < t.value_at + t.value_bytes) out[(byte - t.value_at) / 4] = p.w[w];
    }
    const u64 byte = its_cell * t.stride + at;
    if (!value_only || at >= t.value_at) {
      store_piece(t, byte, p);
      return;
    }
#pragma unroll
    for (u32 w = 0; w < 4; ++w)
      if (at + w * 4 >= t.value_at)
        mapped_mem::store<order::relaxed>(reinterpret_cast<u32*>(t.slots + byte) + w, p.w[w]);
  });
}

// ---- elements --------------------------------------------------------------------------------------------------------

// What an element is to this kernel.
struct row_element {
  u32 kind;
  bool bad;     // its op code is none
  bool copies;  // the value that is there is asked for
  u64 hash;
};
template <u32 Kind>
GH_FN row_element element_of(const stadium_table& t, const request& q, size_t i) {
  row_element e{q.kind, false, false, wide_pair::hash_of(t, wide_pair::read_key(t, q.keys, i))};
  if constexpr (Kind == mixed)
    if (q.kind == mixed) {
      e.kind = q.ops[i];
      e.bad = e.kind > erase || (e.kind == accumulate && t.value_bytes != 4 && t.value_bytes != 8);
    }
  e.copies = in_kinds(e.kind, answering_kinds) && q.out_values && t.value_bytes;
  return e;
}
GH_FN void answer(const stadium_table& t, const request& q, size_t i, u32 kind, u32 status) {
  if (q.status) q.status[i] = u8(status);
  if (!q.out_values) return;
  u32* const out = static_cast<u32*>(q.out_values) + i * (t.value_bytes / 4);
  if (q.kind == count)
    static_cast<u64*>(q.out_values)[i] = status == yes;
  else if (!answers_with(kind, status))
    for (u32 w = 0; w < t.value_bytes / 4; ++w) out[w] = 0;
}

// Change the values that lanes want to change. Lanes with the same one take its lock together, once: a frequent key would
// else take a trip over the bus for each of its elements. Those that do not get it try again in the next round.
template <class Op>
GH_FN void update_values(const stadium_table& t, Op& o, bool wants, u64 operand, joiner j) {
  const u32 lane = threadIdx.x % 32;
  const u64 cell = o.cell(t);
  for (u32 left = __ballot_sync(full_warp, wants); left;) {
    const u32 lead = u32(__ffs(left)) - 1;
    const u64 its = shuffle(u64(cell), lead, 32);
    const u32 peers = __ballot_sync(full_warp, wants && cell == its);
    left &= ~peers;
    const bool locked = shuffle(u32(lane == lead && o.lock(t)), lead, 32) != 0;
    if (!locked) continue;
    u64 v = 0;
    if (lane == lead) v = o.value(t);
    for (u32 rest = peers; rest; rest &= rest - 1) {  // the value goes from lane to lane
      const u32 from = u32(__ffs(rest)) - 1;
      if (lane == from) v = o.changed(t, v, operand, j);
      const u32 next = rest & (rest - 1) ? u32(__ffs(rest & (rest - 1))) - 1 : lead;
      const u64 now = shuffle(v, from, 32);
      if (lane == next) v = now;
    }
    if (lane == lead) o.unlock(t, v);
    if (wants && cell == its) o.updated();
  }
}

// What a thread has done.
struct row_sums {
  int live, used;
  u32 yes, failed, bad;
};

// Serve element i, if it is this lane's. holds: put it off if it strays from its window; true if it was.
template <u32 Kind>
GH_FN bool serve_row(const stadium_table& t, const request& q, size_t i, bool mine, bool holds, u32 shift, u32 window,
                     row_sums& did) {
  const size_t at = mine ? i : 0;
  const joiner joins{q.combine, q.value_type, false, nullptr};
  const row_element e = element_of<Kind>(t, q, at);
  const u64 operand = t.value_bytes == 4 || t.value_bytes == 8
                          ? word_of_row(t, q, at, t.value_at) |
                                (t.value_bytes == 8 ? u64(word_of_row(t, q, at, t.value_at + 4)) << 32 : 0)
                          : 0;
  row_op<mapped_mem, Kind> o;
  o.start(t, e.kind, e.hash);
  bool busy_still = mine && !e.bad && e.kind != nop;
  bool put_off = false;
  while (__any_sync(full_warp, busy_still)) {
    if constexpr (Kind != find)
      if (holds && busy_still && o.strays(t, shift, window)) {
        put_off = true;
        busy_still = false;
      }
    const wish w = busy_still ? o.look(t) : wish::nothing;
    const bool compares = w == wish::compare;
    if (__any_sync(full_warp, compares)) {
      __syncwarp();  // what a lane has acquired, the lanes that read its row have (shuffles and votes order no memory)
      const bool equal = compare_rows(t, q, compares, o.cell(t), at, e.copies);
      if constexpr (Kind == mixed) {
        const bool replaces = compares && equal && o.replaces(t);
        if (__any_sync(full_warp, replaces)) write_rows(t, q, replaces, o.cell(t), at, true);
      }
      if (compares) o.compared(t, equal);
    }
    if constexpr (Kind != find) {
      if (__any_sync(full_warp, w == wish::update)) update_values(t, o, w == wish::update, operand, joins);
      const bool writes_row = w == wish::write;
      if (__any_sync(full_warp, writes_row)) {
        write_rows(t, q, writes_row, o.cell(t), at, false, e.copies);
        __syncwarp();  // B3
        if (writes_row) o.publish(t);
      }
    }
    busy_still = busy_still && !o.done;
  }

  if (!mine || put_off) return put_off;
  if (e.bad) o.res.status = bad_op;
  answer(t, q, i, e.kind, o.res.status);
  did.live += o.res.live;
  did.used += o.res.used;
  did.yes += o.res.status == yes;
  did.failed += lacks_room(o.res.status);
  did.bad += e.bad;
  return false;
}

// Elements first.. of the batch, `many` of them or as many as there are: by number, or listed. The threads of the grid
// go through them together, `step` at a time. window, or NULL: where each is foreseen; those that stray are put off.
template <u32 Kind>
__global__ void __launch_bounds__(row_threads, Kind == find ? 16 : 8)
    serve_rows(const __grid_constant__ stadium_table t, const __grid_constant__ request q, size_t first, u32 many,
               u32 step, const u32* list, const u32* listed, u32* window, u32 shift, totals* sum) {
  const size_t n = q.n_there ? *q.n_there : q.n;
  const u32 there = list ? *listed : many;
  row_sums did{};
  for (u64 begin = u64(blockIdx.x) * row_threads; begin < there; begin += step) {
    const u64 j = begin + threadIdx.x;
    const u64 of = list && j < there ? list[j] : j;
    const size_t i = first + of;
    const bool mine = j < there && i < n && has_work(q, i);
    const bool put_off = serve_row<Kind>(t, q, i, mine, window, shift, window && mine ? window[of] : 0, did);
    if (window && mine) window[of] = put_off ? later : settled;
  }
  if (Kind != find || q.batch_sum)
    add_sums(sum, q.batch_sum, warp_sum(did.live), warp_sum(did.used), q.batch_sum ? warp_sum(int(did.yes)) : 0,
             warp_sum(int(did.failed)), Kind == mixed ? warp_sum(int(did.bad)) : 0);
}

// window[j], rank[j]: where element first + j belongs, and how many of its window came before it. again: only those that
// were put off.
template <u32 Kind>
__global__ void __launch_bounds__(block_threads)
    place_elements(const __grid_constant__ stadium_table t, const __grid_constant__ request q, size_t first, u32 many,
                   bool again, u32 shift, u32* window, u32* rank, u32* counts) {
  const size_t n = q.n_there ? *q.n_there : q.n;
  const u32 j = blockIdx.x * block_threads + threadIdx.x;
  if (j >= many) return;
  const size_t i = first + j;
  if (again ? window[j] != later : i >= n || !has_work(q, i)) {
    window[j] = settled;
    return;
  }
  const row_element e = element_of<Kind>(t, q, i);
  row_op<mapped_mem, Kind> o;
  o.start(t, e.kind, e.hash);
  verdict d = e.bad || e.kind == nop ? verdict::slow : verdict::next;
  while (d == verdict::next) d = o.look_ahead(t);
  if (d == verdict::done) {
    answer(t, q, i, e.kind, no);
    window[j] = settled;
    return;
  }
  const u32 its = u32(o.cell(t) * t.stride >> shift);
  window[j] = its;
  rank[j] = atomicAdd(counts + its, 1u);
}

struct thread_sums {
  u32 of[block_threads];
};
// sums[b]: all elements of the windows of part b, one block for each.
__global__ void __launch_bounds__(block_threads) sum_windows(const u32* counts, u32 windows, u32 part, u32* sums) {
  const u32 begin = blockIdx.x * part;
  const u32 end = windows - begin < part ? windows : begin + part;
  u32 sum = 0;
  for (u32 w = begin + threadIdx.x; w < end; w += block_threads) sum += counts[w];
  sum = warp_sum(int(sum));
  if (threadIdx.x % 32 == 0 && sum) atomicAdd(sums + blockIdx.x, sum);
}
// counts[w] becomes what lies before window w, counts[windows] all of them. A block for each part; before[b] lies before
// part b. Without `before` there is one part.
__global__ void __launch_bounds__(block_threads) start_windows(u32* counts, u32 windows, u32 part, const u32* before) {
  GH_BLOCK_MEMORY(thread_sums, sums);
  const u32 from = blockIdx.x * part;
  const u32 here = windows - from < part ? windows - from : part;
  const u32 each = (here + block_threads - 1) / block_threads;
  const u32 begin = from + (threadIdx.x * each < here ? threadIdx.x * each : here);
  const u32 end = from + (threadIdx.x * each + each < here ? threadIdx.x * each + each : here);
  u32 sum = 0;
  for (u32 w = begin; w < end; ++w) sum += counts[w];
  sums.of[threadIdx.x] = sum;
  __syncthreads();
  u32 so_far = before ? before[blockIdx.x] : 0;
  for (u32 k = 0; k < threadIdx.x; ++k) so_far += sums.of[k];
  for (u32 w = begin; w < end; ++w) {
    const u32 one = counts[w];
    counts[w] = so_far;
    so_far += one;
  }
  if (from + here == windows && threadIdx.x == block_threads - 1) counts[windows] = so_far;
}

__global__ void __launch_bounds__(block_threads)
    list_elements(u32 many, const u32* window, const u32* rank, const u32* starts, u32* list) {
  const u32 j = blockIdx.x * block_threads + threadIdx.x;
  if (j < many && window[j] != settled) list[starts[window[j]] + rank[j]] = j;
}

// ---- batches ---------------------------------------------------------------------------------------------------------

// Elements of a list that are under way at a time. They should lie so close together that translations of their
// addresses are kept: the fewer elements there are, the further apart they lie. But it takes thousands of them to keep
// the bus busy.
inline u32 under_way(u32 many) {
  const u32 wanted = many / 32;
  return wanted < rows_at_least ? rows_at_least : wanted > rows_at_most ? rows_at_most : wanted;
}

inline u64 blocks_for(u64 elements) { return (elements + block_threads - 1) / block_threads; }

// Memory for the lists of one chunk, and how it is cut up.
struct row_lists {
  void* memory = nullptr;
  u32 many = 0;  // elements
  u32 windows = 0;
  u32 shift = 0;
  u32 parts() const { return (windows + window_part - 1) / window_part; }
  u32* counts() const { return static_cast<u32*>(memory); }
  u32* sums() const { return counts() + windows + 1; }
  u32* window() const { return sums() + parts() + 1; }
  u32* rank() const { return window() + many; }
  u32* list() const { return rank() + many; }
  size_t bytes() const { return (windows + 1 + parts() + 1 + 3 * size_t(many)) * sizeof(u32); }
};
// Where elements are close to each other, rows that share a line of the bus are to be asked for together. Then windows are
// so small that a warp's elements are in the order of lines, but for the ends.
inline u32 shift_for(const stadium_table& t, u64 bytes, u32 many) {
  u32 shift = t.window_shift;
  if (u64(many) * 8 >= bytes / 128)
    while (shift > least_window_shift && bytes >> shift < many / 4) --shift;
  while (bytes >> shift >= u64(windows_at_once) * window_part) ++shift;
  return shift;
}
inline row_lists lists_for(const stadium_table& t, const request& q) {
  row_lists l;
  if (!t.ordered_from || q.n < t.ordered_from) return l;
  const u64 bytes = (t.groups << t.log_tickets) * t.stride;
  for (size_t many = q.n < list_chunk ? q.n : list_chunk;; many /= 4) {
    l.many = u32(many);
    l.shift = shift_for(t, bytes, l.many);
    l.windows = u32(bytes >> l.shift) + 1;
    if (!cuda_detail::allocate(&l.memory, l.bytes(), q.stream)) return l;
    l.memory = nullptr;
    if (many / 4 < t.ordered_from) return l;
  }
}
inline int order_windows(const row_lists& l, void* stream) {
  if (l.windows <= windows_at_once)
    return launch(start_windows, 1, block_threads, stream, l.counts(), l.windows, l.windows, nullptr);
  int e = launch(sum_windows, l.parts(), block_threads, stream, l.counts(), l.windows, window_part, l.sums());
  if (!e) e = launch(start_windows, 1, block_threads, stream, l.sums(), l.parts(), l.parts(), nullptr);
  if (!e) e = launch(start_windows, l.parts(), block_threads, stream, l.counts(), l.windows, window_part, l.sums());
  return e;
}

// If a batch has an element for every fourth group or more, many elements find their slots taken. If it has fewer, a
// second round takes longer than the few rows that lie anywhere: 2^22 rows of 64 bytes went from 640 to 500 million a
// second by it, and 2^24 from 185 to 520 (8 GiB, one H200).
inline u32 rounds_for(const stadium_table& t, u32 kind, u32 many) {
  return in_kinds(kind, adding_batches) && many >= t.groups / 4 ? 2 : 1;
}

template <u32 Kind>
int run_rows(const stadium_table& t, const request& q, totals* sum) {
  const row_lists l = lists_for(t, q);
  const size_t chunk = l.memory ? l.many : size_t(1) << 30;
  int e = 0;
  for (size_t first = 0; first < q.n && !e; first += chunk) {
    const u32 many = u32(q.n - first < chunk ? q.n - first : chunk);
    const u64 blocks = blocks_for(many);
    const auto serve = [&](u32 at_a_time, const u32* list, const u32* listed, u32* window) {
      const u32 grid = ((at_a_time < many ? at_a_time : many) + row_threads - 1) / row_threads;
      return launch(serve_rows<Kind>, grid, row_threads, q.stream, t, q, first, many, grid * row_threads, list, listed,
                    window, l.shift, sum);
    };
    if (!l.memory) {
      e = serve(many, nullptr, nullptr, nullptr);
      continue;
    }
    const u32 rounds = Kind == find ? 1 : rounds_for(t, q.kind, many);
    for (u32 round = 0; round < rounds && !e; ++round) {
      e = cuda_detail::fill(l.counts(), 0, (l.windows + 1 + l.parts() + 1) * sizeof(u32), q.stream);
      if (!e)
        e = launch(place_elements<Kind>, blocks, block_threads, q.stream, t, q, first, many, round != 0, l.shift,
                   l.window(), l.rank(), l.counts());
      if (!e) e = order_windows(l, q.stream);
      if (!e)
        e = launch(list_elements, blocks, block_threads, q.stream, many, l.window(), l.rank(), l.counts(), l.list());
      if (!e) e = serve(under_way(many), l.list(), l.counts() + l.windows, round + 1 < rounds ? l.window() : nullptr);
    }
  }
  if (l.memory) {
    const int freed = cuda_detail::release(l.memory, q.stream);
    if (!e) e = freed;
  }
  return e;
}
inline int run_row_batch(const void* table, const request& q, totals* sum) {
  const auto& t = *static_cast<const stadium_table*>(table);
  return in_kinds(q.kind, writing_batches) ? run_rows<mixed>(t, q, sum) : run_rows<find>(t, q, sum);
}

// The live rows of cells lo..hi of an order, appended at *n in no order. Runs with no writer about.
__global__ void __launch_bounds__(block_threads)
    collect_live_rows(const __grid_constant__ stadium_table t, cell_order order, u64 lo, u64 hi, u32* keys, u32* values,
                      u64* n) {
  const u64 at_order = lo + blockIdx.x * u64(block_threads) + threadIdx.x;
  const u64 cell = cell_at(order, at_order < hi ? at_order : lo);
  const u64 group = cell >> t.log_tickets;
  const u64 word = mapped_mem::load<order::acquire>(t.tickets + group);
  const bool mine = at_order < hi && t.state_at(word, u32(cell - (group << t.log_tickets))) == live;
  const u32 lane = threadIdx.x % 32;
  const u32 all = __ballot_sync(full_warp, mine);
  u64 to = 0;
  if (lane == 0 && all) to = atomicAdd(n, u64(__popc(all)));
  to = shuffle(to, 0, 32) + __popc(all & ((1u << lane) - 1));
  each_round(t, mine, [&](u32 whose, bool there, u32 at) {
    const u64 its_cell = shuffle(u64(cell), whose, 32);
    const u64 its = shuffle(u64(to), whose, 32);
    if (!there) return;
    const row_piece p = load_piece(t, its_cell * t.stride + at);
#pragma unroll
    for (u32 w = 0; w < 4; ++w) {
      const u32 byte = at + w * 4;
      if (keys && byte < t.key_bytes) keys[its * (t.key_bytes / 4) + byte / 4] = p.w[w];
      if (values && byte >= t.value_at && byte < t.value_at + t.value_bytes)
        values[its * (t.value_bytes / 4) + (byte - t.value_at) / 4] = p.w[w];
    }
  });
}
inline int collect_rows(const void* table, cell_order order, uint64_t lo, uint64_t hi, const collecting& to) {
  const u64 blocks = blocks_for(hi - lo);
  if (!blocks) return 0;
  return launch(collect_live_rows, blocks, block_threads, to.stream, *static_cast<const stadium_table*>(table), order,
                lo, hi, static_cast<u32*>(to.keys), static_cast<u32*>(to.values), reinterpret_cast<u64*>(to.count));
}

GH_END
