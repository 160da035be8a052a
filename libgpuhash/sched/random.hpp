// Random walk: every choice is uniform. Cheap, no guarantee.
#pragma once
#include "libgpuhash/sched/scheduler.hpp"

namespace gpuhash::sim {

class random_walk final : public scheduler {
 public:
  random_walk(uint64_t seed, uint64_t runs) : random_(seed), left_(runs) {}
  uint32_t choose(const choice& c) override {
    // A failing allocation is rare by nature; a fair coin would hide everything that lies behind a success.
    if (c.kind == what::failure) return random_.below(8) == 0;
    return random_.below(c.n);
  }
  bool next() override { return --left_ > 0; }

 private:
  random_source random_;
  uint64_t left_;
};

}  // namespace gpuhash::sim
