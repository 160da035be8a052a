// slab_hash and its heap under the explorer: two buckets of slabs of three pairs, few free slabs, and the invariants of
// layout.hpp and slab_heap.hpp.
//
// A layout's name says what is special about it:
//   u0 u1 u3   a contiguous super block (slab_alloc_light) with so many free units
//   s2 s3      two or three super blocks (slab_alloc) with a free unit each
//   d          keys may have several pairs
//   c          counters in memory, as kernels keep them
//   g          every operation is a batch behind a gate, and FLUSH (letter g) closes it
#include "libgpuhash/drive/sim.hpp"

#include "libgpuhash/sched/batch_gate.hpp"
#include "ops.hpp"
#include "walk.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 n_keys = 16, n_buckets = 2, n_chains = n_buckets + 2, slab_words = 4, pairs_of_slab = slab_words - 1;

// ---- planted mistakes beneath the operations -------------------------------------------------------------------------

struct slab_mem : mem {
  // What a tile has seen of the heap (A3).
  struct witness {
    bool failed, noted;  // its last allocation: failed by the scheduler's choice, saw the note
    u32 full;            // and these words of the bitmap full
    bool owes;           // it gave a unit back, and has not looked at the note since
  };
  inline static witness of_tile[max_tiles];
  inline static std::vector<u32*> bitmap_words;
  inline static const void *first_unit, *behind_units, *note, *first_tail, *behind_tails;
  inline static bool flushing;

  static witness& mine() { return of_tile[the_machine.current]; }
  static u32 all_words() { return (1u << bitmap_words.size()) - 1; }
  static u32 word_of_bitmap(const void* p) {
    return u32(std::find(bitmap_words.begin(), bitmap_words.end(), p) - bitmap_words.begin());
  }
  static bool may_fail() { return mine().failed || mine().noted || mine().full == all_words(); }

  static bool allocation_fails() {
    const bool fails = mem::allocation_fails();
    mine().failed = fails, mine().noted = false, mine().full = 0;
    return fails;
  }
  template <order O, class T>
  static T load(const T* p) {
    const T v = mem::load<O>(p);
    if constexpr (sizeof(T) == 4) saw(p, u32(v));
    return v;
  }
  template <order O, class T>
  static T cas(T* link, T expected, T desired) {  // ops.hpp swaps links this way, and nothing else
    if (GH_MUTANT(stored_link)) return cas_by_store<O>(link, expected, desired);
    const T seen = mem::cas<O>(link, expected, desired);
    return GH_MUTANT(own_slab) && !(seen == expected) ? desired : seen;
  }
  template <order O>
  static u32 fetch_or(u32* word, u32 bit) {
    if (GH_MUTANT(blind_bit)) return mem::fetch_or<O>(word, bit) & ~bit;
    if (!GH_MUTANT(stored_bitmap)) {
      const u32 before = mem::fetch_or<O>(word, bit);
      saw(word, before | bit);
      return before;
    }
    const u32 seen = mem::load<order::relaxed>(word);
    mem::store<order::relaxed>(word, seen | bit);
    return seen;
  }
  template <order O>
  static u32 fetch_and(u32* word, u32 others) {
    if (GH_MUTANT(leaked_slab)) return ~0u;
    if (GH_MUTANT(freed_twice)) release<O>(word, others);
    return release<O>(word, others);
  }
  template <order O, class T>
  static void store(T* p, T v) {
    if (GH_MUTANT(unwiped_slab) && p >= first_unit && p < behind_units) return;
    if (GH_MUTANT(kept_tail) && flushing && p >= first_tail && p < behind_tails) return;
    if (p == note && v == T{}) mine().owes = false;
    if (p == note && !(v == T{}) && mine().full != all_words())
      the_machine.fail("A3: the note is left by an allocation that has not seen every block full");
    mem::store<O>(p, v);
  }

 private:
  static void saw(const void* p, u32 v) {
    if (p == note && v) mine().noted = true;
    if (p == note && !v) mine().owes = false;
    if (const u32 w = word_of_bitmap(p); w < bitmap_words.size() && v == ~0u) mine().full |= 1u << w;
  }
  template <order O>
  static u32 release(u32* word, u32 others) {
    const u32 seen = mem::fetch_and<O>(word, others);
    if (!(seen & ~others)) the_machine.fail("A1: a unit is given back that is not taken");
    mine().owes = true;
    return seen;
  }
};

