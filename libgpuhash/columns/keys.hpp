// Distinct keys and where they are found: an open-addressing table of 8-byte slots over entries in the order of
// insertion.
//
//   slot:   | upper half of the hash | number of the entry + 1 |        0: free
//   entry:  | key, 8 or 16 bytes | times it was added | id |
//
// A key of text or bytes is 16 bytes, laid out as Arrow lays out a view: the length, and then up to 12 bytes, or the
// first four and a pointer to all of them in memory that the index owns. Equality compares bytes, never hashes alone.
// Slots hold enough of the hash to be moved without a look at the keys; at most half of them are used.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "libgpuhash/columns/growing.hpp"
#include "libgpuhash/hash/fold.hpp"

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

/// What hashes are keyed by. Each factor of a product depends on the seed: bytes that meet a constant would make a product
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
  uint64_t high;  // the next eight, or the address of all
  static constexpr uint32_t inline_bytes = 12;
  static constexpr uint32_t few_bytes = 20;  // of which the first 12 and the last eight are all

  uint32_t length() const { return uint32_t(low); }
  bool is_inline() const { return length() <= inline_bytes; }
  const char* pointer() const { return reinterpret_cast<const char*>(high); }
  std::string_view view() const {
    if (!is_inline()) return {pointer(), length()};
    return {reinterpret_cast<const char*>(&low) + 4, length()};
  }
  uint64_t hash(const hash_keys& keys) const {
    if (is_inline()) return hash_words(low, high, 0, keys);
    if (length() > few_bytes) return hash_bytes(pointer(), length(), keys);
    return hash_words(low, load64(pointer() + 4), load64(pointer() + length() - 8), keys);
  }
  bool same(const bytes_key& o) const {
    if (low != o.low) return false;
    return high == o.high || (!is_inline() && same_bytes(pointer() + 4, o.pointer() + 4, length() - 4));
  }
  /// `same`, where it is likely: without a branch on lengths of up to few_bytes.
  bool same_after_tag(const bytes_key& o) const {
    const bool ends = ((low ^ o.low) | (load64(next()) ^ load64(o.next())) | (load64(last()) ^ load64(o.last()))) == 0;
    return length() <= few_bytes ? ends : ends && same(o);
  }
  // No branch: lengths of one column are as good as random.
  void fetch() const { __builtin_prefetch(choose(is_inline(), address(this), high)); }

  /// end: of the memory in which p lies, if p may be read up to there. *hash: of a key of at most few_bytes.
  static bytes_key of(const char* p, uint32_t n, const char* end, const hash_keys& keys, uint64_t* hash) {
    static constexpr char none[8] = {};
    const bool is_long = n > inline_bytes;
    uint64_t first, next;
    if (end - p >= int64_t{inline_bytes}) {
      const cut_words& keep = cuts.of[is_long ? inline_bytes : n];
      first = load32(p) & keep.first;
      next = load64(p + 4) & keep.next;
    } else {
      char head[inline_bytes] = {};
      if (n) std::memcpy(head, p, is_long ? inline_bytes : n);
      first = load32(head);
      next = load64(head + 4);
    }
    const uint64_t low = n | first << 32;
    const uint64_t last = load64(is_long ? p + n - 8 : none);
    *hash = hash_words(low, next, last, keys);
    return {low, is_long ? reinterpret_cast<uint64_t>(p) : next};
  }
  static bytes_key of(const char* p, uint32_t n, const char* end) {
    uint64_t hash;
    return of(p, n, end, hash_keys(0), &hash);
  }

 private:
  const char* next() const { return choose(is_inline(), address(&high), high + 4); }
  const char* last() const { return choose(is_inline(), address(&high), high + length() - 8); }

  // next: bytes 4 to 11; last: the last eight, if there are more than 12.
  static uint64_t hash_words(uint64_t low, uint64_t next, uint64_t last, const hash_keys& keys) {
    return fold(fold(low ^ keys.seed, next ^ keys.one) ^ last ^ odd3, odd2);
  }

  // What stays of the 4 and the next 8 bytes at a key of each length.
  struct cut_words {
    uint64_t first, next;
  };
  struct cut_table {
    cut_words of[inline_bytes + 1] = {};
    constexpr cut_table() {
      for (uint32_t n = 0; n <= inline_bytes; ++n)
        of[n] = {n < 4 ? (uint64_t(1) << 8 * n) - 1 : 0xffffffff, n <= 4 ? 0 : ~uint64_t(0) >> 8 * (12 - n)};
    }
  };
  static const cut_table cuts;
};
inline constexpr bytes_key::cut_table bytes_key::cuts;
static_assert(sizeof(void*) == 8 && sizeof(bytes_key) == 16);

