// The tile on CUDA: W threads of a warp, 16 bytes of the row each (8 or 4 for rows that are smaller).
//
// All tiles of a warp take their steps together, so every ballot and shuffle uses the full-warp mask and a width; sub-warp
// masks would compile to MATCH.ANY, BRA.DIV and out-of-line WARPSYNC.COLLECTIVE calls. A row is one load instruction
// across the lanes: relaxed loads bypass L1, so a thread that reads 64 bytes in four loads pays four requests to L2.
#pragma once
#include "libgpuhash/tile/cuda_mem.cuh"  // emulated warps have their own, by the include path

GH_BEGIN

inline constexpr u32 full_warp = 0xffffffffu;

// S words of a lane, 16 bytes a load.
template <class Word, int S, bool Weak, class Mem = cuda_mem>
struct lane_words {
  Word w[S];
  GH_FN void load(const Word* p) {
    if constexpr (sizeof(Word) == 8 && S % 2 == 0) {
#pragma unroll
      for (int i = 0; i < S; i += 2) Mem::template load_two<Weak>(p + i, w + i);
    } else if constexpr (sizeof(Word) == 4 && S % 4 == 0) {
#pragma unroll
      for (int i = 0; i < S; i += 4) Mem::template load_four<Weak>(p + i, w + i);
    } else {
#pragma unroll
      for (int i = 0; i < S; ++i) w[i] = Mem::template load<order::relaxed>(p + i);
    }
  }
  GH_FN void load_acquire(const Word* p) {
    if constexpr (sizeof(Word) == 8 && S % 2 == 0) {
#pragma unroll
      for (int i = 0; i < S; i += 2) cuda_mem::acquire_two(p + i, w + i);
    } else if constexpr (sizeof(Word) == 4 && S % 4 == 0) {
#pragma unroll
      for (int i = 0; i < S; i += 4) cuda_mem::acquire_four(p + i, w + i);
    } else {
#pragma unroll
      for (int i = 0; i < S; ++i) w[i] = cuda_mem::load<order::acquire>(p + i);
    }
  }
};

// The sum over a warp's lanes. Devices below 8.0 have no instruction for it.
template <class T>
GH_FN T warp_sum(T x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  for (int apart = 16; apart > 0; apart /= 2) x += __shfl_xor_sync(full_warp, x, apart);
  return x;
#else
  return T(__reduce_add_sync(full_warp, x));
#endif
}

// A tile of one lane has nothing to exchange.
GH_FN u32 shuffle(u32 v, u32 lane, u32 width) {
  return width == 1 ? v : __shfl_sync(full_warp, v, int(lane), int(width));
}
GH_FN u64 shuffle(u64 v, u32 lane, u32 width) {
  return width == 1 ? v : __shfl_sync(full_warp, v, int(lane), int(width));
}
GH_FN u128 shuffle(u128 v, u32 lane, u32 width) { return {shuffle(v.lo, lane, width), shuffle(v.hi, lane, width)}; }

// R slots read by W lanes. W * 16 bytes is the row, except in narrow tiles whose row is smaller than 16 bytes.
template <class F, int R,
          int W = (R * int(sizeof(typename F::word)) >= 16 ? R * int(sizeof(typename F::word)) / 16 : 1),
          bool Weak = false, class Mem = cuda_mem>
struct cuda_tile {
  using format = F;
  using mem = Mem;
  using word = typename F::word;
  using value = typename F::value;
  static constexpr int slots = R, lanes = W;
  static constexpr u32 widest = 128 / sizeof(word);
  static constexpr int S = (R + W - 1) / W;  // words per lane; lanes past the row hold none
  static constexpr u32 tile_mask = W == 32 ? full_warp : (1u << W) - 1;

  struct row {
    lane_words<word, S, Weak, Mem> part;
  };
  struct hits {
    u32 lanes;   // lanes of the tile that have a hit; the same in all of them
    bool at[S];  // this lane's own hits
  };

  u32 lane, shift;  // within the tile; of the tile within the warp

  GH_FN cuda_tile() : lane(threadIdx.x % W), shift(threadIdx.x % 32 - threadIdx.x % W) {}
  GH_FN bool holds() const { return W * S == R || lane * S < R; }

  static constexpr u32 last_lane = (R - 1) / S;  // has the last word of a row