template <class F, u32 R>
struct slab_tile : sim_tile<F, R> {
  using base = sim_tile<F, R>;
  using mem = slab_mem;
  using typename base::hits, typename base::key, typename base::row, typename base::word;

  row load(const word* line) {
    row r = base::load(line);
    if (GH_MUTANT(four_byte_lanes))
      for (u32 i = 0; i < R; ++i)
        r.w[i] = F::make(F::key_of(r.w[i]), F::value_of(mem::template load<order::relaxed>(line + i)));
    return r;
  }
  hits with_key(const row& r, key k, u32 first, u32 end = R) {
    return base::with_key(r, k, first, GH_MUTANT(link_as_slot) ? R : end);
  }
  bool cas(bool go, word* line, row r, hits h, word desired) {
    if (!go || !h.mask) return base::cas(go, line, r, h, desired);
    const u32 at = u32(__builtin_ctz(h.mask));
    const bool erases = F::key_of(desired) == dead_key<key>;
    if (GH_MUTANT(endless_replace) && is_live<F>(r.w[at]) && !erases) r.w[at] = empty_word<F>();
    if (GH_MUTANT(reused_hole) && erases) desired = empty_word<F>();
    if (!erases) return base::cas(go, line, r, h, desired);
    if (GH_MUTANT(stored_delete)) return base::cas(false, line, r, h, desired), put(line + at, desired);
    if (GH_MUTANT(wrong_lane_delete)) return base::cas(false, line, r, h, desired), put(line, desired);
    if (GH_MUTANT(exchanged_delete)) {
      base::cas(false, line, r, h, desired);
      mem::template exchange<order::relaxed>(line + at, empty_word<F>());
      return true;
    }
    return base::cas(go, line, r, h, desired);
  }

 private:
  static bool put(word* slot, word w) { return sim::mem::store<order::relaxed>(slot, w), true; }
};

// The real operation; some planted mistakes deviate between its steps. Lines of slab_words slots are whole slabs.
template <class Tile, u32 Kind>
struct explored_op : slab_op<slab_tile<typename Tile::format, Tile::slots>, Kind, Tile::slots == slab_words> {
  using base = slab_op<slab_tile<typename Tile::format, Tile::slots>, Kind, Tile::slots == slab_words>;
  using typename base::table, typename base::tile_type;

  verdict step(tile_type& tile, const table& t, joiner j, const typename tile_type::row& row, bool go) {
    if ((GH_MUTANT(revived_duplicate) && adds(this->kind())) || GH_MUTANT(whole_chain)) {
      table other = t;
      other.duplicates = GH_MUTANT(whole_chain);
      return base::step(tile, other, j, row, go);
    }
    const verdict d = base::step(tile, t, j, row, go);
    const bool last_line = (this->line_no + 1) * base::R == slab_words;
    if (GH_MUTANT(hasty_append) && go && d == verdict::again && adds(this->kind()) && last_line) return verdict::slow;
    if (GH_MUTANT(first_slab_only) && d == verdict::next && this->kind() == find && this->line_no == 0)
      return verdict::done;
    if (GH_MUTANT(one_look) && d == verdict::again && this->looked) return verdict::done;
    if (GH_MUTANT(first_pair_only) && this->kind() == erase_all && this->res.live < 0) return verdict::done;
    return d;
  }

  verdict slow(tile_type& tile, const table& t, joiner j, bool go) {
    const u32 line_no = this->line_no, status = this->res.status;
    const verdict d = base::slow(tile, t, j, go);
    if (!go) return d;
    if (GH_MUTANT(kept_line)) this->line_no = line_no;
    if (GH_MUTANT(endless_allocation) && d == verdict::done) return this->line_no = line_no, verdict::again;
    if (GH_MUTANT(unsaid_no_memory) && d == verdict::done) this->res.status = status;
    return d;
  }
};

// ---- the model -------------------------------------------------------------------------------------------------------

template <class F>
class slab_model final : public model {
  using key = typename F::key;
  using word = typename F::word;
  using table = slab_table<F>;
  static constexpr word empty = empty_word<F>();

