// hive under the explorer: a few buckets of two slots, a stash of two, and the invariants of layout.hpp.
//
// A layout's name is w2 or w3, the buckets of a key, and what is special about it:
//   l   one lock for all buckets
//   n   no stash
//   s   operations look at a full home no further, and go straight to the part that is not straight-line code
//   c   counters in memory, as kernels keep them
//   x   no evictions
//   k   slots are claimed under their bucket's lock, and then written
//   g   as on CUDA: misses ask the filter first, and a place is looked for by all lanes of a tile
#include "libgpuhash/drive/sim.hpp"

#include "ops.hpp"

namespace gpuhash::sim {
namespace {

constexpr u32 n_keys = 15, n_buckets = 4, bucket_slots = 2, n_slots = n_buckets * bucket_slots;

// Some planted mistakes are made beneath the operations.
struct hive_mem : mem {
  inline static const void *slots, *stash, *behind_slots, *locks, *behind_locks;
  inline static const u32* filter;
  inline static u32 filter_before_row[max_tiles];
  inline static bool straight, together;

  template <order O, class T>
  static T load(const T* p) {
    if constexpr (sizeof(T) == 4)
      if (GH_MUTANT(early_filter) && p == static_cast<const void*>(filter))
        return filter_before_row[the_machine.current];
    return mem::load<O>(p);
  }
  template <order O, class T>
  static T cas(T* p, T expected, T desired) {
    if (GH_MUTANT(stored_stash) && p >= stash && p < behind_slots) return cas_by_store<O>(p, expected, desired);
    if (O == order::acq_rel && p >= slots && p < behind_slots) {
      if (GH_MUTANT(stored_victim) && !(desired == expected)) return cas_by_store<O>(p, expected, desired);
      if (GH_MUTANT(relaxed_swap)) return mem::cas<order::relaxed>(p, expected, desired);
    }
    return mem::cas<O>(p, expected, desired);
  }
  template <order O, class T>
  static void store(T* p, T v) {
    if (GH_MUTANT(relaxed_unlock_of_home) && p >= locks && p < behind_locks) return mem::store<order::relaxed>(p, v);
    mem::store<O>(p, v);
  }
};

template <class F, u32 R>
struct hive_tile : sim_tile<F, R> {
  using base = sim_tile<F, R>;
  using mem = hive_mem;
  using typename base::hits, typename base::key, typename base::row, typename base::word;

  row load(const word* line) {
    this->collectives = this->collectives * 11 + 1;
    if (GH_MUTANT(early_filter))
      hive_mem::filter_before_row[the_machine.current] = the_machine.load(hive_mem::filter, order::relaxed);
    return read(line);
  }
  static bool lanes_ask() { return hive_mem::together; }
  static bool searches() { return hive_mem::together; }
  static bool some(bool x) { return x; }
  static row either(bool c, const row& a, const row& b) { return c ? a : b; }
  template <class Act>
  void search(bool go, const row& a, const row& b, hits (&found)[2], Act act) {
    for (u32 w = 0; w < 2; ++w) {
      found[w].mask = 0;
      for (u32 i = 0; i < R && go; ++i) found[w].mask |= u32(act(w, (w ? b : a).w[i])) << i;
    }
  }
  template <class Act>
  u32 once_at(bool go, const row& r, hits h, Act act) {
    return go ? act(r.w[__builtin_ctz(h.mask)], u32(__builtin_ctz(h.mask))) : 0x5eed5eed;
  }
  row look(bool go, const word* line) {
    if (go) return read(line);
    row r;
    r.line = line;
    for (u32 i = 0; i < R; ++i) r.w[i] = F::make(key(0x5eed5eed), 0x5eed5eed);
    return r;
  }
  hits with_key(const row& r, key k, u32 first, u32 end = R) {
    hits h = base::with_key(r, k, first, end);
    const u32 open = h.mask;
    if (GH_MUTANT(early_reuse) && k == empty_key<key> && open && adds(the_machine.current_kind()))
      for (u32 i = 0; i < R; ++i) h.mask |= u32(is_dead<F>(r.w[i])) << i;
    if (GH_MUTANT(any_open) && k == empty_key<key> && open && the_machine.current % 2)
      h.mask = 1u << (31 - u32(__builtin_clz(open)));
    return h;
  }
  bool cas(bool go, word* line, const row& r, hits h, word desired) {
    if (GH_MUTANT(erased_to_empty) && is_dead<F>(desired)) desired = empty_word<F>();
    return base::cas(go, line, r, h, desired) || (GH_MUTANT(blind_swap) && go);
  }

