// skiplist on the CPU: ranges, chunk by chunk, and one long range by several threads.
//
// A chunk is copied between two looks at the same even version, and then taken from the copy. Those to come are asked for by
// their names one level up: where the table grew by splits, each would be waited for.
//
// A range that goes on for long is cut into parts (skip_walk::cut), which threads read into memory of their own. Only then is
// it known where their pairs go: behind those of the parts before. So a part is read once, and what others write meanwhile
// moves no pair to a place that is not its own.
//
// Of many ranges, the walks to their first chunks go together (host_walk.hpp).
#pragma once
#include <stdlib.h>

#include "host_walk.hpp"

GH_BEGIN

// A range of so few chunks is over before chunks ahead of it are worth the search.
inline constexpr u32 short_chunks = tunable("short_chunks", 3u);

// The pairs of an interval, those of side slots left out.
template <class F, u32 R>
class chunk_reader {
  using table = skip_table<F>;
  using key = typename F::key;
  using word = typename F::word;
  using walk = skip_walk<host_mem, table>;
  using interval = typename walk::interval;
  using tile = host_tile<F, int(R)>;
  using row = typename tile::row;

 public:
  bool over;  // nothing is left
  key from;   // all pairs below have been read

  static bool has_none(const interval& of) { return of.is_empty() || is_side_key(of.low); }
  chunk_reader(const walk& w, const interval& of) : chunk_reader(w, of, none) {
    key ignored = 0;
    if (!over) at_ = w.descend(from, &ignored);
  }
  // From a chunk on that encloses the interval's low, or has done so. names: of level 1, where it has its name; or none.
  chunk_reader(const walk& w, const interval& of, u32 at, u32 names = none)
      : over(has_none(of)),
        from(of.low),
        t_(w.t),
        high_(of.to_end ? dead_key<key> : of.high),
        far_(of.most > 4 * (R - 2)),
        at_(at),
        name_at_(names) {}

  // What the next chunk has: so many pairs, from *pairs on, until this is called again. `readable` words are there.
  u32 next(const word** pairs) {
    if (read_ == short_chunks)
      ask_ahead();
    else if (++read_ == short_chunks && far_)
      begin_ahead();
    for (;; host_mem::relax()) {
      const word* const c = chunk_at<R>(t_, at_);
      const word before = load(c + R - 1);
      host_mem::fence();
      const row r = copy_row(c);
      const word next = next_of(c);
      host_mem::fence();
      const u32 link = table::link_of(next), to = table::target(link);
      const key max = F::key_of(next);
      if (table::is_gone(link)) {  // its heir has what was here; or it is not to be seen yet
        if (to != none) at_ = to;
        continue;
      }
      if (table::is_locked(before) || !(load(c + R - 1) == before)) continue;
      if (from > max) {  // a zombie's heir may have been split
        at_ = to;
        continue;
      }
      const u32 first = entries_below(r, from), end = entries_below(r, high_);
      over = to == none || high_ <= max;
      from = key(max + 1);
      at_ = to;
      *pairs = row_ + first;
      return end > first ? end - first : 0;
    }
  }

  u32 readable() const { return (R + 5) / 8 * 8; }