 public:
  void build(const std::string& layout, u64 seed) override {
    const auto has = [&](char flag) { return layout.find(flag, 2) != std::string::npos; };
    counted_ = has('c'), gated_ = has('g'), keys_stay_ = has('s'), slab_mem::flushing = false;
    t_.base = the_machine.place<word>(n_chains * slab_words, 128);
    tails_ = has('d') ? the_machine.place<u32>(n_chains, 1) : nullptr;
    if (tails_) std::fill_n(tails_, n_chains, no_unit);
    t_.tails = tails_;
    t_.seed = seed, t_.buckets = n_buckets, t_.slab_slots = slab_words;
    t_.duplicates = has('d'), t_.hash_kind = slab_murmur;
    build_heap(layout[0] == 's', u32(layout[1] - '0'));
    slab_mem::first_tail = tails_, slab_mem::behind_tails = tails_ ? tails_ + n_chains : nullptr;
    if (counted_) counters_.place();
    if (gated_) gate_.place();
    choose_keys();
  }

  reply run(const op& o) override {
    slab_mem::mine() = {};
    const reply r = o.kind == grow ? flush() : serve_one(o);
    if (r.status == full) the_machine.fail("an operation answered full: slab_hash has no such limit");
    if (r.status == no_memory && !slab_mem::may_fail())
      the_machine.fail("A3: an operation answered no memory, and saw neither a full heap nor the note");
    if (slab_mem::mine().owes) the_machine.fail("A3: a unit came back, and the note was left where it is");
    return r;
  }
  reply serve_one(const op& o) {
    if (gated_) gate_.enter();
    joiner j{};
    j.keys_stay = keys_stay_ || GH_MUTANT(sum_beside_erase);  // values change in place
    reply r = serve<explored_op, slab_words, 2>(t_, o, keys_[o.key], j);
    if (GH_MUTANT(freed_by_erase) && o.kind == erase && r.status == yes)
      r.used -= free_last_slab(t_.home(keys_[o.key]));
    if (gated_) gate_.leave();
    if (o.kind == erase_all) r.value = u64(-r.live);
    return r;
  }

  std::optional<u64> stored(u32 k) const override {
    const auto all = all_stored(k);
    return all.empty() ? std::optional<u64>() : all.front();
  }
  bool keeps_duplicates() const override { return t_.duplicates; }
  std::vector<u64> all_stored(u32 k) const override {
    std::vector<u64> all;
    each_slot(u32(t_.home(keys_[k])), [&](const word* p) {
      if (F::key_of(*p) == table::stored(keys_[k])) all.push_back(u64(F::value_of(*p)));
    });
    return all;
  }

  std::string check() const override {
    std::vector<u32> linked(units_.size());
    for (u32 b = 0; b < n_chains; ++b) {
      std::string broken = check_chain(b, linked);
      if (!broken.empty()) return broken;
    }
    for (u32 u = 0; u < units_.size(); ++u) {
      if (linked[u] > 1) return "S5: " + name(u) + " is on two chains";
      if (linked[u] && !taken(u)) return "S5: " + name(u) + " is on a chain, but free";
      if (!linked[u] && taken(u)) return "S5: " + name(u) + " is taken, but on no chain";
      if (!taken(u) && !wiped(u)) return "A2: " + name(u) + " is free, but not wiped";
    }
    for (u32 b = 0; tails_ && b < n_chains; ++b)
      if (!good_tail(b)) return "S6: the tail of " + bucket_name(b) + " is " + tail_name(tails_[b]);
    return gated_ ? gate_.check() : "";
  }
  std::string room_left(const op&) const override { return ""; }  // run has refused the answer
  std::pair<long, long> holds() const override {
    long live = 0, used = 0;
    for (u32 b = 0; b < n_chains; ++b)
      each_slot(b, [&](const word* p) { live += is_live<F>(*p), used += !(*p == empty); });
    return {live, used};
  }

  void begin_run() override { slab_mem::flushing = false; }
  void on_write(const void* p, u128 old) override {
    if (const u32 w = slab_mem::word_of_bitmap(p); w < slab_mem::bitmap_words.size())
      return bitmap_written(w, u32(old.lo));
    if (is_tail(p) && !good_tail(u32(static_cast<const u32*>(p) - tails_)))
      the_machine.fail("S6: " + where(p) + " becomes " + tail_name(*static_cast<const u32*>(p)));
    if (slab_mem::flushing || !is_slot(p)) return;
    const std::string broken = slot_written(static_cast<const word*>(p), narrow_value<word>(old));
    if (!broken.empty()) the_machine.fail(broken);
  }

  void end_tile(const reply& sum) override {
    if (counted_) counters_.add(sum);
  }
  std::string check_counters() const override { return counted_ ? counters_.check(holds()) : ""; }