 private:
  static row read(const word* line) {
    row r;
    r.line = line;
    the_machine.begin_row();
    for (u32 left = (1u << R) - 1; left;) {
      const u32 i = the_machine.next_slot(line, left);
      left &= ~(1u << i);
      const bool acquires = !adds(the_machine.current_kind()) && !GH_MUTANT(relaxed_row);
      r.w[i] = the_machine.read(line + i, acquires ? order::acquire : order::relaxed);
    }
    the_machine.end_row();
    return r;
  }
};

template <class Tile, u32 Kind>
struct explored_op : hive_op<hive_tile<typename Tile::format, Tile::slots>, Kind> {
  using base = hive_op<hive_tile<typename Tile::format, Tile::slots>, Kind>;
  using typename base::table, typename base::tile_type;
  verdict step(tile_type& tile, const table& t, joiner j, const typename tile_type::row& row, bool go) {
    const u32 way = this->way;
    if (hive_mem::straight && std::none_of(row.w, row.w + bucket_slots, is_empty<typename Tile::format>)) {
      base::step(tile, t, j, row, false);
      return verdict::slow;
    }
    const verdict d = base::step(tile, t, j, row, go);
    if (go && tile_type::lanes_ask() && way == 0 && d == verdict::next &&
        base::absent(t, this->kind(), this->k, this->home))
      return verdict::done;
    if (GH_MUTANT(set_again) && go && way && d == verdict::done && this->res.live < 0)
      hive_mem::fetch_or<order::relaxed>(t.filter_of(this->home), t.filter_bit(this->k, this->home));
    return d;
  }
};

template <class F>
class hive_model final : public model {
  using key = typename F::key;
  using word = typename F::word;
  using index = typename F::index;

 public:
  void build(const std::string& layout, u64 seed) override {
    const auto has = [&](char flag) { return layout.find(flag, 2) != std::string::npos; };
    counted_ = has('c'), hive_mem::straight = has('s'), hive_mem::together = has('g');
    t_.seed = seed;
    t_.base = 1, t_.segment_buckets = n_buckets;
    t_.slot_bits = 1, t_.ways = u32(layout[1] - '0');
    t_.evictions = has('x') ? 0 : eviction_rounds, t_.commits = has('k');
    t_.lock_mask = has('l') ? 0 : n_buckets - 1;
    t_.stash_slots = has('n') ? 0 : 2, t_.stash_path = 2;
    t_.slots = the_machine.place<word>(n_slots + t_.stash_slots, 128);
    t_.stash = t_.slots + n_slots;
    t_.locks = the_machine.place<u32>(t_.lock_mask + 1, 4);
    t_.filter = the_machine.place<u32>(1, 4);
    t_.note = the_machine.place<u32>(1, 4);
    t_.side = the_machine.place<word>(2);
    hive_mem::slots = t_.slots, hive_mem::stash = t_.stash, hive_mem::behind_slots = t_.slots + t_.cells();
    hive_mem::locks = t_.locks, hive_mem::behind_locks = t_.locks + t_.lock_mask + 1, hive_mem::filter = t_.filter;
    if (counted_) counters_.place();
    choose_keys();
  }

  reply run(const op& o) override { return serve<explored_op, bucket_slots>(t_, o, keys_[o.key]); }

  std::optional<u64> stored(u32 k) const override {
    if (k >= dead_pattern) {
      const word w = t_.side[k == dead_pattern];
      if (F::key_of(w) == empty_key<key>) return {};
      return u64(F::value_of(w));
    }
    for (u64 i = 0; i < t_.cells(); ++i)
      if (F::key_of(t_.slots[i]) == keys_[k]) return u64(F::value_of(t_.slots[i]));
    return {};
  }

