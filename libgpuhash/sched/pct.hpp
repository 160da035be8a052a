// PCT: probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte, ASPLOS 2010).
//
// Every tile has a random priority and the highest runnable one runs; at depth - 1 random moments the running tile falls
// to the lowest priority. A bug that needs d ordering constraints is found with probability at least
// 1 / (tiles * steps^(d-1)) per run. Slots, messages and failures are uniform.
#pragma once
#include "libgpuhash/sched/scheduler.hpp"

namespace gpuhash::sim {

class pct final : public scheduler {
 public:
  pct(uint64_t seed, uint64_t runs, uint32_t depth) : random_(seed), left_(runs), depth_(depth) { draw(); }

  uint32_t choose(const choice& c) override {
    if (c.kind == what::failure) return random_.below(8) == 0;
    if (c.kind != what::tile) return random_.below(c.n);
    const uint64_t step = steps_++;
    uint32_t best = highest(c);
    for (uint64_t moment : falls_)
      if (moment == step) {
        priority_[c.tiles[best]] = --lowest_;
        best = highest(c);
      }
    return best;
  }

  bool next() override {
    if (steps_ > longest_) longest_ = steps_;
    draw();
    return --left_ > 0;
  }

 private:
  static constexpr uint32_t tiles = 8;

  uint32_t highest(const choice& c) const {
    uint32_t best = 0;
    for (uint32_t i = 1; i < c.n; ++i)
      if (priority_[c.tiles[i]] > priority_[c.tiles[best]]) best = i;
    return best;
  }

  void draw() {
    for (uint32_t i = 0; i < tiles; ++i) priority_[i] = int64_t(random_() >> 2);
    lowest_ = 0;
    steps_ = 0;
    falls_.clear();
    for (uint32_t i = 1; i < depth_; ++i) falls_.push_back(random_() % longest_);
  }

  random_source random_;
  uint64_t left_;
  uint32_t depth_;
  uint64_t steps_ = 0, longest_ = 16;
  int64_t lowest_ = 0, priority_[tiles];
  std::vector<uint64_t> falls_;
};

}  // namespace gpuhash::sim
