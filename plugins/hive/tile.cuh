// hive: the tile with which CUDA kernels read a bucket.
#pragma once
#include "libgpuhash/drive/cuda.cuh"

GH_BEGIN

// A tile that reads only the rows that one of its lanes needs, and whose lanes look for a place together.
template <class F, int R, order Rows>
struct hive_cuda_tile : cuda_tile<F, R> {
  using base = cuda_tile<F, R>;
  using typename base::row, typename base::word, typename base::hits;
  static constexpr int S = base::S;

  static constexpr bool lanes_ask() { return true; }
  static constexpr bool searches() { return true; }
  GH_FN static bool some(bool x) { return __any_sync(full_warp, x); }
  GH_FN static row either(bool c, const row& a, const row& b) {
    row r;
#pragma unroll
    for (int i = 0; i < S; ++i) r.part.w[i] = c ? a.part.w[i] : b.part.w[i];
    return r;
  }

  GH_FN row load(const word* line) const { return look(true, line); }
  GH_FN row look(bool go, const word* line) const {
    row r{};
    if (!go || !base::holds()) return r;
    if constexpr (Rows == order::acquire)
      r.part.load_acquire(line + base::lane * base::S);
    else
      r.part.load(line + base::lane * base::S);
    return r;
  }
  template <class Act>
  GH_FN void search(bool go, const row& a, const row& b, hits (&found)[2], Act act) const {
#pragma unroll
    for (u32 w = 0; w < 2; ++w)
#pragma unroll
      for (int i = 0; i < S; ++i) found[w].at[i] = false;
    if (go && base::holds()) {
#pragma unroll
      for (u32 w = 0; w < 2; ++w)
#pragma unroll
        for (int i = 0; i < S; ++i) found[w].at[i] = act(w, w ? b.part.w[i] : a.part.w[i]);
    }
#pragma unroll
    for (u32 w = 0; w < 2; ++w) {
      bool mine = false;
#pragma unroll
      for (int i = 0; i < S; ++i) mine |= found[w].at[i];
      found[w].lanes = base::ballot(mine);
    }
  }
  template <class Act>
  GH_FN auto once_at(bool go, const row& r, const hits& h, Act act) const {
    const u32 lead = base::lead(h);
    decltype(act(word{}, 0u)) x{};
    if (go && base::lane == lead) x = act(base::own_word(r, h), lead * S + base::own_slot(h));
    __syncwarp();
    return shuffle(x, lead, base::lanes);
  }
};

GH_END