  std::string check() const override {
    for (u64 i = 0; i < t_.cells(); ++i) {
      const word w = t_.slots[i];
      if (!is_live<F>(w)) continue;
      const key k = F::key_of(w);
      for (u64 s = 0; s < t_.cells(); ++s) {
        if (s != i && F::key_of(t_.slots[s]) == k) return "H7: key " + name(k) + " is in two slots";
        if (F::has_value && t_.slots[s] == tombstone<F>(k) && s < n_slots && s / bucket_slots == u64(t_.home(k)))
          return "H6: key " + name(k) + " is live, and its home has its tombstone";
      }
      const u64 home = t_.home(k);
      if (i < n_slots && i / bucket_slots == home) continue;
      bool may = i >= n_slots;
      for (u32 way = 1; way < t_.ways; ++way) may |= i / bucket_slots == u64(t_.bucket_of(k, index(home), way));
      if (!may) return "key " + name(k) + " is in a bucket that is not its own";
      for (u32 s = 0; s < bucket_slots; ++s)
        if (is_empty<F>(t_.bucket(index(home))[s])) return "H2: key " + name(k) + " is outside, and its home not full";
      if (*t_.filter_of(index(home)) & t_.filter_bit(k, index(home)))
        return "H3: key " + name(k) + " is outside, and the filter does not say so";
      if (i >= n_slots && *t_.note == ~0u) return "key " + name(k) + " is in the stash, and the note does not say so";
    }
    for (u32 i = 0; i <= t_.lock_mask; ++i)
      if (!(t_.locks[i] & 1)) return "lock " + std::to_string(i) + " was left locked";
    return broken_;
  }

  std::string room_left(const op& o) const override {
    if (o.key >= dead_pattern) return "a side slot is never full";
    const key k = keys_[o.key];
    for (u32 way = 0; way < t_.ways; ++way)
      for (u32 s = 0; s < bucket_slots; ++s)
        if (is_empty<F>(t_.bucket(t_.bucket_of(k, t_.home(k), way))[s])) return "its bucket has an EMPTY slot";
    for (u32 s = 0; s < t_.stash_slots; ++s)
      if (is_empty<F>(t_.stash[s])) return "the stash has an EMPTY slot";
    return "";
  }

  std::pair<long, long> holds() const override {
    long live = 0, used = 0;
    for (u64 i = 0; i < t_.cells(); ++i) live += is_live<F>(t_.slots[i]), used += !is_empty<F>(t_.slots[i]);
    for (u32 i = 0; i < 2; ++i) live += F::key_of(t_.side[i]) != empty_key<key>;
    return {live, used};
  }

  // H1, and a bit of the filter is never set again.
  void begin_run() override { broken_.clear(); }
  void on_write(const void* p, u128 old) override {
    if (!broken_.empty()) return;
    if (p >= t_.slots && p < t_.slots + t_.cells()) {
      const word was = narrow_value<word>(old), is = *static_cast<const word*>(p);
      if (is_empty<F>(is) && !is_empty<F>(was)) broken_ = "H1: " + where(p) + " became EMPTY again";
      const bool gone = is_live<F>(was) && F::key_of(is) != F::key_of(was) && is != tombstone<F>(F::key_of(was));
      if (gone && t_.evictions == 0) broken_ = "a key was evicted although evictions are off";
    }
    if (p == t_.filter && *t_.filter & ~u32(old.lo)) broken_ = "H3: a bit of the filter was set again";
  }

  void end_tile(const reply& sum) override {
    if (counted_) counters_.add(sum);
  }
  std::string check_counters() const override { return counted_ ? counters_.check(holds()) : ""; }

