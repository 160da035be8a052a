// Keys and values of stadium: of 4 and 8 bytes, known when this is compiled, or of any multiple of 4.
//
// A pair type S says what a key is to an operation (S::key), and how a slot's key and value are read and written. `from`
// and `to` are elements of the caller's arrays.
#pragma once
#include "layout.hpp"
#include "libgpuhash/kit/meaning.hpp"
#include "libgpuhash/tile/tile.hpp"

GH_BEGIN

// Words of a slot, one after another: a key, which is not written any more, or a value that may be torn.
template <class Mem>
GH_FN void load_words(const void* slot, void* to, u32 bytes) {
  const u32* const from = static_cast<const u32*>(slot);
  for (u32 w = 0; w < bytes / 4; ++w) static_cast<u32*>(to)[w] = Mem::template load<order::relaxed>(from + w);
}
template <class Mem>
GH_FN void store_words(void* slot, const void* from, u32 bytes) {
  u32* const to = static_cast<u32*>(slot);
  for (u32 w = 0; w < bytes / 4; ++w)
    Mem::template store<order::relaxed>(to + w, from ? static_cast<const u32*>(from)[w] : 0);
}

// A value of 4 or 8 bytes is one word; a wider one is read and written in words of 4.
GH_FN u32* value_words(const stadium_table& t, u64 cell) { return reinterpret_cast<u32*>(t.values + cell * t.stride); }
GH_FN u64* long_value(const stadium_table& t, u64 cell) {
  return reinterpret_cast<u64*>(t.long_values + cell * t.stride);
}
template <class Mem>
GH_FN void load_value(const stadium_table& t, u64 cell, void* to, u32 bytes) {
  if (bytes == 8)
    *static_cast<u64*>(to) = Mem::template load<order::relaxed>(long_value(t, cell));
  else
    load_words<Mem>(value_words(t, cell), to, bytes);
}
template <class Mem>
GH_FN void store_value(const stadium_table& t, u64 cell, const void* from, u32 bytes) {
  if (bytes == 8)
    Mem::template store<order::relaxed>(long_value(t, cell), from ? *static_cast<const u64*>(from) : 0);
  else
    store_words<Mem>(value_words(t, cell), from, bytes);
}

// Join an operand into a value. A sum of integers takes one instruction, whatever others do meanwhile.
template <class Mem, class V>
GH_FN void join_value(V* value, const void* from, joiner j) {
  const V operand = from ? *static_cast<const V*>(from) : V(0);
  if (j.combine == 0 && j.type != 2) {
    Mem::template fetch_add<order::relaxed>(value, operand);
    return;
  }
  for (V seen = Mem::template load<order::relaxed>(value);;) {
    const V now = Mem::template cas<order::relaxed>(value, seen, join(j, seen, operand));
    if (now == seen) return;
    seen = now;
  }
}

// Keys of 4 or 8 bytes, values of 0, 4 or 8.
template <class Key, u32 ValueBytes>
struct small_pair {
  using key = Key;
  static constexpr bool wide = false;
  static constexpr u32 value_size = ValueBytes;
  GH_FN static u32 value_bytes(const stadium_table&) { return ValueBytes; }
  GH_FN static u32 value_at(const stadium_table&) { return shape_of(sizeof(Key), ValueBytes).value_at; }
  GH_FN static u64 hash_of(const stadium_table& t, key k) { return hash(u64(k), t.seed); }
  template <class Mem>
  GH_FN static bool same_key(const stadium_table&, const void* slot, key k) {
    return Mem::template load<order::relaxed>(static_cast<const key*>(slot)) == k;
  }
  template <class Mem>
  GH_FN static void put_key(const stadium_table&, void* slot, key k) {
    Mem::template store<order::relaxed>(static_cast<key*>(slot), k);
  }
  GH_FN static key read_key(const stadium_table&, const void* keys, size_t i) {
    return static_cast<const key*>(keys)[i];
  }
};

// Any multiples of 4 bytes. A key is a pointer to its words.
struct wide_pair {
  using key = const u32*;
  static constexpr bool wide = true;
  static constexpr u32 value_size = 0;  // known at run time
  GH_FN static u32 value_bytes(const stadium_table& t) { return t.value_bytes; }
  GH_FN static u32 value_at(const stadium_table& t) { return t.value_at; }
  GH_FN static u64 hash_of(const stadium_table& t, key k) {
    const u32 words = t.key_bytes / 4;
    u64 h = t.seed;
    for (u32 w = 0; w + 1 < words; w += 2) h = mix(h ^ (u64(k[w]) | u64(k[w + 1]) << 32)) + t.seed;
    if (words % 2) h = mix(h ^ k[words - 1]) + t.seed;
    return mix(h);
  }
  template <class Mem>
  GH_FN static bool same_key(const stadium_table& t, const void* slot, key k) {
    const u32* const there = static_cast<const u32*>(slot);
    for (u32 w = 0; w < t.key_bytes / 4; ++w)
      if (Mem::template load<order::relaxed>(there + w) != k[w]) return false;
    return true;
  }
  template <class Mem>
  GH_FN static void put_key(const stadium_table& t, void* slot, key k) {
    store_words<Mem>(slot, k, t.key_bytes);
  }
  GH_FN static key read_key(const stadium_table& t, const void* keys, size_t i) {
    return static_cast<const u32*>(keys) + i * (t.key_bytes / 4);
  }
};

GH_END