  std::string draw() const override {
    std::string s;
    for (u32 b = 0; b < n_chains; ++b) {
      if (b >= n_buckets && *t_.bucket(b) == empty) continue;  // a side chain without keys
      s += (s.empty() ? "" : "  ") + bucket_name(b);
      each_slab(b, [&](const word* at, u32) {
        for (u32 i = 0; i < slab_words; ++i) s += ' ' + show(at + i, wide_value(at[i]));
      });
      if (tails_ && tails_[b] != no_unit) s += " tail " + tail_name(tails_[b]);
    }
    std::string free;
    for (u32 u = 0; u < units_.size(); ++u)
      if (!taken(u)) free += ' ' + name(u);
    return s + "  free" + (free.empty() ? " none" : free) + (gated_ ? "  gate " + gate_.draw() : "");
  }
  std::string where(const void* p) const override {
    if (is_slot(p)) return place_name(static_cast<const word*>(p));
    if (is_tail(p)) return bucket_name(u32(static_cast<const u32*>(p) - tails_)) + ".tail";
    if (const u32 w = slab_mem::word_of_bitmap(p); w < slab_mem::bitmap_words.size())
      return "bitmap " + std::to_string(w);
    return p == t_.heap.note ? "note" : gate_.is(p) ? "gate" : p == counters_.live ? "live" : "used";
  }
  std::string show(const void* p, u128 v) const override {
    if (is_tail(p)) return tail_name(u32(v.lo));
    if (!is_slot(p))
      return slab_mem::word_of_bitmap(p) < slab_mem::bitmap_words.size() ? free_bits(p, u32(v.lo))
                                                                         : std::to_string(v.lo);
    const word w = narrow_value<word>(v);
    if (is_link(p)) return w == empty ? "|" : unit_of(w) < units_.size() ? "->" + name(unit_of(w)) : "->?";
    return show_word<F>(w, [&](key k) { return name_of(k, p); });
  }

 private:
  struct unit {
    u32 handle;
    word* at;
  };

  // ---- building it ----

  // The heap's blocks have two words. The free units are the last of word 0 and the first ones of word 1; all others are
  // taken for good, and have no memory.
  void build_heap(bool several, u32 n) {
    slab_heap& h = t_.heap;
    std::vector<u32*>& words = slab_mem::bitmap_words;
    h.supers = several ? n : 1, h.blocks = 1, h.light = !several, h.seed = t_.seed;
    h.unit_bits = u32(__builtin_ctz(slab_words * u32(sizeof(word))));
    units_.clear(), words.clear();
    const u32 here = several ? 1 : n;
    for (u32 s = 0; s < h.supers; ++s) {
      const u32 first = n == 1 || s ? 32 : 31;
      word* const at = the_machine.place<word>(here * slab_words, 64);
      h.units[s] = reinterpret_cast<unsigned char*>(at) - (size_t(first) << h.unit_bits);
      h.bitmaps[s] = the_machine.place<u32>(block_words);
      for (u32 w = 0; w < block_words; ++w) h.bitmaps[s][w] = ~0u, words.push_back(h.bitmaps[s] + w);
      for (u32 i = 0; i < here; ++i) {
        units_.push_back({slab_heap::handle(s, 0, first + i), at + i * slab_words});
        h.bitmaps[s][(first + i) / 32] &= ~(1u << (first + i) % 32);
      }
    }
    h.note = the_machine.place<u32>(1);
    *h.note = 0;
    slab_mem::first_unit = units_.empty() ? static_cast<void*>(h.note) : units_.front().at;
    slab_mem::behind_units = slab_mem::note = h.note;
    reserved_.clear();
    for (const u32* w : words) reserved_.push_back(*w);
  }

  // Keys 0 1 2 .. lie in bucket 0, every third one in bucket 1. Key 1 looks like a link where it can.
  void choose_keys() {
    key candidate = 1000;
    for (u32 i = 0; i < n_keys; ++i)
      for (;; ++candidate)
        if (u64(t_.home(candidate)) == (i && i % 3 == 0)) {
          keys_[i] = candidate++;
          break;
        }
    for (const unit& u : units_)
      if (const key k = F::key_of(table::link_to(u.handle)); t_.home(k) == 0) keys_[1] = k;
    keys_[dead_pattern] = dead_key<key>, keys_[empty_pattern] = empty_key<key>;
  }

  // ---- FLUSH ----