  std::string draw() const override {
    std::string s;
    for (u64 i = 0; i < t_.cells(); ++i)
      s += (i == n_slots       ? " stash "
            : i % bucket_slots ? " "
            : i                ? " | "
                               : "") +
           show_word<F>(t_.slots[i], [this](key k) { return name(k); });
    s += "  locks";
    for (u32 i = 0; i <= t_.lock_mask; ++i) s += ' ' + std::to_string(int(t_.locks[i]));
    for (u32 i = 0; i < 2; ++i)
      if (F::key_of(t_.side[i]) != empty_key<key>)
        s += std::string("  side ") + (i ? "y" : "z") + "=" + std::to_string(u64(F::value_of(t_.side[i])));
    return s;
  }
  std::string where(const void* p) const override {
    if (p >= t_.slots && p < t_.slots + n_slots)
      return "slot " + std::to_string(static_cast<const word*>(p) - t_.slots);
    if (p >= t_.stash && p < t_.stash + t_.stash_slots)
      return "stash " + std::to_string(static_cast<const word*>(p) - t_.stash);
    if (p >= t_.side && p < t_.side + 2) return p == t_.side ? "side z" : "side y";
    if (p >= t_.locks && p <= t_.locks + t_.lock_mask)
      return "lock " + std::to_string(static_cast<const u32*>(p) - t_.locks);
    return p == t_.filter ? "filter" : p == t_.note ? "note" : p == counters_.live ? "live" : "used";
  }
  std::string show(const void* p, u128 w) const override {
    if (p == counters_.live || p == counters_.used) return std::to_string((long long)w.lo);
    if (p >= t_.locks && p <= t_.locks + t_.lock_mask) return std::to_string(int(w.lo));
    if (p == t_.filter || p == t_.note) {
      char text[16];
      snprintf(text, sizeof text, "%08x", u32(w.lo));
      return text;
    }
    return show_word<F>(narrow_value<word>(w), [this](key k) { return name(k); });
  }

 private:
  // By home and second bucket: 0 1 2 3 4 share both, 5 6 7 8 have them the other way round or the second as home, 9 a b c
  // live where those may be moved to.
  void choose_keys() {
    static constexpr u32 home_of[n_keys] = {0, 0, 0, 0, 0, 1, 1, 1, 0, 2, 2, 3, 3, 2, 3};
    static constexpr u32 second_of[n_keys] = {1, 1, 1, 1, 1, 0, 2, 2, 2, 3, 0, 2, 1, 1, 2};
    key candidate = 1;
    for (u32 i = 0; i < n_keys; ++i)
      for (;; ++candidate)
        if (u32(t_.home(candidate)) == home_of[i] &&
            u32(t_.bucket_of(candidate, t_.home(candidate), 1)) == second_of[i]) {
          keys_[i] = candidate++;
          break;
        }
    keys_[dead_pattern] = dead_key<key>, keys_[empty_pattern] = empty_key<key>;
  }
  std::string name(key k) const {
    for (u32 i = 0; i < n_keys; ++i)
      if (keys_[i] == k) return std::string(1, key_digits[i]);
    return k == dead_key<key> ? "-" : "?";
  }