 private:
  static constexpr u32 chunks_ahead = tunable("chunks_ahead", 16u);
  static word load(const word* p) { return host_mem::load<order::relaxed>(p); }
  GH_FN static u32 entries_below(const row& r, key k) {
    return tile().number(tile().at_most(r, key(k - 1), 0, R - 2)) & (k ? ~0u : 0);
  }
  // By the widest loads and stores, since wide loads of the copy wait long for narrow stores. The row that is returned is loaded
  // once more, and the same if LOCK is.
  GH_FN row copy_row(const word* c) {
#if GH_ROW_BYTES
    using wide = piece<F, GH_ROW_BYTES>;
    for (u32 i = 0; i < R; i += wide::n) {
      wide some;
      some.load(c + i);
      some.store(row_ + i);
    }
    return tile().load(c);
#else
    const row r = tile().load(c);
    for (u32 i = 0; i < R; ++i) row_[i] = r.word(i);
    return r;
#endif
  }
  // NEXT of the chunk that was copied: not by way of the copy, since the next chunk waits for it.
  GH_FN word next_of([[maybe_unused]] const word* c) const {
#if GH_ROW_BYTES
    return load(c + R - 2);
#else
    return row_[R - 2];
#endif
  }
  void ask_for(u32 chunk) const {
    const auto* const p = reinterpret_cast<const char*>(chunk_at<R>(t_, chunk));
    for (u32 byte = 0; byte < R * sizeof(word); byte += 64) host_mem::prefetch<false>(p + byte);
  }
  void begin_ahead() {
    key ignored = 0;
    if (is_side_key(from) || host_mem::load<order::relaxed>(t_.top) == 0) return;
    if (name_at_ == none) name_at_ = skip_walk<host_mem, table>{t_}.descend(from, &ignored, 1);
    while (name_ < R - 2 && F::key_of(load(chunk_at<R>(t_, name_at_) + name_)) <= from) ++name_;
    ask_for_names();
    for (u32 i = 0; i < chunks_ahead; ++i) ask_ahead();
  }
  // The chunk of names to the right, which is visited a few chunks later.
  void ask_for_names() const {
    const u32 link = table::target(table::link_of(load(chunk_at<R>(t_, name_at_) + R - 2)));
    if (link != none) ask_for(link);
  }
  // A word that is read here may be old, which costs time and changes no answer.
  void ask_ahead() {
    while (name_at_ != none) {
      const word* const c = chunk_at<R>(t_, name_at_);
      const word w = name_ < R - 2 ? load(c + name_) : empty_word<F>();
      if (F::key_of(w) == table::no_key) {
        name_at_ = table::target(table::link_of(load(c + R - 2)));
        name_ = 0;
        if (name_at_ != none) ask_for_names();
        continue;
      }
      ++name_;
      return ask_for(u32(F::value_of(w)));
    }
  }

  const table& t_;
  const key high_;
  const bool far_;
  u32 at_;                         // the chunk to read next
  u32 read_ = 0;                   // chunks, up to short_chunks
  u32 name_at_ = none, name_ = 0;  // the name of the chunk to ask for next, once it is known
  alignas(64) word row_[64]{};     // what is behind a chunk's words is read, and thrown away
};

// Range after range of a request.
template <class F, u32 R>
class host_ranges {
  using table = skip_table<F>;
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using walk = skip_walk<host_mem, table>;
  using interval = typename walk::interval;
  using group = walk_group<F, R>;

 public:
  host_ranges(const table& t, const ordered_request& q) : walk_{t}, q_(q), threads_(q.threads) {}

  void serve() {
    // Few ranges may be long: then each is served by all threads.
    if (q_.n <= range_cut.alone) return serve(0, q_.n);
    const u32 all = threads_;
    threads_ = 1;
    in_pieces(all, q_.n, range_cut, [&](size_t begin, size_t end) { serve(begin, end); });
  }
  // All pairs but those of side slots, `room` at most, to the arrays' places from `first` on.
  u64 chunks(u64 room, u64 first = 0) {
    const interval all{0, 0, true, room, first, room};
    chunk_reader<F, R> reader(walk_, all);
    return serve_chunks(all, reader);
  }

 private:
  static constexpr cut range_cut = tunable_cut({64, 8, 1024});
  static constexpr cut one_by_one = {0, 1, 1};
  static constexpr u32 chunks_of_part = tunable("chunks_of_part", 1024u),
                       most_parts = tunable("range_parts", 8192u);  // about
  static constexpr u64 least_long = tunable("long_range", 16384u),
                       pairs_per_cut = tunable("pairs_per_cut", 32u);  // that are read in the time that a cut takes

