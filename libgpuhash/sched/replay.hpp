// Replay: the answers of a schedule that was written down, then 0 for ever.
#pragma once
#include "libgpuhash/sched/scheduler.hpp"

namespace gpuhash::sim {

class replay final : public scheduler {
 public:
  explicit replay(std::vector<uint8_t> answers) : answers_(std::move(answers)) {}

  uint32_t choose(const choice& c) override {
    if (at_ >= answers_.size()) return 0;
    const uint32_t answer = answers_[at_++];
    if (answer < c.n) return answer;
    misfit = at_;
    return abandon;
  }
  bool next() override { return false; }
  bool used_up() const { return at_ >= answers_.size(); }

  size_t misfit = 0;  // 1-based position of an answer that named no alternative: not a schedule of this program

 private:
  std::vector<uint8_t> answers_;
  size_t at_ = 0;
};

}  // namespace gpuhash::sim
