// skiplist on the CPU: a batch is sorted, and merged with the pairs of the table.
//
// The batch becomes an array of (key, number of the element), which a radix sort orders by key. The sort is stable, so that
// elements of one key stay in the order of the batch, and take effect in it. Digits in which no two keys differ cost
// nothing, and a batch that ascends already is not sorted.
//
//   B1  A key of the caller's array is read once, when its entry is made; a value once, when pairs are merged.
//   B2  A piece of the sorted entries has all elements of the keys that begin in it.
#pragma once
#include <string.h>

#include <atomic>

#include "dense.hpp"
#include "layout.hpp"
#include "libgpuhash/drive/io.hpp"
#include "libgpuhash/drive/stream.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/kit/ordered.hpp"
#include "libgpuhash/kit/side.hpp"
#include "libgpuhash/kit/team.hpp"
#include "libgpuhash/tile/host.hpp"
#include "walk.hpp"

GH_BEGIN

// A table of dense chunks, from pairs in the order of their keys. A chunk is put together in the cache, and written past it as
// soon as the least key of the next one is known. False: the keys do not ascend, or are those of side slots, and what is in
// the pool is of no use.
template <class F, u32 R>
class dense_writer {
  using key = typename F::key;
  using value = typename F::value;
  using word = typename F::word;
  using table = skip_table<F>;

 public:
  dense_writer(const table& t, u64 n, u32 per, u32 threads)
      : t_(t),
        n_(n),
        per_(per),
        threads_(threads),
        s_(dense_shape::of(n, per, t.levels)),
        up_(t.order == order_unsigned ? key(0) : t.sign),
        down_(t.order == order_float ? key(t.sign | (t.sign - 1)) : up_) {}

  // values: NULL if there are none.
  bool write(const void* keys, u32 key_bytes, const void* values, u32 value_bytes) const {
    const given from = {keys, values, key_bytes, value_bytes};
    std::atomic<bool> good = true;
    each_piece(0, [&](u64 begin, u64 end) {
      if (!write_pairs(begin, end, from)) good = false;
      stream_done();
    });
    return good && finish();
  }

