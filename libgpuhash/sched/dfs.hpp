// Exhaustive depth-first search, with or without a bound on preemptions.
//
// Stateless: a run is executed again from its start with the next untried answer. A run is abandoned when it reaches a
// state that was seen before, since everything behind it is explored already. A state is the memory, what each tile has
// learned so far (its local state is a function of that), and which operations had ended when each one began (all that
// a history check can see). It is kept as a 64-bit hash: with a million states the chance of one false match is 3e-8.
// Under a preemption bound the tile that ran last and the preemptions spent belong to the state as well.
#pragma once
#include <algorithm>

#include "libgpuhash/sched/scheduler.hpp"

namespace gpuhash::sim {

class hash_set {
 public:
  // true when x was not in the set.
  bool insert(uint64_t x) {
    x += !x;  // 0 marks a free place
    if (2 * ++size_ > places_.size()) grow();
    if (put(x)) return true;
    --size_;
    return false;
  }
  size_t size() const { return size_; }

 private:
  bool put(uint64_t x) {
    const size_t mask = places_.size() - 1;
    for (size_t i = x & mask;; i = (i + 1) & mask) {
      if (places_[i] == x) return false;
      if (!places_[i]) return places_[i] = x, true;
    }
  }
  void grow() {
    std::vector<uint64_t> old(places_.size() * 2);
    old.swap(places_);
    for (uint64_t x : old)
      if (x) put(x);
  }
  std::vector<uint64_t> places_ = std::vector<uint64_t>(256);
  size_t size_ = 0;
};

class dfs final : public scheduler {
 public:
  // state: hash of the machine's state. bound: preemptions allowed in a run, negative for any number.
  dfs(uint64_t (*state)(), int bound, bool prune) : state_(state), bound_(bound), prune_(prune) {}

  uint32_t choose(const choice& c) override {
    const bool may_preempt = c.kind == what::tile && c.preempts;
    if (may_preempt && bound_ >= 0 && preemptions_ >= bound_) return bounded_ = true, 0;
    if (depth_ == path_.size()) {
      if (prune_ && !seen_.insert(key(c))) return abandon;
      path_.push_back({0, uint8_t(c.n)});
    }
    const uint32_t answer = path_[depth_++].answer;
    preemptions_ += may_preempt && answer;
    return answer;
  }

  bool next() override {
    while (!path_.empty() && ++path_.back().answer == path_.back().n) path_.pop_back();
    depth_ = 0;
    preemptions_ = 0;
    return !path_.empty();
  }

  size_t states() const { return seen_.size(); }
  bool bounded() const { return bounded_; }  // the bound cut something off

 private:
  struct node {
    uint8_t answer, n;
  };

  uint64_t key(const choice& c) const {
    uint64_t k = state_() ^ (c.tag * 8 + uint64_t(c.kind) + 1) * 0x9e3779b97f4a7c15ull;
    if (bound_ >= 0) k ^= (uint64_t(preemptions_) * 16 + (c.preempts ? c.tiles[0] + 1 : 0)) * 0xd6e8feb86659fd93ull;
    return k ^ k >> 31;
  }

  uint64_t (*state_)();
  int bound_;
  bool prune_, bounded_ = false;
  int preemptions_ = 0;
  std::vector<node> path_;
  size_t depth_ = 0;
  hash_set seen_;
};

}  // namespace gpuhash::sim
