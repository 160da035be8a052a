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

namespace gpuhash::columns {

// Both halves of a product of 64 by 64 bits, folded: every bit of a and b reaches every bit of the result (Yi, wyhash,
// 2019).
inline uint64_t fold(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return uint64_t(product) ^ uint64_t(product >> 64);
}
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

/// The hash of at least 13 bytes. The factors depend on the seed: without it no input can be made whose product is zero.
inline uint64_t hash_bytes(const char* p, size_t n, uint64_t seed) {
  const uint64_t one = fold(seed ^ odd1, odd2), two = fold(seed ^ odd3, odd1);
  uint64_t a = seed, b = one;
  size_t left = n;
  for (; left > 32; left -= 32, p += 32) {
    a = fold(load64(p) ^ one, load64(p + 8) ^ a);
    b = fold(load64(p + 16) ^ two, load64(p + 24) ^ b);
  }
  if (left > 16) {
    a = fold(load64(p) ^ one, load64(p + 8) ^ a);
    p += left - 16;
    b = fold(load64(p) ^ two, load64(p + 8) ^ b);
  } else if (n >= 16) {
    p += left;  // the last 16 bytes, some of which were read before
    b = fold(load64(p - 16) ^ two, load64(p - 8) ^ b);
  } else {
    b = fold(load64(p) ^ two, load64(p + n - 8) ^ b);
  }
  return fold(a ^ odd3, b ^ n ^ odd1);
}

struct word_key {
  uint64_t word;
  uint64_t hash(uint64_t seed) const { return fold(fold(word ^ seed, odd1) ^ odd3, odd2); }
  bool same(const word_key& o) const { return word == o.word; }
  bool same_words(const word_key& o) const { return word == o.word; }
  void fetch() const {}
};

struct bytes_key {
  uint64_t low;   // length, first four bytes
  uint64_t high;  // the next eight, or the address of all
  static constexpr uint32_t inline_bytes = 12;

  uint32_t length() const { return uint32_t(low); }
  bool is_inline() const { return length() <= inline_bytes; }
  const char* pointer() const { return reinterpret_cast<const char*>(high); }
  std::string_view view() const {
    if (!is_inline()) return {pointer(), length()};
    return {reinterpret_cast<const char*>(&low) + 4, length()};
  }
  uint64_t hash(uint64_t seed) const { return is_inline() ? hash_words(seed) : hash_bytes(pointer(), length(), seed); }
  uint64_t hash_words(uint64_t seed) const { return fold(fold(low ^ seed, high ^ odd1) ^ odd3, odd2); }
  bool same(const bytes_key& o) const {
    if (low != o.low) return false;
    return high == o.high || (!is_inline() && std::memcmp(pointer(), o.pointer(), length()) == 0);
  }
  /// Are both words equal? Of inline keys, and of those with one address, the keys then are.
  bool same_words(const bytes_key& o) const { return ((low ^ o.low) | (high ^ o.high)) == 0; }
  // No branch: lengths of one column are as good as random.
  void fetch() const { __builtin_prefetch(is_inline() ? reinterpret_cast<const char*>(this) : pointer()); }

  /// end: of the memory in which p lies, if p may be read up to there.
  static bytes_key of(const char* p, uint32_t n, const char* end) {
    if (end - p >= int64_t{inline_bytes}) {
      const cut_words& keep = cuts.of[n <= inline_bytes ? n : inline_bytes + 1];
      return {n | (load32(p) & keep.first) << 32, (load64(p + 4) & keep.rest) | (uint64_t(p) & keep.address)};
    }
    if (n > inline_bytes) return {n | load32(p) << 32, uint64_t(p)};
    char head[16] = {};
    if (n) std::memcpy(head + 4, p, n <= inline_bytes ? n : inline_bytes);
    bytes_key k;
    std::memcpy(&k, head, 16);
    k.low |= n;
    return k;
  }

 private:
  // What stays of the 4 and 8 bytes at a key of each length, and of its address; the last is for all longer ones.
  struct cut_words {
    uint64_t first, rest, address;
  };
  struct cut_table {
    cut_words of[inline_bytes + 2] = {};
    constexpr cut_table() {
      for (uint32_t n = 0; n <= inline_bytes; ++n)
        of[n] = {n < 4 ? (uint64_t(1) << 8 * n) - 1 : 0xffffffff, n <= 4 ? 0 : ~uint64_t(0) >> 8 * (12 - n), 0};
      of[inline_bytes + 1] = {0xffffffff, 0, ~uint64_t(0)};
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
  static constexpr size_t first = size_t{4} << 10, most = size_t{1} << 20;
  void add_block(size_t n) {
    size_t size = bytes_ < first ? first : bytes_ < most ? bytes_ : most;
    if (size < n) size = n;
    blocks_.emplace_back();  // first what may throw
    std::unique_ptr<char[]> block(new (std::nothrow) char[size]);
    if (!block) {
      blocks_.pop_back();
      throw std::bad_alloc();
    }
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

  /// What the first slot says of a key. Most keys are there, or it is free: no branch tells which.
  struct first_slot {
    uint32_t number;  // of the key's entry, or of some other
    bool here, absent;
  };
  /// The partition has an entry.
  first_slot at_first_slot(const item<Key>& i) const {
    const uint64_t slot = slots_[i.hash >> 32 & mask_];
    const bool key = i.null == 0, used = slot != 0;
    const uint32_t number = uint32_t(slot) - uint32_t(used);
    const bool same = (slot >> 32 == i.hash >> 32) & entries_[number].key.same_words(i.key);
    return {number, bool(key & used & same), bool(key & !used)};
  }

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
    std::vector<uint64_t> wide(n);
    for (const uint64_t slot : slots_) {
      if (slot == 0) continue;
      uint64_t at = slot >> 32 & (n - 1);
      while (wide[at]) at = (at + 1) & (n - 1);
      wide[at] = slot;
    }
    slots_.swap(wide);
    mask_ = n - 1;
  }

  std::vector<uint64_t> slots_;
  uint64_t mask_;
  std::vector<entry> entries_;
  heap heap_;
  uint32_t null_ = nothing;
};

}  // namespace gpuhash::columns