 private:
  // The caller's arrays, an element of 4 or 8 bytes each.
  struct given {
    const void* keys;
    const void* values;
    u32 key_bytes, value_bytes;
  };
  static word load(const word* p) { return host_mem::template load<order::relaxed>(p); }
  static void store(word* p, word w) { host_mem::template store<order::relaxed>(p, w); }
  u32 handle(u32 level, u64 j) const {
    return j ? t_.handle_of(u32(t_.levels + s_.before[level] + j - 1)) : table::head(level);
  }
  word* chunk(u32 level, u64 j) const { return t_.chunk(handle(level, j)); }
  // The least key of a chunk, once it has entries.
  key low(u32 level, u64 j) const { return j ? F::key_of(load(chunk(level, j))) : key(0); }
  // Pieces end where a chunk of level 1 does.
  template <class Serve>
  void each_piece(u32 level, Serve serve) const {
    const cut how = tunable_cut({256, 256, 16384, level ? 1 : per_});
    in_pieces(threads_, size_t(s_.chunks[level]), how, [&](size_t begin, size_t end) { serve(begin, end); });
  }
  // All but the pairs, once they ascend in each piece.
  [[gnu::noinline]] bool finish() const {
    std::atomic<bool> good = true;
    // Of each piece the last chunks' NEXT, and with it whether the next piece goes on where this one ends.
    each_piece(0, [&](u64, u64 end) {
      const bool last = end == s_.chunks[0];
      const key next = last ? key(0) : low(0, end);
      if (!last && next <= F::key_of(load(chunk(0, end - 1) + per_ - 1))) good = false;
      store(chunk(0, end - 1) + R - 2, next_of(0, end - 1, next));
      if (s_.levels > 1) store(chunk(1, (end - 1) / per_) + R - 2, next_of(1, (end - 1) / per_, next));
    });
    if (!good) return false;
    for (u32 l = 2; l < s_.levels; ++l)
      each_piece(l, [&](u64 begin, u64 end) {
        for (u64 j = begin; j < end; ++j) write_names(l, j);
        stream_done();
      });
    *t_.top = s_.levels - 1;
    *t_.taken = u32(t_.levels + s_.all);
    return true;
  }
  // NEXT of a chunk, the least key of the next one being this.
  word next_of(u32 level, u64 j, key next) const {
    const bool last = j + 1 == s_.chunks[level];
    return table::next_word(last ? table::no_key : key(next - 1), last ? none : handle(level, j + 1));
  }
  static void begin_row(word* row, u32 level) {
    for (u32 i = 0; i < R; ++i) row[i] = empty_word<F>();
    row[R - 1] = table::fresh_lock(level);
  }
  void leave(u32 level, u64 j, word* row, key next) const {
    row[R - 2] = next_of(level, j, next);
    stream(chunk(level, j), row, R);
  }
  // Do the keys of these chunks ascend?
  [[gnu::noinline]] bool write_pairs(u64 begin, u64 end, given g) const {
    alignas(64) word rows[2][R], names[R];
    begin_row(rows[0], 0);
    begin_row(rows[1], 0);
    begin_row(names, 1);
    key last = 0;
    bool bad = false;
    u32 place = 0;
    for (u64 j = begin; j < end; ++j) {
      word* const row = rows[j & 1];
      const u64 from = j * per_;
      const u32 n = n_ - from < per_ ? u32(n_ - from) : per_;
      if (from + R <= n_ && n == R - 3) {  // reads some more than it takes: as many as fill registers
        ask_for(g.keys, from * g.key_bytes);
        if (g.values) ask_for(g.values, from * g.value_bytes);
        bad |= fill<R>(row, R - 3, g, from, last, j == begin);
        last = F::key_of(row[R - 4]);
        row[R - 3] = empty_word<F>();
        row[R - 1] = table::fresh_lock(0);
      } else if (n) {
        begin_row(row, 0);
        bad |= fill<0>(row, n, g, from, last, j == begin);
        last = F::key_of(row[n - 1]);
      }
      const key low = j ? F::key_of(row[0]) : key(0);
      if (j > begin) leave(0, j - 1, rows[~j & 1], low);
      if (place == per_) {
        leave(1, j / per_ - 1, names, low);
        place = 0;
      }
      names[place++] = F::make(low, handle(0, j));
    }
    leave(0, end - 1, rows[~end & 1], 0);
    if (s_.levels > 1) {
      for (; place < per_; ++place) names[place] = empty_word<F>();
      leave(1, (end - 1) / per_, names, 0);
    }
    return !bad;
  }
  // n pairs from element `from` on into a row, of which All can be read, if that is not 0. last: the key before. Do they not
  // ascend?
  template <u32 All>
  GH_FN bool fill(word* row, u32 n, const given& g, u64 from, key last, bool first) const {
    const key sign = t_.sign, up = up_, flip = key(up_ ^ down_);
    const u32 all = All ? All : n;
    alignas(64) key k[R];
    alignas(64) value v[R] = {};
    copy<All>(k, g.keys, g.key_bytes, from, n);
    if (g.values) copy<All>(v, g.values, g.value_bytes, from, n);
    asm volatile("" : : "r"(k) : "memory");  // from here on the caller's keys are not read again (B1)
    for (u32 i = 0; i < all; ++i) k[i] = key(k[i] ^ up ^ (flip & (key(0) - key((k[i] & sign) != 0))));
    for (u32 i = 0; i < all; ++i) row[i] = F::make(k[i], v[i]);
    u32 bad = (k[0] <= last) & !first;
    for (u32 i = 1; i < all; ++i) bad |= u32(k[i] <= k[i - 1]) & u32(i < n);
    return bad | (k[n - 1] >= dead_key<key>);
  }
  // Elements of `bytes` each, widened.
  template <u32 All, class T>
  GH_FN static void copy(T* to, const void* array, u32 bytes, u64 from, u32 n) {
    const u32 all = All ? All : n;
    if (bytes == sizeof(T))
      for (u32 i = 0; i < all; ++i) to[i] = static_cast<const T*>(array)[from + i];
    else
      for (u32 i = 0; i < all; ++i) to[i] = static_cast<const u32*>(array)[from + i];
  }
  GH_FN static void ask_for(const void* array, u64 byte) {
    constexpr u64 ahead = 1024;  // bytes
    host_mem::prefetch<false>(reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(array) + byte + ahead));
  }
  void write_names(u32 l, u64 j) const {
    alignas(64) word row[R];
    begin_row(row, l);
    const u64 from = j * per_, all = s_.chunks[l - 1], n = all - from < per_ ? all - from : per_;
    for (u64 i = 0; i < n; ++i) row[i] = F::make(low(l - 1, from + i), handle(l - 1, from + i));
    // The next one's least key is that of what its first name names.
    leave(l, j, row, j + 1 == s_.chunks[l] ? key(0) : low(l - 1, (j + 1) * per_));
  }

  const table& t_;
  const u64 n_;
  const u32 per_, threads_;
  const dense_shape s_;
  const key up_, down_;  // what encoding changes in keys without their sign, and with it
};

