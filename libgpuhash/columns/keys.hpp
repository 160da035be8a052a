// Distinct keys and where they are found: an open-addressing table of 8-byte slots over entries in the order of
// insertion.
//
//   slot:   | upper half of the hash | number of the entry + 1 |        0: free
//   entry:  a key of 8 or 24 bytes; the times it was added, if they are counted; its id, if that is not its number
//
// A key of text or bytes is 24 bytes: the length, and then up to 20 bytes, or the first four, a pointer to all of them in
// memory that the index owns, and the last eight. Equality compares bytes, never hashes alone. Slots hold enough of the
// hash to be moved without a look at the keys; at most half of them are used.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "libgpuhash/columns/growing.hpp"
#include "libgpuhash/hash/fold.hpp"
#include "libgpuhash/tile/prefetch.hpp"

namespace gpuhash::columns {

inline constexpr uint64_t odd1 = 0x9e3779b97f4a7c15, odd2 = 0xd6e8feb86659fd93, odd3 = 0xa0761d6478bd642f;

inline uint64_t load64(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}
inline uint64_t load32(const char* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

// One of two addresses. No branch, as the compiler would make of ?:.
inline const char* choose(bool first, uint64_t a, uint64_t b) {
  const uint64_t all = 0 - uint64_t(first);
  return reinterpret_cast<const char*>((a & all) | (b & ~all));
}
inline uint64_t address(const void* p) { return reinterpret_cast<uint64_t>(p); }

/// Are n bytes equal, at least 9?
inline bool same_bytes(const char* a, const char* b, size_t n) {
  if (n > 32) return std::memcmp(a, b, n) == 0;
  uint64_t differ = (load64(a) ^ load64(b)) | (load64(a + n - 8) ^ load64(b + n - 8));
  if (n > 16) differ |= (load64(a + 8) ^ load64(b + 8)) | (load64(a + n - 16) ^ load64(b + n - 16));
  return differ == 0;
}

/// The keys of the hash. Each factor of a product depends on the seed: bytes that meet a constant would make a product
/// zero, and then the other factor would not count.
struct hash_keys {
  uint64_t seed, one, two;
  explicit hash_keys(uint64_t s) : seed(s), one(fold(s ^ odd1, odd2)), two(fold(s ^ odd3, odd1)) {}
};

/// The hash of more than 20 bytes.
inline uint64_t hash_bytes(const char* p, size_t n, const hash_keys& keys) {
  const uint64_t one = keys.one, two = keys.two;
  uint64_t a = keys.seed, b = one;
  size_t left = n;
  for (; left > 32; left -= 32, p += 32) {
    a = fold(load64(p) ^ one, load64(p + 8) ^ a);
    b = fold(load64(p + 16) ^ two, load64(p + 24) ^ b);
  }
  if (left > 16) {
    a = fold(load64(p) ^ one, load64(p + 8) ^ a);
    p += left - 16;
    b = fold(load64(p) ^ two, load64(p + 8) ^ b);
  } else {
    p += left;  // the last 16 bytes, some of which were read before
    b = fold(load64(p - 16) ^ two, load64(p - 8) ^ b);
  }
  return fold(a ^ odd3, b ^ n ^ odd1);
}

struct word_key {
  uint64_t word;
  uint64_t hash(const hash_keys& keys) const { return fold(fold(word ^ keys.seed, odd1) ^ odd3, odd2); }
  bool same(const word_key& o) const { return word == o.word; }
  bool same_after_tag(const word_key& o) const { return word == o.word; }
  void fetch() const {}
};

struct bytes_key {
  uint64_t low;   // length, first four bytes
  uint64_t next;  // the next eight, or the address of all
  uint64_t rest;  // what follows, or the last eight
  static constexpr uint32_t head_bytes = 12, inline_bytes = 20;

  uint32_t length() const { return uint32_t(low); }
  bool is_inline() const { return length() <= inline_bytes; }
  const char* pointer() const { return reinterpret_cast<const char*>(next); }
  std::string_view view() const {
    if (!is_inline()) return {pointer(), length()};
    return {reinterpret_cast<const char*>(&low) + 4, length()};
  }
  uint64_t hash(const hash_keys& keys) const {
    return is_inline() ? hash_words(keys) : hash_bytes(pointer(), length(), keys);
  }
  bool same(const bytes_key& o) const {
    const bool words = ((low ^ o.low) | (rest ^ o.rest)) == 0;
    if (words && next == o.next) return true;
    return words && !is_inline() && same_bytes(pointer() + 4, o.pointer() + 4, length() - 12);
  }
  /// `same`, where it is likely: without a branch on lengths of up to inline_bytes.
  bool same_after_tag(const bytes_key& o) const {
    return is_inline() ? ((low ^ o.low) | (next ^ o.next) | (rest ^ o.rest)) == 0 : same(o);
  }
  // No branch: lengths of one column are as good as random.
  void fetch() const {
    prefetch_line(choose(is_inline(), address(this), next));
    prefetch_line(choose(is_inline(), address(this), next + length() - 1));
  }

  /// end: of the memory in which p lies, if p may be read up to there. *hash: of a key of at most inline_bytes.
  static bytes_key of(const char* p, uint32_t n, const char* end, const hash_keys& keys, uint64_t* hash) {
    static constexpr char none[8] = {};
    const bool is_long = n > head_bytes;
    uint64_t first, next;
    if (end - p >= int64_t{head_bytes}) {
      const cut_words& keep = cuts.of[is_long ? head_bytes : n];
      first = load32(p) & keep.first;
      next = load64(p + 4) & keep.next;
    } else {
      char head[head_bytes] = {};
      if (n) std::memcpy(head, p, is_long ? head_bytes : n);
      first = load32(head);
      next = load64(head + 4);
    }
    const uint32_t missing = inline_bytes - (n < inline_bytes ? n : inline_bytes);
    const uint64_t last = load64(is_long ? p + n - 8 : none);  // of which some bytes may be among the first 12
    bytes_key key{n | first << 32, next, last >> (8 * missing & 63)};
    *hash = key.hash_words(keys);
    if (n > inline_bytes) key.next = address(p);
    return key;
  }
  /// Of more than inline_bytes, with its hash.
  static bytes_key of_long(const char* p, uint32_t n, const hash_keys& keys, uint64_t* hash) {
    *hash = hash_bytes(p, n, keys);
    return {n | load32(p) << 32, address(p), load64(p + n - 8)};
  }
  static bytes_key of(const char* p, uint32_t n, const char* end) {
    uint64_t hash;
    return of(p, n, end, hash_keys(0), &hash);
  }

 private:
  uint64_t hash_words(const hash_keys& keys) const {
    return fold(fold(low ^ keys.seed, next ^ keys.one) ^ rest ^ odd3, odd2);
  }

  // Masks: the bits of the first 4 and the next 8 bytes that belong to a key of each length.
  struct cut_words {
    uint64_t first, next;
  };
  struct cut_table {
    cut_words of[head_bytes + 1] = {};
    constexpr cut_table() {
      for (uint32_t n = 0; n <= head_bytes; ++n)
        of[n] = {n < 4 ? (uint64_t(1) << 8 * n) - 1 : 0xffffffff, n <= 4 ? 0 : ~uint64_t(0) >> 8 * (12 - n)};
    }
  };
  static const cut_table cuts;
};
inline constexpr bytes_key::cut_table bytes_key::cuts;
static_assert(sizeof(void*) == 8 && sizeof(bytes_key) == 24);

/// Memory for bytes that stay where they are. The bytes that were put in last may be taken back.
class heap {
 public:
  char* take(size_t n) {
    if (n > left_) add_block(n);
    char* const p = next_;
    next_ += n;
    left_ -= n;
    return p;
  }
  void give_back(size_t n) {
    next_ -= n;
    left_ += n;
  }
  /// Forget all bytes, and keep the block if there is one; else the next one has room for as many bytes.
  void clear() {
    if (blocks_.size() == 1) {
      next_ = blocks_[0].data();
      left_ = bytes_;
      return;
    }
    next_size_ = bytes_ < most ? bytes_ : most;
    blocks_.clear();
    next_ = nullptr;
    bytes_ = left_ = 0;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t first = size_t{4} << 10, most = size_t{16} << 20;
  void add_block(size_t n) {
    size_t size = bytes_ < first ? first : bytes_ < most ? bytes_ : most;
    if (size < next_size_) size = next_size_;
    if (size < n) size = n;
    growing<char> block;
    block.reserve(size);
    blocks_.push_back(std::move(block));
    next_ = blocks_.back().data();
    left_ = size;
    bytes_ += size;
  }
  std::vector<growing<char>> blocks_;
  char* next_ = nullptr;
  size_t left_ = 0, next_size_ = 0;
  uint64_t bytes_ = 0;
};

template <class Key>
struct item {  // a row on its way
  uint64_t hash;
  Key key;
  uint32_t row;  // of the slice
  uint32_t null;
};

/// One of the divisions of an index by the hash. One thread at a time adds; finds may run side by side.
template <class Key>
class partition {
 public:
  static constexpr uint32_t nothing = UINT32_MAX;

  /// counts: how often each key was added. ids: the keys have ids that are not their numbers.
  partition(bool counts, bool ids) : slots_(least_slots), mask_(least_slots - 1), has_counts_(counts), has_ids_(ids) {}

  /// Make room for so many keys. Throws bad_alloc.
  void reserve(uint64_t keys) {
    uint64_t slots = slots_.size();
    while (crowded(keys, slots)) slots *= 2;
    if (slots > slots_.size()) move_to(slots);
    keys_.reserve(keys);
    if (has_counts_) counts_.reserve(keys);
    if (has_ids_) ids_.reserve(keys);
  }
  size_t size() const { return keys_.size(); }
  const Key& key(uint32_t number) const { return keys_[number]; }
  uint32_t id(uint32_t number) const { return has_ids_ ? ids_[number] : number; }
  void set_id(uint32_t number, uint32_t id) { ids_[number] = id; }
  uint64_t count(uint32_t number) const { return counts_[number]; }
  void add_to_count(uint32_t number, uint64_t times) {
    if (has_counts_) counts_[number] += times;
  }
  /// Of text and bytes: the length of all keys together.
  uint64_t key_bytes() const { return key_bytes_; }
  uint64_t bytes() const {
    return slots_.capacity() * sizeof(uint64_t) + keys_.capacity() * sizeof(Key) + heap_.bytes() +
           counts_.capacity() * sizeof(uint64_t) + ids_.capacity() * sizeof(uint32_t);
  }

  void fetch_slot(const item<Key>& i) const { prefetch_line(&slots_[i.hash >> 32 & mask_]); }
  void fetch_entry(uint32_t number) const {
    prefetch_line(keys_.data() + number);
    if (has_counts_) prefetch_line(counts_.data() + number);
    if (has_ids_) prefetch_line(ids_.data() + number);
  }
  void fetch_bytes(uint32_t number) const { keys_[number].fetch(); }

  /// The number of the entry, or nothing.
  uint32_t find(const item<Key>& i) const {
    if (i.null) return null_;
    for (uint64_t at = i.hash >> 32 & mask_;; at = (at + 1) & mask_) {
      const uint64_t slot = slots_[at];
      if (slot == 0) return nothing;
      if (slot >> 32 == i.hash >> 32 && keys_[uint32_t(slot) - 1].same(i.key)) return uint32_t(slot) - 1;
    }
  }

  /// The result of a look at the first slot of an item: `tagged`, the slot has the item's tag and the number of an
  /// entry; `other`, it has another key's tag; neither: the item is null, or its key is absent.
  struct first_slot {
    uint32_t number;  // 0 if it is not tagged
    bool tagged, other;
  };
  /// The slots to search, for as long as nothing is added.
  struct probe_type {
    const uint64_t* slots;
    uint64_t mask;

    first_slot first_slot_of(const item<Key>& i) const {
      const uint64_t slot = slots[i.hash >> 32 & mask];
      const bool used = (i.null == 0) & (slot != 0), equal = slot >> 32 == i.hash >> 32;
      return {(uint32_t(slot) - 1) & (0 - uint32_t(used & equal)), bool(used & equal), bool(used & !equal)};
    }
    /// In the slots after the first one: the entry's number in the next slot that has the item's tag, or nothing.
    uint32_t tagged_further(const item<Key>& i) const {
      for (uint64_t at = ((i.hash >> 32) + 1) & mask;; at = (at + 1) & mask) {
        if (slots[at] == 0) return nothing;
        if (slots[at] >> 32 == i.hash >> 32) return uint32_t(slots[at]) - 1;
      }
    }
  };
  probe_type probe() const { return {slots_.data(), mask_}; }

  /// The number of the entry, which is made if it is not there. Throws bad_alloc, and nothing has changed.
  uint32_t add(const item<Key>& i, bool* fresh) {
    *fresh = false;
    if (i.null) {
      if (null_ == nothing) {
        null_ = keep({});
        *fresh = true;
      }
      return null_;
    }
    if (crowded(keys_.size() + 1, slots_.size())) move_to((slots_.size() < many_slots ? 4 : 2) * slots_.size());
    uint64_t at = i.hash >> 32 & mask_;
    for (;; at = (at + 1) & mask_) {
      const uint64_t slot = slots_[at];
      if (slot == 0) break;
      if (slot >> 32 == i.hash >> 32 && keys_[uint32_t(slot) - 1].same(i.key)) return uint32_t(slot) - 1;
    }
    const uint32_t number = keep(i.key);
    slots_[at] = (i.hash >> 32) << 32 | (uint64_t(number) + 1);
    *fresh = true;
    return number;
  }
  uint32_t null_entry() const { return null_; }

 private:
  static constexpr size_t least_slots = 64, few_slots = size_t{1} << 14, many_slots = size_t{1} << 20;

  // At most half of the slots are used; of few, which stay in cache, an eighth: hardly a key is then beyond its first slot.
  static bool crowded(uint64_t keys, uint64_t slots) { return (slots < few_slots ? 8 : 2) * keys > slots; }

  // A new entry. Throws bad_alloc, and nothing has changed.
  uint32_t keep(const Key& key) {
    keys_.make_room(1);
    if (has_counts_) counts_.make_room(1);
    if (has_ids_) ids_.make_room(1);
    keys_.push_back(owned(key));
    if constexpr (sizeof(Key) > 8) key_bytes_ += key.length();
    if (has_counts_) counts_.push_back(0);
    if (has_ids_) ids_.push_back(0);
    return uint32_t(keys_.size() - 1);
  }
  word_key owned(const word_key& key) { return key; }
  bytes_key owned(const bytes_key& key) {
    if (key.is_inline()) return key;
    char* const own = heap_.take(key.length());
    std::memcpy(own, key.pointer(), key.length());
    return {key.low, address(own), key.rest};
  }

  void move_to(size_t n) {
    growing<uint64_t> wide(n);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const uint64_t slot = slots_[i];
      if (slot == 0) continue;
      uint64_t at = slot >> 32 & (n - 1);
      while (wide[at]) at = (at + 1) & (n - 1);
      wide[at] = slot;
    }
    slots_.swap(wide);
    mask_ = n - 1;
  }

  growing<uint64_t> slots_;
  uint64_t mask_;
  growing<Key> keys_;
  growing<uint64_t> counts_;
  growing<uint32_t> ids_;
  heap heap_;
  uint64_t key_bytes_ = 0;
  uint32_t null_ = nothing;
  const bool has_counts_, has_ids_;
};

}  // namespace gpuhash::columns