  hive_table<F> t_;
  key keys_[max_keys];
  bool counted_ = false;
  counters counters_;
  std::string broken_;
};

// Pairs of operations on two keys, from where each of the ways of an insert begins; triples where they are affordable.
std::vector<scene> scenes() {
  const std::vector<std::pair<u32, u32>> one{{0, 0}};
  return {
      {"empty", "w2", "", {0, 1}, one, "ife", 1},
      {"home full", "w2", "i2=9,i3=9", {0, 1}, one, "ie", 1},
      {"outside", "w2", "i2=9,i3=9,i0=8", {0, 1}, one, "fe", 0},
      {"own tombstone at home", "w2", "i0=8,i2=9,e0", {0, 1}, one, "ie", 1},
      {"dead at home", "w2", "i2=9,i3=9,i0=8,e2", {0, 1}, one, "", 0},
      {"an eviction", "w2", "i2=9,i3=9,i6=8,i7=9", {0, 6}, one, "", 0},
      {"to the stash", "w2", "i0=8,i1=8,i2=9,i3=9", {4, 0}, one, "", 0},
      {"side keys", "w2", "iz=7", {34, 35}, one, "", 0},
      {"no eviction", "w2x", "i2=9,i3=9,i6=8,i7=9", {0, 6}, one, "", 0},
      {"no stash", "w2n", "i0=8,i1=8,i2=9,i3=9", {4, 0}, one, "", 0},
      {"claims at home", "w2k", "", {0, 1}, one, "ie", 1},
      {"claims outside", "w2k", "i2=9,i3=9,i0=8", {0, 1}, one, "", 0},
      {"claims and evicts", "w2k", "i2=9,i3=9,i6=8,i7=9", {0, 6}, one, "", 0},
      {"counted", "w2c", "i2=9,i3=9", {0, 6}, one, "", 0},
  };
}

// Situations that pairs of two keys do not reach: a home that fills up, and from which a key is evicted while another
// tile reads it; two evictors that want one slot; victims that are looked for, changed and erased; dead slots of other
// buckets; a full stash.
std::vector<std::pair<std::string, std::string>> programs() {
  return {
      {"w2", "i8=9,i5=9,i6=8:i2=1,i0=2+f8"},
      {"w2", "i8=9,i5=9,i6=8:i2=1,i0=2+e8"},
      {"w2", "i2=9,i8=9,i5=9,i6=8:i0=1+s8=7,f8"},
      {"w2", "i2=9,i8=9,i5=9,i6=8:i0=1+e8,i8=5"},
      {"w2", "i2=9,i8=9,i5=9,i6=8:i0=1+i8=5,f8"},
      {"w2", "i2=9,i8=9,i5=9,i6=8:i0=1+a8=5,e8"},
      {"w2", "i2=9,i8=9,i5=9,i6=8:i0=1+i1=2"},
      {"w2l", "i2=9,i8=9,i5=9,i6=8:i0=1+i1=2"},
      {"w2l", "i2=9,i8=9,i5=9,i6=8:i0=1+f8,e8"},
      {"w2", "i2=9,i3=9,i6=8,i7=9:i0=1+i9=2"},
      {"w2", "i2=9,i3=9:i0=1+i0=2,f0"},
      {"w2", "i2=9,i3=9,i0=8,i1=7,e1:i4=1+f0,f4"},
      {"w2", "i2=9,i3=9,i6=8,i7=9,e6:i0=1+i6=2"},
      {"w2", "i2=9,i3=9,i6=8,i7=9,e6:i0=1+i5=2"},
      {"w2", "i2=9,i3=9,i6=8,i7=9,i9=3,e9:i0=1+i9=2"},
      {"w2", "i2=9,i3=9,i6=8,i7=9,i9=3,ia=3,e9:i0=1+i9=2"},
      {"w2", "i0=8,i1=8,i2=9,i3=9,i4=7:e4+s4=3"},
      {"w2", "i0=8,i1=8,i2=9,i3=9,i4=7:e4,i4=1+f4"},
      {"w2", "i0=8,i1=8,i2=9,i3=9:i4=1+i5=2"},
      {"w2n", "i0=8,i1=8,i2=9,i3=9:i4=1+e0,f4"},
      {"w2", "i2=9,i3=9,i6=8,i7=9:i0=1+f6,f7"},
      {"w2", "i2=9,i3=9,i6=8,i7=9,i9=9:i0=1+i5=2"},
      {"w2", "i2=9,i3=9,i6=8,i7=9,i9=9,id=1,ed,ib=9,ic=9:i0=1+ie=2"},
      {"w2s", "i2=9,i3=9,i8=9,e2,i9=9,i6=9,i7=9,ib=9,ic=9:id=1+f8"},
      {"w2s", "i2=9,i0=8,e2,e0:i0=1+i0=2"},
      {"w2s", "i2=9,i3=9,i0=8:e0+i0=2"},
      {"w2", "i0=8,i2=9,i3=9,e0,e2:i0=1+i0=2"},
      {"w3", "i2=9,i3=9,i0=8,i1=8:i4=1+f4,e0"},
      {"w2x", "i2=9,i3=9,i0=8,i1=8:i4=1+f0,f4"},
      {"w2x", "i2=9,i3=9,i6=8,i7=9:i0=1+i9=2"},
      {"w2x", "i2=9,i3=9,i6=8,i7=9,i9=3,e9:i0=1+i9=2"},
      {"w2xn", "i2=9,i3=9,i6=8,i7=9:i0=1+e6,f0"},
      {"w2xg", "i2=9,i3=9,i6=8,i7=9:i0=1+i9=2"},
      {"w2k", "i8=9,i5=9,i6=8:i2=1,i0=2+f8"},
      {"w2k", "i2=9,i8=9,i5=9,i6=8:i0=1+e8,i8=5"},
      {"w2k", "i2=9,i8=9,i5=9,i6=8:i0=1+i1=2"},
      {"w2kl", "i2=9,i8=9,i5=9,i6=8:i0=1+i1=2"},
      {"w2k", "i2=9,e2:i0=1+i2=2"},
      {"w2k", "i2=9,i3=9,i0=8:i1=1+i5=2"},
      {"w2k", "i2=9,i3=9,i5=8:i0=1+i6=2"},
      {"w2k", "i2=9,i3=9:i0=1+i6=2"},
      {"w2k", "i2=9,i3=9,i6=8,i7=9,e6:i0=1+i6=2"},
      {"w2xk", "i2=9,i3=9,i0=8:i1=1+i5=2"},
      {"w2kg", "i2=9,i3=9,i6=8,i7=9:i0=1+i9=2"},
      {"w2kg", "i2=9,i3=9,i0=8:i1=1+i5=2"},
      {"w3k", "i2=9,i3=9,i0=8,i1=8:i4=1+f4,e0"},
      {"w2g", "i8=9,i5=9,i6=8:i2=1,i0=2+f8"},
      {"w2g", "i2=9,i8=9,i5=9,i6=8:i0=1+s8=7,f8"},
      {"w2g", "i2=9,i8=9,i5=9,i6=8:i0=1+e8,i8=5"},
      {"w2g", "i2=9,i8=9,i5=9,i6=8:i0=1+i8=5,f8"},
      {"w2g", "i2=9,i8=9,i5=9,i6=8:i0=1+a8=5,e8"},
      {"w2g", "i2=9,i8=9,i5=9,i6=8:i0=1+i1=2"},
      {"w2gl", "i2=9,i8=9,i5=9,i6=8:i0=1+f8,e8"},
      {"w2g", "i2=9,i3=9,i6=8,i7=9:i0=1+i9=2"},
      {"w2g", "i2=9,i3=9,i6=8,i7=9,i9=3,e9:i0=1+i9=2"},
      {"w2g", "i2=9,i3=9,i6=8,i7=9:i0=1+f6,f7"},
      {"w2g", "i0=8,i1=8,i2=9,i3=9,i4=7:e4,i4=1+f4"},
      {"w3g", "i2=9,i3=9,i0=8,i1=8:i4=1+f4,e0"},
  };
}

const registration hive{{
    .name = "hive",
    .formats = all_formats,
    .layouts = {"w2", "w3", "w2l", "w3l", "w2n", "w2s", "w2c", "w2g", "w3g", "w2gl", "w2x", "w2xn", "w2xg", "w2k",
                "w3k", "w2kl", "w2xk", "w2kg"},
    .widths = {bucket_slots},
    .letters = "isafecpo",
    .fillers = n_keys,
    .side_keys = true,
    .mutants = {mutant::unlocked_home,        mutant::unlocked_victim,
                mutant::unlocked_destination, mutant::unlocked_reuse,
                mutant::stored_victim,        mutant::published_first,
                mutant::early_unlock,         mutant::unmarked_victim,
                mutant::unmarked_key,         mutant::set_again,
                mutant::early_filter,         mutant::one_glance,
                mutant::impatient_miss,       mutant::unchecked_miss,
                mutant::early_second,         mutant::dropped_key,
                mutant::unsearched_stash,     mutant::unsaid_stash,
                mutant::stored_stash,         mutant::any_open,
                mutant::early_reuse,          mutant::other_tombstone,
                mutant::erased_to_empty,      mutant::blind_swap,
                mutant::uncounted_move,       mutant::relaxed_row,
                mutant::relaxed_swap,         mutant::relaxed_unlock_of_home,
                mutant::unasked_eviction,     mutant::lockless_claim,
                mutant::stored_claim,         mutant::open_victim,
                mutant::early_other},
    .scenes = scenes(),
    .failures = 0,
    .make = make_model<hive_model>,
    .programs = programs(),
    .triple_formats = {"pair32"},
    .long_in_weak = {"i0=8,i1=8,i2=9,i3=9:i4=1+e0,f4"},
}};

}  // namespace
}  // namespace gpuhash::sim