// Chunks for pairs behind the end of a table.
template <class F, u32 R>
void write_behind(const skip_table<F>& t, const dense_shape& s, u64 n, const void* keys, const void* values,
                  u32 key_bytes, u32 value_bytes, u32 per, u32 threads) {
  constexpr cut how = tunable_cut({256, 256, 16384});
  for (u32 l = 0; l < s.levels; ++l)
    in_pieces(threads, size_t(s.chunks[l]), how, [&](size_t begin, size_t end) {
      for (u64 j = begin; j < end; ++j)
        for (u32 i = 0; i < R; ++i) write_dense<host_mem>(t, s, l, j, i, n, keys, values, key_bytes, value_bytes, per);
    });
  *t.top = s.top;
  *t.taken = u32(s.taken + s.all);
}

template <class F>
struct batch_entry;
template <>
struct batch_entry<pair32> {
  u64 both;
  static batch_entry of(u32 key, u64 element) { return {u64(key) << 32 | element}; }
  u32 key() const { return u32(both >> 32); }
  u32 element() const { return u32(both); }
};
template <>
struct batch_entry<pair64> {
  u64 its_key, number;
  static batch_entry of(u64 key, u64 element) { return {key, element}; }
  u64 key() const { return its_key; }
  u64 element() const { return number; }
};

template <class F>
class batch_builder {
  using key = typename F::key;
  using value = typename F::value;
  using entry = batch_entry<F>;
  using table = skip_table<F>;

  static constexpr u32 digit_bits = 8, digits = 1u << digit_bits;
  static constexpr u32 most_pieces = tunable("built_pieces", 64u);
  static constexpr size_t least_piece = tunable("built_piece", 4096u);
  static constexpr size_t elements_ahead = tunable("elements_ahead", 16u);  // whose values and statuses are asked for

  struct piece {
    size_t begin, end;       // of the sorted entries (B2), but while they are sorted: of the entries
    u64 fresh;               // keys of it that the table lacks
    u64 old_begin, old_end;  // pairs of the table that go with it
    u64 out;                 // where its pairs begin
    key differs;             // bits in which keys are unlike the first one
    bool falls;              // a key is less than the one before it
    u64 at[digits];          // where the next entry with this digit goes
  };
  struct state {
    u32 pieces;
    u32 in_second;  // the sorted entries are in the second half of the work space
    piece piece_of[most_pieces];
  };

 public:
  batch_builder(const table& t, const build_request& b)
      : t_(t),
        q_(*b.batch),
        b_(b),
        s_(*static_cast<state*>(b.work)),
        first_(reinterpret_cast<entry*>(static_cast<char*>(b.work) + state_bytes)),
        second_(first_ + b.batch->n),
        old_(static_cast<const key*>(b.old_keys)) {}

  static size_t work_bytes(size_t n) { return state_bytes + 2 * n * sizeof(entry); }

  void sort() {
    cut_evenly();
    make_entries();
    s_.in_second = 0;
    key differs = 0;
    bool falls = false;
    const key reference = first_[0].key();
    for (u32 p = 0; p < s_.pieces; ++p) {
      const piece& a = s_.piece_of[p];
      // Bits in which keys of two pieces differ are those in which either's first one differs from the reference.
      differs |= key(a.differs | (first_[a.begin].key() ^ reference));
      falls |= a.falls || (p && first_[a.begin].key() < first_[a.begin - 1].key());
    }
    for (u32 shift = 0; falls && shift < 8 * sizeof(key); shift += digit_bits)
      if (differs >> shift & (digits - 1)) sort_by(shift);
  }