  reply flush() {
    reply r;
    if (gated_ && !GH_MUTANT(flush_beside_batches)) gate_.close();
    slab_mem::flushing = true;
    for (u32 b = 0; b < n_chains; ++b) r.used -= int(flush_bucket<slab_mem>(t_, typename F::index(b)));
    slab_mem::flushing = false;
    for (u32 b = 0; tails_ && b < n_chains; ++b)
      if (!good_tail(b))
        the_machine.fail("S6: FLUSH leaves " + tail_name(tails_[b]) + " as the tail of " + bucket_name(b));
    if (gated_ && !GH_MUTANT(flush_beside_batches)) gate_.open();
    return r;
  }

  // A mutant only. Returns how many slots it freed.
  int free_last_slab(u64 b) {
    word *before = nullptr, *at = t_.bucket(typename F::index(b));
    u32 handle = no_unit;
    for (;;) {
      const u32 next = table::next_of(mem::load<order::relaxed>(at + pairs_of_slab));
      if (next == no_unit) break;
      before = at, at = t_.slab(next), handle = next;
    }
    if (!before) return 0;
    int used = 0;
    for (u32 i = 0; i < pairs_of_slab; ++i) {
      const word w = mem::load<order::relaxed>(at + i);
      if (is_live<F>(w)) return 0;
      used += !(w == empty);
    }
    slab_mem::flushing = true;  // let it: what happens to the others is the point
    mem::store<order::relaxed>(before + pairs_of_slab, empty);
    for (u32 i = 0; i < slab_words; ++i) mem::store<order::relaxed>(at + i, empty);
    slab_mem::flushing = false;
    t_.heap.template release<slab_mem>(handle);
    return used;
  }

  // ---- chains ----

  u32 unit_of(word link) const {  // units_.size() if it names none
    u32 u = 0;
    while (u < units_.size() && !(link == table::link_to(units_[u].handle))) ++u;
    return u;
  }
  // visit(slab, unit); the base slab's unit is units_.size(). True: the chain ends as it should.
  template <class Visit>
  bool each_slab(u32 b, Visit visit) const {
    const word* at = t_.bucket(typename F::index(b));
    u32 u = u32(units_.size());
    for (u32 n = 0; n <= units_.size(); ++n) {
      visit(at, u);
      if (at[pairs_of_slab] == empty) return true;
      u = unit_of(at[pairs_of_slab]);
      if (u == units_.size()) return false;
      at = units_[u].at;
    }
    return false;
  }
  template <class Visit>
  void each_slot(u32 b, Visit visit) const {
    each_slab(b, [&](const word* at, u32) {
      for (u32 i = 0; i < pairs_of_slab; ++i) visit(at + i);
    });
  }

  bool is_tail(const void* p) const { return tails_ && p >= tails_ && p < tails_ + n_chains; }
  bool good_tail(u32 b) const {
    bool good = tails_[b] == no_unit;
    each_slab(b, [&](const word*, u32 u) { good |= u < units_.size() && units_[u].handle == tails_[b]; });
    return good;
  }
  std::string tail_name(u32 handle) const {
    for (u32 u = 0; u < units_.size(); ++u)
      if (units_[u].handle == handle) return name(u);
    return handle == no_unit ? "none" : "?";
  }

  // The key that a slot belongs to, if it says so: a set's tombstone does not.
  static std::optional<key> owner(word w) {
    if (is_live<F>(w)) return F::key_of(w);
    if (F::has_value && F::key_of(w) == dead_key<key>) return key(F::value_of(w));
    return {};
  }

  std::string check_chain(u32 b, std::vector<u32>& linked) const {
    std::string broken;
    std::vector<key> owners;
    bool ended = false;
    const bool whole = each_slab(b, [&](const word* at, u32 u) {
      if (u < units_.size()) ++linked[u];
      if (ended && broken.empty()) broken = "S2: " + name(u) + " follows an EMPTY slot of " + bucket_name(b);
      for (u32 i = 0; i < pairs_of_slab && broken.empty(); ++i) {
        if (at[i] == empty) {
          ended = true;
          continue;
        }
        if (ended) broken = "S2: " + place_name(at + i) + " follows an EMPTY slot";
        const auto k = owner(at[i]);
        if (!k) continue;
        if (!belongs(*k, b)) broken = "key " + name_of(*k, at) + " lies in " + bucket_name(b);
        if (!t_.duplicates && std::find(owners.begin(), owners.end(), *k) != owners.end())
          broken = "S3: key " + name_of(*k, at) + " has two slots";
        owners.push_back(*k);
      }
    });
    return !broken.empty() || whole ? broken : "S4: " + bucket_name(b) + " leads nowhere, or in a circle";
  }
  bool belongs(key k, u32 b) const { return b < n_buckets ? u64(t_.home(k)) == b : k == table::side_key; }

