// A few texts of which only is asked whether they are there. A row is looked up by its length, its first eight and its last
// eight bytes, which are all of a text of up to 16 bytes and tell most longer ones apart: most rows need no other look.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "libgpuhash/columns/keys.hpp"
#include "libgpuhash/columns/texts.hpp"
#include "libgpuhash/tile/sizes.hpp"

namespace gpuhash::columns {

/// Texts stay where they are while they are members. More of them than `most` would leave the cache.
class members {
 public:
  static constexpr size_t most = tunable("members", size_t{1} << 12);
  static constexpr int64_t block = tunable("members_block", int64_t{64});  // rows whose rest is compared together
  static_assert(most <= UINT16_MAX && block <= 64);                        // numbers in slots; bits of a word

  /// Room for n texts. Throws bad_alloc.
  members(size_t n, const hash_keys& keys)
      : keys_(keys), slots_(std::bit_ceil(std::max(slots_of_text * n, size_t{2}))), mask_(slots_.size() - 1) {
    texts_.reserve(n + 1);
    texts_.push_back({0, 0, no_length, 0, nullptr});  // of all free slots; equal to no row
  }

  /// False: the text has a slot with many others, or has their length, their first and their last bytes.
  bool add(std::string_view s) {
    const words w = words_of({s.data(), uint32_t(s.size()), s.data() + s.size()});
    uint16_t& slot = slots_[place_of(w, keys_, mask_)];
    int chain = 0;
    for (size_t at = slot; at; at = texts_[at].next)
      if (++chain == longest_chain || texts_[at].differs(w) == 0) return false;
    texts_.push_back({w.first, w.last, w.length, slot, s.data()});
    slot = uint16_t(texts_.size() - 1);
    return true;
  }

  /// found[i], of rows begin .. end - 1: is row i a member? for_null: the answer to nulls.
  void look(const column_view& c, int64_t begin, int64_t end, uint8_t* found, uint8_t for_null) const {
    switch (c.type->how) {
      case layout::offsets32: return look_in<layout::offsets32>(c, begin, end, found, for_null);
      case layout::offsets64: return look_in<layout::offsets64>(c, begin, end, found, for_null);
      default: return look_in<layout::views>(c, begin, end, found, for_null);
    }
  }

 private:
  static constexpr size_t slots_of_text = 8;  // so few chains have two members
  static constexpr int longest_chain = 8;
  static constexpr uint32_t no_length = UINT32_MAX;

  struct words {
    uint64_t first, last;  // last: 0 of less than 8 bytes
    uint32_t length;
  };
  struct entry {
    uint64_t first, last;
    uint32_t length, next;  // next: another member of its slot
    const char* bytes;

    uint64_t differs(const words& w) const { return (first ^ w.first) | (last ^ w.last) | (length ^ w.length); }
  };
  struct mask_table {
    uint64_t of[9] = {};
    constexpr mask_table() {
      for (int n = 1; n <= 8; ++n) of[n] = ~uint64_t(0) >> (64 - 8 * n);
    }
  };
  static const mask_table masks;  // the bits of the first eight bytes that belong to a text of each length

  // No branch on the length, which is as good as random; one on the end of memory, which only the last rows meet. Long: of
  // at least 8 bytes.
  template <bool Long = false>
  static words words_of(const text& t) {
    static constexpr char none[8] = {};
    const uint32_t n = t.length;
    if constexpr (Long) return {load64(t.begin), load64(t.begin + n - 8), n};
    uint64_t first;
    if (t.end - t.begin >= 8) {
      first = load64(t.begin) & masks.of[std::min(n, uint32_t{8})];
    } else {
      char head[8] = {};
      if (n) std::memcpy(head, t.begin, n);
      first = load64(head);
    }
    return {first, load64(choose(n >= 8, address(t.begin) + n - 8, address(none))), n};
  }
  static size_t place_of(const words& w, const hash_keys& keys, size_t mask) {
    return fold((w.first ^ keys.seed) + w.length, w.last ^ keys.one) & mask;
  }

  template <layout how>
  void look_in(const column_view& c, int64_t begin, int64_t end, uint8_t* found, uint8_t for_null) const {
    if (c.validity) return look_by<how, true>(c, begin, end, found, for_null);
    look_by<how, false>(c, begin, end, found, for_null);
  }
  template <layout how, bool Nulls>
  void look_by(const column_view& c, int64_t begin, int64_t end, uint8_t* found, uint8_t for_null) const {
    static constexpr char none[8] = {};
    const texts_of<how> all{c};
    std::array<uint16_t, size_t(block)> numbers;
    for (; begin < end; begin += block, found += block) {
      const int64_t n = std::min(block, end - begin);
      const auto at = [all, begin, &c](int64_t k) {  // a null's bytes are not looked at: a view may point anywhere
        return Nulls && !c.valid(begin + k) ? text{none, 0, none + sizeof(none)} : all[begin + k];
      };
      uint32_t lengths = 0;  // the highest bit is set if one is less than 8, or more than 2^31
      for (int64_t k = 0; !Nulls && k < n; ++k) lengths |= all.length(begin + k) - 8;
      uint64_t further =
          Nulls || lengths >> 31 ? look_first<false>(at, n, found, &numbers) : look_first<true>(at, n, found, &numbers);
      for (; further; further &= further - 1) {
        const auto k = std::countr_zero(further);
        found[k] = uint8_t(is_there(at(k), numbers[size_t(k)]));
      }
      if constexpr (Nulls)
        for (int64_t k = 0; k < n; ++k)
          if (!c.valid(begin + k)) found[k] = for_null;
    }
  }
  // The first member in the slot of each row; a bit for each row that this did not decide. Without a branch on it.
  template <bool Long, class At>
  uint64_t look_first(At text_at, int64_t n, uint8_t* found, std::array<uint16_t, size_t(block)>* numbers) const {
    const hash_keys keys = keys_;  // and all else that the loop reads: the compiler cannot know that it stays as it is
    const uint16_t* const slots = slots_.data();
    const entry* const texts = texts_.data();
    const size_t mask = mask_;
    uint64_t further = 0;
    for (int64_t k = 0; k < n; ++k) {
      const words w = words_of<Long>(text_at(k));
      const uint16_t number = (*numbers)[size_t(k)] = slots[place_of(w, keys, mask)];
      const entry& e = texts[number];
      const bool same = e.differs(w) == 0;
      found[k] = uint8_t(same);
      further |= uint64_t((same & (w.length > 16)) | (!same & (e.next != 0))) << k;
    }
    return further;
  }
  bool is_there(const text& t, size_t at) const {
    const words w = words_of(t);
    for (; at; at = texts_[at].next) {
      const entry& e = texts_[at];
      if (e.differs(w)) continue;
      return w.length <= 16 || std::memcmp(e.bytes + 8, t.begin + 8, w.length - 16) == 0;
    }
    return false;
  }

  const hash_keys keys_;
  std::vector<uint16_t> slots_;  // the number of a text, 0: none
  const size_t mask_;
  std::vector<entry> texts_;
};
inline constexpr members::mask_table members::masks;

}  // namespace gpuhash::columns