  // After sort. Keys that are not there yet.
  void count(build_request& found) {
    cut_by_keys();
    each_piece([&](piece& a) {
      u64 n = 0;
      each_group(a, [&](u64, u64, key, const u64* old) { n += !old; }, [](u64, u64) {});
      a.fresh = n;
    });
    u64 fresh = 0, fresh_side = 0;
    for (u32 p = 0; p < s_.pieces; ++p) {
      s_.piece_of[p].out = s_.piece_of[p].old_begin + fresh;
      fresh += s_.piece_of[p].fresh;
    }
    for (u64 i = side_begin(); i < q_.n; i = group_end(i)) {
      const auto w = host_mem::template load<order::relaxed>(t_.side + (sorted()[i].key() == dead_key<key>));
      fresh_side += F::key_of(w) == empty_key<key>;
    }
    found.fresh = fresh;
    found.fresh_side = fresh_side;
  }

  void merge(key* keys, value* values) {
    const value* const old_values = static_cast<const value*>(b_.old_values);
    const joiner j = joiner_of(q_);
    each_piece([&](piece& a) {
      u64 to = a.out;
      each_group(
          a,
          [&](u64 begin, u64 end, key k, const u64* old) {
            const value v = together(begin, end, j, old != nullptr, old && values ? old_values[*old] : value(0));
            keys[to] = k;
            if (values) values[to] = v;
            ++to;
          },
          [&](u64 from, u64 end) {
            memcpy(keys + to, old_ + from, (end - from) * sizeof(key));
            if (values) memcpy(values + to, old_values + from, (end - from) * sizeof(value));
            to += end - from;
          });
    });
    for (u64 i = side_begin(); i < q_.n; ++i) {
      const entry e = sorted()[i];
      const auto r = serve_side<F, host_mem>(t_.side, q_.kind, j, e.key(), read_value<F>(q_, e.element()));
      if (q_.status) q_.status[e.element()] = u8(r.status);
    }
  }

 private:
  static constexpr size_t state_bytes = (sizeof(state) + 127) / 128 * 128;

  entry* sorted() const { return s_.in_second ? second_ : first_; }

  template <class Serve>
  void each_piece(Serve serve) {
    constexpr cut one_by_one = {0, 1, 1};
    in_pieces(q_.threads, s_.pieces, one_by_one, [&](size_t begin, size_t end) {
      for (size_t p = begin; p < end; ++p) serve(s_.piece_of[p]);
    });
  }
  void cut_evenly() {
    const size_t wanted = q_.threads > 1 ? 2 * size_t(q_.threads) : 1;
    const size_t most = q_.n / least_piece < most_pieces ? q_.n / least_piece : most_pieces;
    s_.pieces = u32(wanted < most ? wanted : most ? most : 1);
    for (u32 p = 0; p < s_.pieces; ++p) {
      s_.piece_of[p].begin = q_.n / s_.pieces * p;
      s_.piece_of[p].end = p + 1 < s_.pieces ? q_.n / s_.pieces * (p + 1) : q_.n;
    }
  }
  void make_entries() {
    each_piece([&](piece& a) {
      a.differs = 0;
      a.falls = false;
      key one = 0, before = 0;
      for (size_t i = a.begin; i < a.end; ++i) {
        const key k = t_.encode(read_key<F>(q_, i));
        if (i == a.begin) one = before = k;
        first_[i] = entry::of(k, i);
        a.differs |= k ^ one;
        a.falls |= k < before;
        before = k;
      }
    });
  }
  // One digit: how many entries of a piece have it, where they go, and there they go.
  void sort_by(u32 shift) {
    const entry* const from = sorted();
    entry* const to = s_.in_second ? first_ : second_;
    const auto digit = [&](size_t i) { return u32(from[i].key() >> shift) & (digits - 1); };
    each_piece([&](piece& a) {
      memset(a.at, 0, sizeof(a.at));
      for (size_t i = a.begin; i < a.end; ++i) ++a.at[digit(i)];
    });
    u64 before = 0;
    for (u32 d = 0; d < digits; ++d)
      for (u32 p = 0; p < s_.pieces; ++p) {
        const u64 here = s_.piece_of[p].at[d];
        s_.piece_of[p].at[d] = before;
        before += here;
      }
    each_piece([&](piece& a) {
      for (size_t i = a.begin; i < a.end; ++i) to[a.at[digit(i)]++] = from[i];
    });
    s_.in_second ^= 1;
  }