  // ---- what may follow what in memory ----

  std::string slot_written(const word* p, word was) const {
    const word is = *p;
    if (was == is) return "";
    const std::string change =
        place_name(p) + " goes from " + show(p, wide_value(was)) + " to " + show(p, wide_value(is));
    const u32 b = chain_of(p);
    if (b == n_chains) return "S4: " + change + ", though no chain holds it";
    if (is_link(p)) return link_written(p, was, change);
    if (was == empty) {
      if (!is_live<F>(is) || !belongs(F::key_of(is), b)) return "S1: " + change;
      bool before = true, hole = false;
      each_slot(b, [&](const word* q) { before &= q != p, hole |= before && *q == empty; });
      return hole ? "S2: " + change + " although a slot before it is EMPTY" : "";
    }
    const bool dies = is_live<F>(was) && F::key_of(is) == dead_key<key>;
    const bool revives = !is_live<F>(was) && !t_.duplicates;
    const bool same_owner = F::has_value ? owner(was) == owner(is) : dies;
    return same_owner && (is_live<F>(was) || revives) ? "" : "S1: " + change;
  }

  std::string link_written(const word* p, word was, const std::string& change) const {
    const u32 u = unit_of(*p);
    if (!(was == empty) || u == units_.size()) return "S4: " + change;
    if (!taken(u)) return "S4: " + change + ", which is free";
    if (!wiped(u)) return "S4: " + change + ", which is not wiped";
    u32 links = 0;
    for (u32 b = 0; b < n_chains; ++b) each_slab(b, [&](const word*, u32 v) { links += v == u; });
    if (links > 1) return "S4: " + change + ", which another chain holds";
    for (u32 i = 1; i < slab_words; ++i)
      if (p[-int(i)] == empty) return "S2: " + change + " although a slot before it is EMPTY";
    return "";
  }

  void bitmap_written(u32 w, u32 was) {
    const u32 is = *slab_mem::bitmap_words[w];
    if (reserved_[w] & ~is) the_machine.fail("A1: a unit is given back that was never handed out");
    for (u32 u = 0; u < units_.size(); ++u) {
      if (bitmap_word(u) != w || !(was & ~is & bitmap_bit(u))) continue;
      if (linked(u)) the_machine.fail("A1: " + name(u) + " is given back while a chain holds it");
      if (!wiped(u)) the_machine.fail("A2: " + name(u) + " is given back with words in it");
    }
  }

  // ---- the heap ----

  u32 bitmap_word(u32 u) const { return (units_[u].handle >> 24) * block_words + (units_[u].handle >> 5 & 31); }
  u32 bitmap_bit(u32 u) const { return 1u << (units_[u].handle & 31); }
  bool taken(u32 u) const { return *slab_mem::bitmap_words[bitmap_word(u)] & bitmap_bit(u); }
  bool wiped(u32 u) const {
    return std::all_of(units_[u].at, units_[u].at + slab_words, [](word w) { return w == empty; });
  }
  bool linked(u32 u) const {
    bool found = false;
    for (u32 b = 0; b < n_chains; ++b) each_slab(b, [&](const word*, u32 v) { found |= v == u; });
    return found;
  }

  // ---- names ----

