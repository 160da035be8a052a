// Reads a block of rows of a column, and makes the hashed keys of it that an index looks up.
#pragma once

#include <algorithm>

#include "libgpuhash/columns/cells.hpp"
#include "libgpuhash/columns/encode_block.hpp"
#include "libgpuhash/columns/keys.hpp"
#include "libgpuhash/columns/texts.hpp"

namespace gpuhash::columns {

/// Rows that a call serves. selection, if not NULL: row i is row selection[i] of the column, null where that is below
/// 0. weights, if not NULL: it stands for so many rows.
struct batch {
  const rows& given;
  const column_view* column;  // of single rows: the column, or its dictionary's values
  const int64_t* selection = nullptr;
  const int64_t* weights = nullptr;
  int64_t length;
  int64_t row(int64_t i) const { return selection ? selection[i] : i; }
  /// Are these rows of one column of text or bytes, all of which an index of this type can hold?
  bool texts_alone(const row_type& own) const {
    return own.single() && own.columns[0].variable() && own.columns[0].how != layout::fixed_bytes &&
           selection == nullptr && column->type->kind != family::null && column->type->how != layout::fixed_bytes;
  }
};

struct gathered {
  size_t items = 0;
  int64_t null = -1, absent = -1;  // the first row that is
};

template <class Key>
class gatherer {
 public:
  gatherer(const batch& b, const row_type& own, bool bits, bool keep_nulls, uint64_t seed)
      : b_(b),
        own_(own),
        encode_(b.given, *b.column, own, bits),
        encode_block_(b.given, own, bits, encode_),
        bits_(bits),
        keep_nulls_(keep_nulls),
        keys_(seed) {}

  /// Rows begin .. end - 1, whose items count rows from `from`. Bytes of encoded rows go to `bytes`.
  gathered operator()(int64_t begin, int64_t end, int64_t from, item<Key>* out, heap* bytes) const {
    if constexpr (sizeof(Key) > 8) {
      if (plain()) {
        switch (b_.column->type->how) {
          case layout::offsets32: return texts<layout::offsets32>(begin, end, from, out);
          case layout::offsets64: return texts<layout::offsets64>(begin, end, from, out);
          case layout::views: return texts<layout::views>(begin, end, from, out);
          default: break;
        }
      }
      if (encode_block_.serves() && b_.selection == nullptr) return several(begin, end, from, out, bytes);
    } else if (same_words()) {
      const column_type& own = own_.columns[0];
      if (own.width == 4 && own.is_signed) return words<int32_t>(begin, end, from, out);
      if (own.width == 4 && own.kind != family::floating) return words<uint32_t>(begin, end, from, out);
      if (own.width == 8 && own.kind == family::floating && !bits_) return words<double>(begin, end, from, out);
      if (own.width == 8) return words<uint64_t>(begin, end, from, out);
    }
    gathered g;
    one_by_one(begin, end, from, out, bytes, &g);
    return g;
  }

 private:
  void one_by_one(int64_t begin, int64_t end, int64_t from, item<Key>* out, heap* bytes, gathered* g) const {
    for (int64_t i = begin; i < end; ++i) {
      item<Key>& o = out[g->items];
      const found_as what = read(b_.row(i), &o.key, bytes);
      o.row = uint32_t(i - from);
      o.null = what == found_as::null && own_.single();
      if (what == found_as::key || (what == found_as::null && keep_nulls_)) {
        o.hash = o.null ? 0 : o.key.hash(keys_);
        ++g->items;
      }
      if (what == found_as::null && g->null < 0) g->null = i;
      if (what == found_as::absent && g->absent < 0) g->absent = i;
    }
  }

  // Are these rows of one column of text or bytes without nulls, all of which the index can hold?
  bool plain() const { return b_.texts_alone(own_) && b_.column->validity == nullptr; }

  // Are these rows of one column of numbers or times without nulls, of the index's own type?
  bool same_words() const {
    const column_type &own = own_.columns[0], &given = *b_.column->type;
    return b_.selection == nullptr && b_.column->validity == nullptr && own.how == layout::fixed &&
           own.kind == given.kind && own.width == given.width && own.is_signed == given.is_signed &&
           own.nanoseconds == given.nanoseconds;
  }
  template <class T>
  gathered words(int64_t begin, int64_t end, int64_t from, item<Key>* out) const {
    for (int64_t i = begin; i < end; ++i) {
      item<Key>& o = out[i - begin];
      const T cell = b_.column->cell<T>(i);
      if constexpr (std::is_floating_point_v<T>)
        o.key.word = word_of(cell);
      else
        o.key.word = uint64_t(cell);
      o.hash = o.key.hash(keys_);
      o.row = uint32_t(i - from);
      o.null = 0;
    }
    gathered g;
    g.items = size_t(end - begin);
    return g;
  }