  GH_FN u32 own_part(u32 all) const { return (all >> shift) & tile_mask; }  // of a bit for each lane of the warp
  GH_FN u32 first_lane(u32 all) const { return own_part(all) ? __ffs(own_part(all)) - 1 : 0; }
  GH_FN u32 ballot(bool b) const {  // of the tile's lanes
    return W == 1 ? u32(b) : own_part(__ballot_sync(full_warp, b));
  }
  template <class T>
  GH_FN static T from_first(T x) {  // what the tile's first lane has
    return shuffle(x, 0, W);
  }
  GH_FN row load(const word* line) const {
    row r;
    if (holds()) r.part.load(line + lane * S);
    return r;
  }
  // What this lane has of a row, of which the first `end` words are looked at: lanes beyond the row have none of these.
  template <class Match>
  GH_FN bool has(const row& r, u32 end, Match match) const {
    bool some = false;
#pragma unroll
    for (int i = 0; i < S; ++i) some |= match(r.part.w[i]) && lane * S + i < end;
    return some;
  }
  GH_FN static word own_last(const row& r) { return r.part.w[S - 1]; }
  template <class Match>
  GH_FN static word first_word(const row& r, Match match) {
    word x = r.part.w[S - 1];
#pragma unroll
    for (int i = S - 2; i >= 0; --i) x = match(r.part.w[i]) ? r.part.w[i] : x;
    return x;
  }
  template <class Match>
  GH_FN hits where(const row& r, u32 first, u32 end, Match match) const {
    hits h;
    bool mine = false;
#pragma unroll
    for (int i = 0; i < S; ++i) {
      h.at[i] = match(r.part.w[i]) && lane * S + i >= first && lane * S + i < end;
      mine |= h.at[i];
    }
    h.lanes = ballot(mine);
    return h;
  }
  GH_FN hits with_key(const row& r, typename F::key k, u32 first, u32 end = R) const {
    return where(r, first, end, [k](word w) { return F::key_of(w) == k; });
  }
  GH_FN hits with_word(const row& r, word x, u32 first, u32 end = R) const {
    return where(r, first, end, [x](word w) { return w == x; });
  }
  GH_FN hits at_most(const row& r, typename F::key k, u32 first, u32 end = R) const {
    return where(r, first, end, [k](word w) { return F::key_of(w) <= k; });
  }
  GH_FN word last_word(const row& r, const hits& h) const {
    word x = r.part.w[0];
#pragma unroll
    for (int i = 1; i < S; ++i) x = h.at[i] ? r.part.w[i] : x;
    return shuffle(x, h.lanes ? 31 - __clz(h.lanes) : 0, W);
  }
  GH_FN bool any(const hits& h) const { return h.lanes != 0; }
  GH_FN u32 number(const hits& h) const {
    u32 n = 0;
#pragma unroll
    for (int i = 0; i < S; ++i) n += __popc(ballot(h.at[i]));
    return n;
  }
  GH_FN hits choose(bool c, const hits& a, const hits& b) const {
    hits h;
    h.lanes = c ? a.lanes : b.lanes;
#pragma unroll
    for (int i = 0; i < S; ++i) h.at[i] = c ? a.at[i] : b.at[i];
    return h;
  }
  GH_FN static u32 lead(const hits& h) { return h.lanes ? __ffs(h.lanes) - 1 : 0; }
  GH_FN static word own_word(const row& r, const hits& h) {  // this lane's first hit
    word x = r.part.w[S - 1];
#pragma unroll
    for (int i = S - 2; i >= 0; --i) x = h.at[i] ? r.part.w[i] : x;
    return x;
  }
  GH_FN static u32 own_slot(const hits& h) {
    u32 s = S - 1;
#pragma unroll
    for (int i = S - 2; i >= 0; --i) s = h.at[i] ? i : s;
    return s;
  }
  GH_FN word word_at(const row& r, const hits& h) const { return shuffle(own_word(r, h), lead(h), W); }
  GH_FN value value_at(const row& r, const hits& h) const { return shuffle(F::value_of(own_word(r, h)), lead(h), W); }
  GH_FN word slot(const row& r, u32 i) const {
    word x = r.part.w[0];
#pragma unroll
    for (int j = 1; j < S; ++j)
      if (i % S == u32(j)) x = r.part.w[j];
    return shuffle(x, i / S, W);
  }
  template <class Act>
  GH_FN auto once(bool go, Act act) const {
    decltype(act()) r{};
    if (go && lane == 0) r = act();
    if constexpr (W > 1) __syncwarp();
    return shuffle(r, 0, W);
  }
  // Write the first hit, whose key stays: no more than its value changes. And add to its value.
  GH_FN void replace(bool go, word* line, const row&, const hits& h, word w) const {
    if (go && lead(h) == lane) mem::template store<order::relaxed>(line + lane * S + own_slot(h), w);
  }
  GH_FN void add(bool go, word* line, const row&, const hits& h, value v, bool narrow) const {
    if (go && lead(h) == lane) mem::template add_value<F>(line + lane * S + own_slot(h), v, narrow);
  }
  GH_FN bool cas(bool go, word* line, const row& r, const hits& h, word desired) const {
    bool won = false;
    if (go && lane == lead(h)) {
      const word expected = own_word(r, h);
      won = mem::template cas<order::relaxed>(line + lane * S + own_slot(h), expected, desired) == expected;
    }
    return ballot(won) != 0;
  }
};

GH_END