  // The first sorted entry of begin .. n-1 whose key is not below k, or not above it either.
  u64 lower(u64 begin, u64 n, key k) const {
    while (begin < n) {
      const u64 middle = begin + (n - begin) / 2;
      if (sorted()[middle].key() < k)
        begin = middle + 1;
      else
        n = middle;
    }
    return begin;
  }
  u64 group_end(u64 i) const {
    const key k = sorted()[i].key();
    return k == empty_key<key> ? q_.n : lower(i, q_.n, key(k + 1));
  }
  u64 side_begin() const { return lower(0, q_.n, dead_key<key>); }
  u64 old_lower(key k) const {
    u64 begin = 0;
    for (u64 n = b_.old; begin < n;) {
      const u64 middle = begin + (n - begin) / 2;
      if (old_[middle] < k)
        begin = middle + 1;
      else
        n = middle;
    }
    return begin;
  }
  void cut_by_keys() {  // B2; the keys of the side slots are in no subrange
    const u64 n = side_begin();
    u64 begin = 0, old_begin = 0;
    for (u32 p = 0; p < s_.pieces; ++p) {
      piece& a = s_.piece_of[p];
      const u64 about = n / s_.pieces * (p + 1);
      const bool last = p + 1 == s_.pieces || about >= n;
      a.begin = begin;
      a.end = last ? n : about <= begin ? begin : lower(0, n, sorted()[about].key());
      if (a.end < a.begin) a.end = a.begin;
      a.old_begin = old_begin;
      a.old_end = last || a.end == n ? b_.old : a.end ? old_lower(sorted()[a.end].key()) : 0;
      begin = a.end;
      old_begin = a.old_end;
    }
  }
  // group(begin, end, key, old) for the elements of each key, where old is where the table has it; rest(from, end) for
  // pairs of the table whose keys the batch lacks; both in the order of the keys.
  template <class Group, class Rest>
  void each_group(const piece& a, Group group, Rest rest) const {
    const entry* const e = sorted();
    u64 old = a.old_begin;
    for (u64 i = a.begin; i < a.end;) {
      const key k = e[i].key();
      u64 end = i + 1;
      while (end < a.end && e[end].key() == k) ++end;
      const u64 from = old;
      while (old < a.old_end && old_[old] < k) ++old;
      if (from < old) rest(from, old);
      const bool there = old < a.old_end && old_[old] == k;
      group(i, end, k, there ? &old : nullptr);
      old += there;
      i = end;
    }
    if (old < a.old_end) rest(old, a.old_end);
  }
  // The value that the elements begin .. end-1, all of one key, leave behind. Writes their statuses.
  value together(u64 begin, u64 end, joiner j, bool alive, value v) const {
    const entry* const e = sorted();
    if (end + elements_ahead < q_.n) {
      const u64 later = e[end + elements_ahead].element();
      if (q_.values) host_mem::prefetch<false>(static_cast<const char*>(q_.values) + later * q_.value_bytes);
      if (q_.status) host_mem::prefetch<true>(q_.status + later);
    }
    for (u64 i = begin; i < end; ++i) {
      const bool first = i == begin && !alive;
      const u64 element = e[i].element();
      if (q_.status) q_.status[element] = first ? yes : no;
      if (first || (q_.kind == assign && i + 1 == end))
        v = read_value<F>(q_, element);
      else if (q_.kind == accumulate)
        v = join(j, v, read_value<F>(q_, element));
    }
    return v;
  }

  const table& t_;
  const request& q_;
  const build_request& b_;
  state& s_;
  entry* const first_;
  entry* const second_;
  const key* const old_;
};

GH_END