  // A few rows at a time. If the first of them is short: the keys with the hashes of short ones, without a branch, and
  // then the hashes of the others; else key by key. The loops read variables of their own, since the compiler cannot
  // know that no item is written over others.
  template <layout how>
  gathered texts(int64_t begin, int64_t end, int64_t from, item<Key>* out) const {
    constexpr int64_t few = 64;
    const column_view& c = *b_.column;
    const texts_of<how> text{c};
    const hash_keys keys = keys_;
    uint32_t far[few];
    for (int64_t at = begin; at < end; at += few) {
      const int64_t n = std::min(few, end - at);
      item<Key>* const o = out + (at - begin);
      if (text[at].length > Key::inline_bytes) {
        for (int64_t i = 0; i < n; ++i) {
          const auto [p, length, readable] = text[at + i];
          uint64_t hash;
          const Key key = length > Key::inline_bytes ? Key::of_long(p, length, keys, &hash)
                                                     : Key::of(p, length, readable, keys, &hash);
          o[i] = {hash, key, uint32_t(at + i - from), 0};
        }
        continue;
      }
      int64_t n_far = 0;
      for (int64_t i = 0; i < n; ++i) {
        const auto [p, length, readable] = text[at + i];
        uint64_t hash;
        const Key key = Key::of(p, length, readable, keys, &hash);
        o[i] = {hash, key, uint32_t(at + i - from), 0};
        far[n_far] = uint32_t(i);
        n_far += int64_t(length > Key::inline_bytes);
      }
      for (int64_t i = 0; i < n_far; ++i) o[far[i]].hash = o[far[i]].key.hash(keys);
    }
    gathered g;
    g.items = size_t(end - begin);
    return g;
  }
  // Rows of several columns, the bytes of which are made a few rows at a time.
  gathered several(int64_t begin, int64_t end, int64_t from, item<Key>* out, heap* bytes) const {
    gathered g;
    const hash_keys keys = keys_;
    block_encoder::block rows;
    for (int64_t at = begin; at < end; at += block_encoder::most) {
      const int64_t n = std::min(block_encoder::most, end - at);
      if (!encode_block_.write(at, n, bytes, &rows)) {
        one_by_one(at, at + n, from, out, bytes, &g);
        continue;
      }
      bool all_inline = true;
      for (int64_t k = 0; k < n; ++k) {
        const char* const p = rows.at[size_t(k)];
        const uint32_t length = rows.length[size_t(k)];
        const found_as what = rows.what[size_t(k)];
        uint64_t hash;
        const Key key = length > Key::inline_bytes ? Key::of_long(p, length, keys, &hash)
                                                   : Key::of(p, length, p + Key::head_bytes, keys, &hash);
        out[g.items] = {hash, key, uint32_t(at + k - from), 0};
        g.items += size_t(what == found_as::key || (what == found_as::null && keep_nulls_));
        all_inline &= length <= Key::inline_bytes;
        if (what == found_as::null && g.null < 0) g.null = at + k;
        if (what == found_as::absent && g.absent < 0) g.absent = at + k;
      }
      if (all_inline) bytes->give_back(rows.taken);
    }
    return g;
  }
  found_as read(int64_t row, word_key* key, heap*) const {
    const column_view& c = *b_.column;
    if (row < 0 || !c.valid(row) || c.type->kind == family::null) return found_as::null;
    return read_word(c, row, own_.columns[0], bits_, &key->word) ? found_as::key : found_as::absent;
  }
  found_as read(int64_t row, bytes_key* key, heap* bytes) const {
    if (!own_.columns[0].variable() || !own_.single()) return read_encoded(row, key, bytes);
    const column_view& c = *b_.column;
    if (row < 0 || !c.valid(row) || c.type->kind == family::null) return found_as::null;
    if (c.type->how == layout::views) {
      const view_cell* v = static_cast<const view_cell*>(c.data) + c.first + row;
      const char* const cell = reinterpret_cast<const char*>(v);
      if (!own_.columns[0].holds(size_t(v->length))) return found_as::absent;
      *key = v->length <= 12 ? bytes_key::of(v->head, uint32_t(v->length), cell + sizeof(*v))
                             : bytes_key::of(viewed(c, row).data(), uint32_t(v->length), nullptr);
      return found_as::key;
    }
    const std::string_view s = c.string(row);
    if (!own_.columns[0].holds(s.size())) return found_as::absent;
    *key = bytes_key::of(s.data(), uint32_t(s.size()), c.end ? c.end : s.data() + s.size());
    return found_as::key;
  }
  found_as read_encoded(int64_t row, bytes_key* key, heap* bytes) const {
    if (row < 0) return found_as::null;
    const size_t most = encode_.bytes(row);
    if (most >= UINT32_MAX) return found_as::absent;
    char* const to = bytes->take(most);
    size_t n = 0;
    const found_as what = encode_.write(row, to, &n);
    *key = bytes_key::of(to, uint32_t(n), to + most);
    if (key->is_inline()) bytes->give_back(most);
    return what;
  }

  const batch& b_;
  const row_type& own_;
  encoder encode_;
  block_encoder encode_block_;
  bool bits_, keep_nulls_;
  const hash_keys keys_;
};

}  // namespace gpuhash::columns