  void serve(size_t begin, size_t end) {
    const u64 chunks = q_.most / (R / 2) + 1;  // of a range, where they are half full
    group g(walk_.t, chunks < short_chunks ? u32(chunks) : short_chunks);
    for (size_t b = begin; b < end; b += group::most) serve(g, b, u32(end - b < group::most ? end - b : group::most));
  }
  void serve(group& g, size_t b, u32 many) {
    interval r[group::most];
    for (u32 j = 0; j < many; ++j) r[j] = walk_.interval_of(q_, b + j);
    asm volatile("" : : "r"(r) : "memory");  // W1
    u32 n = 0;
    for (u32 j = 0; j < many; ++j) {
      if (chunk_reader<F, R>::has_none(r[j])) continue;
      g.sought[n] = r[j].low;
      g.of[n++] = j;
    }
    if (n) g.descend(n);
    for (u32 j = 0, next = 0; j < many; ++j) {
      const bool has_walk = next < n && g.of[next] == j;
      chunk_reader<F, R> reader(walk_, r[j], has_walk ? g.at[next] : none, has_walk ? g.names[next] : none);
      next += has_walk;
      u64 pairs = serve_chunks(r[j], reader);
      pairs = walk_.range_of_side(r[j], pairs, [&](u64 i, key k, value v) { walk_.emit(q_, r[j], i, k, v); });
      if (q_.counts) q_.counts[b + j] = pairs;
    }
  }
  u64 serve_chunks(const interval& r, chunk_reader<F, R>& reader) {
    u64 n = 0;
    const u32 parts = number_of_parts();
    while (!reader.over && n < r.most) {
      if (threads_ > 1 && n >= least_long && n >= parts * pairs_per_cut) {
        interval rest = r;
        rest.low = reader.from;
        if (serve_rest(r, rest, parts, n)) break;
      }
      n += take(r, n, reader);
    }
    return n;
  }
  u64 take(const interval& r, u64 n, chunk_reader<F, R>& reader) const {
    const word* pairs = nullptr;
    u64 here = reader.next(&pairs);
    if (here > r.most - n) here = r.most - n;
    put(r, n, pairs, here, reader.readable());
    return here;
  }
  // The pairs of an interval from number j on. Where `readable` words can be read, and there is room for as many, all of them are
  // written: what is too much is written over by those that follow, or is past the end of what the range is said to have. For
  // how many a chunk has is nothing that a processor can foretell, and a branch on it would wait for each chunk to arrive.
  void put(const interval& r, u64 j, const word* pairs, u64 many, u64 readable) const {
    if (j >= r.room) return;
    const u64 room = r.room - j, n = readable <= room ? readable : many < room ? many : room;
    const key sign = walk_.t.sign, all = key(sign | (sign - 1));  // stores might change what they are read from
    const u32 order = walk_.t.order;
    const key up = order == order_unsigned ? key(0) : sign, down = order == order_float ? all : up;
    if (q_.out_keys)
      write_all<key>(q_.out_keys, q_.key_bytes, r.first + j, n, [=](u64 i) {
        const key k = F::key_of(pairs[i]);
        return key(k ^ (k & sign ? up : down));
      });
    if (q_.out_values)
      write_all<value>(q_.out_values, q_.value_bytes, r.first + j, n, [=](u64 i) { return F::value_of(pairs[i]); });
  }
  template <class T, class Get>
  static void write_all(void* p, u32 bytes, u64 to, u64 n, Get get) {
    if constexpr (sizeof(T) == 8)
      if (bytes == 8) return write_all(static_cast<T*>(p) + to, n, get);
    write_all(static_cast<u32*>(p) + to, n, get);
  }
  template <class T, class Get>
  static void write_all(T* to, u64 n, Get get) {
    u64 i = 0;
    for (; i + 8 <= n; i += 8)
      for (u32 k = 0; k < 8; ++k) to[i + k] = T(get(i + k));
    for (; i < n; ++i) to[i] = T(get(i));
  }

  // ---- one range by all threads -----------------------------------------------------------------------------------------