  bool is_slot(const void* p) const {
    const auto within = [&](const word* at, u32 n) { return p >= at && p < at + n; };
    return within(t_.base, n_chains * slab_words) ||
           std::any_of(units_.begin(), units_.end(), [&](const unit& u) { return within(u.at, slab_words); });
  }
  u32 slot_number(const word* p) const {
    for (const unit& u : units_)
      if (p >= u.at && p < u.at + slab_words) return u32(p - u.at);
    return u32(p - t_.base) % slab_words;
  }
  bool is_link(const void* p) const { return slot_number(static_cast<const word*>(p)) == pairs_of_slab; }
  u32 chain_of(const word* p) const {
    for (u32 b = 0; b < n_chains; ++b) {
      bool found = false;
      each_slab(b, [&](const word* at, u32) { found |= p >= at && p < at + slab_words; });
      if (found) return b;
    }
    return n_chains;
  }
  std::string name(u32 u) const { return "u" + std::to_string(u); }
  static std::string bucket_name(u32 b) {
    return b < n_buckets ? "b" + std::to_string(b) : b == n_buckets ? "bz" : "by";
  }
  std::string place_name(const word* p) const {
    const std::string slot = is_link(p) ? ".link" : "." + std::to_string(slot_number(p));
    for (u32 u = 0; u < units_.size(); ++u)
      if (p >= units_[u].at && p < units_[u].at + slab_words) return name(u) + slot;
    return bucket_name(u32(p - t_.base) / slab_words) + slot;
  }
  std::string name_of(key k, const void* p) const {
    const u32 b = chain_of(static_cast<const word*>(p));
    if (b >= n_buckets && b < n_chains && k == table::side_key) return b == n_buckets ? "z" : "y";
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return "?";
  }
  std::string free_bits(const void* p, u32 v) const {
    std::string s;
    for (u32 u = 0; u < units_.size(); ++u)
      if (slab_mem::bitmap_words[bitmap_word(u)] == p)
        s += (s.empty() ? "" : " ") + name(u) + (v & bitmap_bit(u) ? "+" : "-");
    return s.empty() ? "full" : s;
  }

  table t_{};
  std::vector<unit> units_;
  u32* tails_ = nullptr;
  std::vector<u32> reserved_;  // what the bitmap held at first
  key keys_[max_keys];
  bool counted_ = false, gated_ = false, keys_stay_ = false;
  counters counters_;
  batch_gate gate_;
};

// ---- what is explored ------------------------------------------------------------------------------------------------

// Bucket 0 holds the keys 0 1 2 4 5 7 8 a b d e, bucket 1 the keys 3 6 9 c f. Three tiles that all append a slab have
// millions of interleavings, so triples of operations on three tiles have at most two that add where they would append.
std::vector<scene> scenes() {
  const std::vector<std::pair<u32, u32>> both{{4, 4}, {2, 2}}, all{{4, 4}, {2, 2}, {4, 2}, {2, 4}};
  return {
      {"empty", "u3", "", {0, 1}, both, "isfe"},
      {"present", "u3", "i2=9,i0=8", {0, 1}, both},
      {"nearly full", "u3", "i2=9,i4=9", {0, 1}, all, "isfe"},
      {"full", "u3", "i2=9,i4=9,i5=9", {0, 1}, both, "isfe", 2},
      {"full, own tombstone", "u3", "i2=9,i0=8,i4=9,e2,e0", {0, 1}, both, "isfe", 2},
      {"in the second slab", "u3", "i2=9,i4=9,i5=9,i0=8,e4", {0, 1}, all, "isfe"},
      {"two slabs full", "u3", "i2=9,i4=9,i0=8,i5=9,i7=9,i8=9", {0, 1}, both, "isfe", 2},
      {"last unit", "u1", "i2=9,i4=9,i5=9,e5", {0, 1}, both, "isfe", 2},
      {"last unit, two chains", "u1", "i2=9,i4=9,i5=9,i3=9,i6=9,i9=9", {0, 12}, both, "ie", 2},
      {"heap exhausted", "u0", "i2=9,i4=9,i0=8,e0", {0, 1}, both, "isfe"},
      {"two super blocks", "s2", "i2=9,i4=9,i5=9,i3=9,i6=9,i9=9", {0, 12}, both, "ie", 2},
      {"side keys", "u3", "iz=7", {34, 35}, both},
      {"side chain full", "u3", "iz=7,ez,iz=7,ez,iz=7", {35, 0}, both, "isfe"},
      {"counted", "u3c", "i2=9,i4=9,i0=8", {0, 1}, both, ""},
      {"nearly full, in place", "u3s", "i2=9,i4=9", {0, 1}, both, "saf"},
      {"several pairs", "u3d", "m0=7,m0=8", {0, 1}, both, "mfe"},
      {"several pairs, full", "u3d", "m0=7,i2=9,m0=8", {0, 1}, both, "mfe", 2},
      {"several pairs, tombstone before them", "u3d", "m0=7,i2=9,i4=9,m0=8,e0", {0, 1}, both, "mfe"},
      {"several pairs, heap exhausted", "u0d", "m0=7,i2=9", {0, 1}, both, "mfed"},
  };
}