/// Memory for bytes that stay where they are. What was put in last may be taken back.
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
  /// Forget all bytes, and keep the last block.
  void clear() {
    if (blocks_.empty()) return;
    blocks_.front() = std::move(blocks_.back());
    blocks_.resize(1);
    next_ = blocks_[0].get();
    bytes_ = left_ = last_;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t first = size_t{4} << 10, most = size_t{16} << 20;
  void add_block(size_t n) {
    size_t size = bytes_ < first ? first : bytes_ < most ? bytes_ : most;
    if (size < n) size = n;
    blocks_.emplace_back();  // first what may throw
    std::unique_ptr<char[]> block(new (std::nothrow) char[size]);
    if (!block) {
      blocks_.pop_back();
      throw std::bad_alloc();
    }
    advise_huge_pages(block.get(), size);
    blocks_.back() = std::move(block);
    next_ = blocks_.back().get();
    last_ = left_ = size;
    bytes_ += size;
  }
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  size_t left_ = 0, last_ = 0;
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
  struct entry {
    Key key;
    uint64_t count;
    uint32_t id;
  };
  static constexpr uint32_t nothing = UINT32_MAX;

  partition() : slots_(least_slots), mask_(least_slots - 1) {}

  /// Make room for so many keys.
  void reserve(uint64_t keys) {
    uint64_t slots = slots_.size();
    while (crowded(keys, slots)) slots *= 2;
    if (slots > slots_.size()) move_to(slots);
    entries_.reserve(keys);
  }
  size_t size() const { return entries_.size(); }
  entry& at(uint32_t number) { return entries_[number]; }
  const entry& at(uint32_t number) const { return entries_[number]; }
  uint64_t bytes() const {
    return slots_.capacity() * sizeof(uint64_t) + entries_.capacity() * sizeof(entry) + heap_.bytes();
  }

  void fetch_slot(const item<Key>& i) const { __builtin_prefetch(&slots_[i.hash >> 32 & mask_]); }
  void fetch_entry(const item<Key>& i) const { __builtin_prefetch(at_slot(slots_[i.hash >> 32 & mask_])); }
  void fetch_bytes(const item<Key>& i) const {
    if constexpr (sizeof(Key) > 8)
      if (!entries_.empty()) at_slot(slots_[i.hash >> 32 & mask_])->key.fetch();
  }

  /// The number of the entry, or nothing.
  uint32_t find(const item<Key>& i) const {
    if (i.null) return null_;
    for (uint64_t at = i.hash >> 32 & mask_;; at = (at + 1) & mask_) {
      const uint64_t slot = slots_[at];
      if (slot == 0) return nothing;
      if (slot >> 32 == i.hash >> 32 && entries_[uint32_t(slot) - 1].key.same(i.key)) return uint32_t(slot) - 1;
    }
  }

  /// What the first slot says of an item: `tagged`, it has the item's tag and the number of an entry; `other`, it does
  /// not tell; neither: the key is absent.
  struct first_slot {
    uint32_t number;  // 0 if it is not tagged
    bool tagged, other;
  };
  /// Where to look, for as long as nothing is added.
  struct probe_type {
    const uint64_t* slots;
    uint64_t mask;
    const entry* entries;

    first_slot first_slot_of(const item<Key>& i) const {
      const uint64_t slot = slots[i.hash >> 32 & mask];
      const bool key = i.null == 0, used = slot != 0;
      const bool tagged = key & used & (slot >> 32 == i.hash >> 32);
      return {(uint32_t(slot) - 1) & (0 - uint32_t(tagged)), tagged, bool((used | !key) & !tagged)};
    }
  };
  probe_type probe() const { return {slots_.data(), mask_, entries_.data()}; }

  /// The number of the entry, which is made with this id if it is not there. Throws bad_alloc, and nothing has changed.
  uint32_t add(const item<Key>& i, uint32_t id, bool* fresh) {
    *fresh = false;
    if (i.null) {
      if (null_ == nothing) {
        entries_.push_back({{}, 0, id});
        null_ = uint32_t(entries_.size() - 1);
        *fresh = true;
      }
      return null_;
    }
    if (crowded(entries_.size() + 1, slots_.size())) move_to((slots_.size() < many_slots ? 4 : 2) * slots_.size());
    uint64_t at = i.hash >> 32 & mask_;
    for (;; at = (at + 1) & mask_) {
      const uint64_t slot = slots_[at];
      if (slot == 0) break;
      if (slot >> 32 == i.hash >> 32 && entries_[uint32_t(slot) - 1].key.same(i.key)) return uint32_t(slot) - 1;
    }
    keep(i.key, id);
    slots_[at] = (i.hash >> 32) << 32 | entries_.size();
    *fresh = true;
    return uint32_t(entries_.size() - 1);
  }
  uint32_t null_entry() const { return null_; }

 private:
  static constexpr size_t least_slots = 64, few_slots = size_t{1} << 14, many_slots = size_t{1} << 20;

  // At most half of the slots are used; of few, which stay in cache, an eighth: hardly a key is then beyond its first slot.
  static bool crowded(uint64_t keys, uint64_t slots) { return (slots < few_slots ? 8 : 2) * keys > slots; }

  // The entry of a slot; the first one of a slot that is free.
  const entry* at_slot(uint64_t slot) const { return entries_.data() + (uint32_t(slot) - uint32_t(slot != 0)); }

  void keep(const word_key& key, uint32_t id) { entries_.push_back({key, 0, id}); }
  void keep(const bytes_key& key, uint32_t id) {
    if (key.is_inline()) return entries_.push_back({key, 0, id});
    char* const own = heap_.take(key.length());
    std::memcpy(own, key.pointer(), key.length());
    try {
      entries_.push_back({{key.low, reinterpret_cast<uint64_t>(own)}, 0, id});
    } catch (...) {
      heap_.give_back(key.length());
      throw;
    }
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
  growing<entry> entries_;
  heap heap_;
  uint32_t null_ = nothing;
};

}  // namespace gpuhash::columns