  u32 number_of_parts() const {
    const u32 taken = host_mem::load<order::relaxed>(walk_.t.taken) / chunks_of_part, least = 4 * threads_;
    return taken < least ? least : taken > most_parts ? most_parts : taken;
  }
  // The pairs of a part. Memory comes from malloc: nothing here may throw.
  struct part {
    word* pairs = nullptr;
    u64 n = 0, room = 0, before = 0;
    bool failed = false;

    bool add(const word* from, u32 many, u32 readable) {
      if (n + readable > room) {
        const u64 least = u64(chunks_of_part) * 16, twice = 2 * (n + readable), wanted = twice < least ? least : twice;
        auto* const p = static_cast<word*>(realloc(static_cast<void*>(pairs), wanted * sizeof(word)));
        if (!p) return false;
        pairs = p;
        room = wanted;
      }
      for (u32 i = 0; i < readable; ++i) pairs[n + i] = from[i];
      n += many;
      return true;
    }
  };
  struct work {
    key* cuts = nullptr;
    part* parts = nullptr;
    u32 at_once;
    work(u32 n_cuts, u32 n_parts) : at_once(n_parts) {
      cuts = static_cast<key*>(malloc(n_cuts * sizeof(key)));
      parts = static_cast<part*>(calloc(n_parts, sizeof(part)));
    }
    ~work() {
      for (u32 i = 0; parts && i < at_once; ++i) free(static_cast<void*>(parts[i].pairs));
      free(parts);
      free(cuts);
    }
    work(const work&) = delete;
    work& operator=(const work&) = delete;
  };
  // `rest` of range r, behind n pairs. False: there is no memory, and nothing has been done.
  bool serve_rest(const interval& r, const interval& rest, u32 n_parts, u64& n) {
    work w(n_parts + 1, 4 * threads_);
    if (!w.cuts || !w.parts) return false;
    in_pieces(threads_, n_parts, range_cut, [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) w.cuts[i] = walk_.cut(rest, u32(i), n_parts);
    });
    for (u32 i = 1; i < n_parts; ++i)
      if (w.cuts[i] < w.cuts[i - 1]) w.cuts[i] = w.cuts[i - 1];  // others write meanwhile
    const auto part_of = [&](u32 i) {
      interval p = rest;
      p.low = w.cuts[i];
      p.most = ~u64(0);
      if (i + 1 < n_parts) p.high = w.cuts[i + 1], p.to_end = false;
      return p;
    };
    const bool copies = q_.out_keys || q_.out_values;
    for (u32 first = 0; first < n_parts && n < r.most; first += w.at_once) {
      const u32 here = n_parts - first < w.at_once ? n_parts - first : w.at_once;
      in_pieces(threads_, here, one_by_one, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) read_part(w.parts[i], part_of(first + u32(i)), copies);
      });
      u64 all = n;
      bool failed = false;
      for (u32 i = 0; i < here; ++i) {
        w.parts[i].before = all;
        all += w.parts[i].n;
        failed |= w.parts[i].failed;
      }
      if (failed) {  // this thread goes on alone
        interval left = part_of(first);
        left.high = r.high, left.to_end = r.to_end;
        chunk_reader<F, R> reader(walk_, left);
        while (!reader.over && n < r.most) n += take(r, n, reader);
        return true;
      }
      if (all > r.most) all = r.most;
      if (copies)
        in_pieces(threads_, here, one_by_one, [&](size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) {
            const part& p = w.parts[i];
            if (p.before < all) put(r, p.before, p.pairs, p.n < all - p.before ? p.n : all - p.before, ~u64(0));
          }
        });
      n = all;
    }
    return true;
  }
  void read_part(part& p, const interval& of, bool copies) const {
    p.n = 0;
    p.failed = false;
    chunk_reader<F, R> reader(walk_, of);
    while (!reader.over && !p.failed) {
      const word* pairs = nullptr;
      const u32 here = reader.next(&pairs);
      if (copies)
        p.failed = !p.add(pairs, here, reader.readable());
      else
        p.n += here;
    }
  }

  const walk walk_;
  const ordered_request& q_;
  u32 threads_;
};

GH_END