// Above all FLUSH beside one operation or two, on a chain whose second slab it empties and gives back.
std::vector<std::pair<std::string, std::string>> programs() {
  const std::string unique = "i2=9,i4=9,i5=9,i0=8,e2,e4", several = "m0=7,m2=9,m4=9,m0=8,e2,e4";
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string a : {"i1=1", "s0=2", "f0", "e0"}) {
    all.push_back({"u3g", unique + ":" + a + "+g"});
    if (a != "s0=2")
      for (const std::string b : {"i1=3", "f0"}) all.push_back({"u3g", unique + ":" + a + "," + b + "+g"});
  }
  for (const std::string a : {"g,i1=1,i7=2", "i1=1,i7=2+g"})
    all.push_back({"u3g", unique + ":" + a});  // takes the slab again
  for (const std::string a : {"m0=1", "f0", "d0", "c0", "m0=1,d0"}) all.push_back({"u3dg", several + ":" + a + "+g"});
  // A pair comes while another one goes: the key is never absent.
  for (const std::string a : {"f0", "e0", "d0"}) all.push_back({"u3d", "m0=8:m0=1,e0+" + a});
  for (const std::string a : {"f0", "c0"}) all.push_back({"u3d", "m0=8:m0=1,e0,m0=2,m0=3,e0,e0,m0=4,e0+" + a});
  // The tail: two that append where it is unknown, known, or lags; beside those that go by the links; and FLUSH.
  const std::string full = "m0=7,m2=9,m0=8", two_full = full + ",m0=5,m2=5,m4=5";
  for (const std::string a : {"m0=1,m0=2+m0=3", "m0=1,m0=2+i1=3", "m0=1+m0=2,f0", "m0=1,m2=2+d0"}) {
    all.push_back({"u3d", full + ":" + a});
    all.push_back({"u3d", two_full + ":" + a});
  }
  for (const std::string a : {"m0=1+g", "m0=1,m0=2+g", "g,m0=1,m0=2"})
    all.push_back({"u3dg", two_full + ",e0,e0,e0,e2:" + a});
  // A heap that was full, and has a unit again: whatever block it is in, it is found.
  const std::string heap_full = two_full + ",m0=6,m2=6,m4=6,m0=4,m2=4,m4=4,m0=3";
  for (const std::string a : {"d2", "d0", "d0,d2"})
    for (const std::string b : {"g,m0=1,m0=2,m3=1,m3=2,m3=3,m3=4", "g,m3=1,m3=2,m3=3,m3=4,m0=1,m0=2"})
      all.push_back({"s3dg", heap_full + "," + a + ":" + b});
  return all;
}

const registration slab_hash{{
    .name = "slab_hash",
    .formats = all_formats,
    .layouts = {"u3", "u1", "u0", "s2", "u3c", "u3d", "u1d", "s2dc", "u3g", "u3dg", "s3dg", "u3s"},
    .widths = {4, 2},
    .letters = "isafecdpo",
    .fillers = n_keys,
    .side_keys = true,
    .mutants = {mutant::endless_replace,   mutant::stored_delete,      mutant::wrong_lane_delete,
                mutant::exchanged_delete,  mutant::reused_hole,        mutant::four_byte_lanes,
                mutant::first_slab_only,   mutant::link_as_slot,       mutant::hasty_append,
                mutant::revived_duplicate, mutant::first_pair_only,    mutant::kept_line,
                mutant::stored_link,       mutant::leaked_slab,        mutant::freed_twice,
                mutant::own_slab,          mutant::freed_by_erase,     mutant::flush_beside_batches,
                mutant::unwiped_slab,      mutant::stored_bitmap,      mutant::blind_bit,
                mutant::no_sweep,          mutant::endless_allocation, mutant::unsaid_no_memory,
                mutant::one_look,          mutant::whole_chain,        mutant::kept_tail,
                mutant::early_tail,        mutant::sum_beside_erase},
    .scenes = scenes(),
    .failures = 1,
    .make = make_model<slab_model>,
    .programs = programs(),
    .triple_formats = {"set32", "pair32"},
    .letters_in = {{"u3d", "isafemcdpo"},
                   {"u0d", "isafemcdpo"},
                   {"u1d", "isafemcdpo"},
                   {"s2dc", "isafemcdpo"},
                   {"u3g", "isafecdpog"},
                   {"u3dg", "isafemcdpog"},
                   {"s3dg", "isafemcdpog"},
                   {"u3s", "isafco"}},
}};

}  // namespace
}  // namespace gpuhash::sim
