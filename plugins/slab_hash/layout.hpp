// slab_hash: the bytes of the table.
//
//   base     | slab 0 | slab 1 | ... | slab B+1 | tails |  one chain per bucket begins here
//   slab     | slot | slot | ... | slot | link |           64, 128 or 256 bytes; 15 pairs of 4+4 bytes and a link in 128
//   link     one word of the slots' size: its low 32 bits are the handle of the next slab (alloc/slab_heap.hpp), the
//            rest is all ones; all ones altogether: the chain ends here
//   tails    | u32 | u32 | ... |                           where duplicates are allowed: a slab near the end of each chain
//
// Two more chains, buckets B and B+1, hold the pairs of the keys ~0 and ~0-1, whose patterns mark EMPTY and DEAD slots. There
// the key is stored as `side_key`, so that every key is legal, duplicates included.
//
// A key's home is one bucket; its path is the slots of that bucket's chain, in order. A visit reads a line of R slots; a
// slab is one line or several.
//
// Invariants (cited in ops.hpp, tested by check):
//   S1  A slot goes EMPTY -> k, then between k's live words and k's tombstone; it never becomes EMPTY again, and never
//       another key's, until a FLUSH or a rebuild, which are exclusive. (In a set: EMPTY -> k -> DEAD.)
//   S2  When a slot became k's, every slot before it on its chain was not EMPTY: the EMPTY slots of a chain are its suffix.
//   S3  Without duplicates, a key has at most one slot that is not DEAD to it. With duplicates no tombstone is revived.
//   S4  A link goes from none to a slab once. The slab was wiped, and in no other chain, when it was linked.
//   S5  Every slab of the heap that is taken is on exactly one chain, when no operation runs.
//   S6  A tail is no_unit, or the handle of a slab that was linked to its chain before. The slots before a linked slab are
//       not EMPTY, so a search for the chain's first EMPTY slot may begin there. A tail may lag behind the chain's end.
#pragma once
#include "libgpuhash/alloc/slab_heap.hpp"
#include "libgpuhash/tile/kinds.hpp"

GH_BEGIN

enum slab_hash_kind : u32 { slab_murmur = 0, slab_paper = 1 };
inline constexpr u64 paper_prime = 4294967291u;  // the largest prime below 2^32

// Heap: slab_heap; or a reference to one, where what is left should fit into registers.
template <class F, class Heap = slab_heap>
struct slab_table {
  using format = F;
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

  word* base;
  u32* tails;  // where duplicates are allowed
  u64 seed;
  index buckets;   // B
  u32 slab_slots;  // with the link; a power of two
  u32 duplicates;  // 1: a key may have several pairs
  u32 hash_kind;
  u32 paper_a, paper_b;
  Heap heap;

  using small = slab_table<F, const slab_heap&>;
  small without_heap() const {
    return {base, tails, seed, buckets, slab_slots, duplicates, hash_kind, paper_a, paper_b, heap};
  }

  static constexpr u32 kinds = all_kinds;
  static constexpr bool side_slots = false;
  static constexpr key side_key = 1;
  GH_FN static key stored(key k) { return is_side_key(k) ? side_key : k; }
  // The key of a live word in bucket b.
  GH_FN key key_in(index b, word w) const { return b < buckets ? F::key_of(w) : key(empty_key<key> - (b - buckets)); }

  GH_FN index home(key k) const {
    if (is_side_key(k)) return buckets + index(empty_key<key> - k);
    if (hash_kind == slab_paper)
      return index((u64(paper_a) * paper_operand(k) + paper_b) % paper_prime) % buckets;  // section III-C
    return reduce(index(hash(k, seed)), buckets);
  }
  // The factor of a: a product with 32 bits of it does not overflow; keys of 64 bits are taken modulo p first.
  GH_FN static u64 paper_operand(key k) { return sizeof(key) == 8 ? k % paper_prime : k; }
  GH_FN word* bucket(index b) const { return base + u64(b) * slab_slots; }
  GH_FN u32* tail(index b) const { return tails + b; }
  GH_FN word* slab(u32 handle) const { return reinterpret_cast<word*>(heap.address(handle)); }
  GH_FN static u32 next_of(word link) { return u32(F::key_of(link)); }
  GH_FN static word link_to(u32 handle) {
    return F::make(sizeof(key) == 8 ? key(0xffffffff00000000ull | handle) : key(handle), ~typename F::value(0));
  }

  // Cells for export and rebuild are chains, since only its chain tells the keys ~0 and ~0-1 apart.
  GH_FN u64 cells() const { return u64(buckets) + 2; }
  // The words of a chain in order, up to its first EMPTY slot (S2): visit(word*, word) for each.
  template <class Mem, class Visit>
  GH_FN void each_word(index b, Visit visit) const {
    for (word* at = bucket(b);;) {
      for (u32 i = 0; i + 1 < slab_slots; ++i) {
        const word w = Mem::template load<order::relaxed>(at + i);
        if (F::key_of(w) == empty_key<key>) return;
        visit(at + i, w);
      }
      const u32 next = next_of(Mem::template load<order::relaxed>(at + slab_slots - 1));
      if (next == no_unit) return;
      at = slab(next);
    }
  }
  // The slots of such a cell whose words have their keys, slab after slab: visit(first, many). Behind a chain's first EMPTY
  // slot there are others (S2).
  u64 plain_cells() const { return buckets; }
  template <class Mem, class Visit>
  void each_row(u64 b, Visit visit) const {
    const word* at = bucket(index(b));
    for (u32 next;; at = slab(next)) {
      visit(at, slab_slots - 1);
      next = next_of(Mem::template load<order::relaxed>(at + slab_slots - 1));
      if (next == no_unit) return;
    }
  }
  // Rows of two cells are read soon: of one the first, of the other the one behind it, since the first has come.
  template <class Mem>
  void ask_for_rows(u64 soon, u64 later) const {
    ask_for<Mem>(bucket(index(later)));
    const u32 next = next_of(Mem::template load<order::relaxed>(bucket(index(soon)) + slab_slots - 1));
    if (next != no_unit) ask_for<Mem>(slab(next));
  }
  template <class Mem>
  void ask_for(const word* at) const {
    for (u32 i = 0; i < slab_slots; i += 64 / sizeof(word)) Mem::template prefetch<false>(at + i);
  }
  template <class Mem, class Emit>
  GH_FN void each_live(u64 b, Emit emit) const {
    each_word<Mem>(index(b), [&](word*, word w) {
      if (is_live<F>(w)) emit(key_in(index(b), w), F::value_of(w));
    });
  }
};

GH_END
