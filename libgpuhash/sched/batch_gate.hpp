// The gate of a table as one word in the simulated memory: batches share it, an exclusive operation has it alone.
//
// kit/gate.hpp does the same with a mutex. The word counts the batches inside and carries the mark of an exclusive
// operation that waits or works, so that the explorer can get between the steps and take away their memory orders.
#pragma once
#include "libgpuhash/tile/sim.hpp"

namespace gpuhash::sim {

class batch_gate {
 public:
  static constexpr u32 mark = 1u << 16;

  void place() {
    word_ = the_machine.place<u32>(1);
    *word_ = 0;
  }

  void enter() const {
    for (;;) {
      const u32 g = mem::load<order::relaxed>(word_);
      if (!(g & mark)) {
        if (GH_MUTANT(enter_unchecked)) {
          mem::fetch_add<order::acquire>(word_, 1u);
          return;
        }
        if (GH_MUTANT(relaxed_enter)) {
          if (mem::cas<order::relaxed>(word_, g, g + 1) == g) return;
        } else if (mem::cas<order::acquire>(word_, g, g + 1) == g) {
          return;
        }
      }
      mem::relax();
    }
  }
  void leave() const {
    if (GH_MUTANT(relaxed_leave))
      mem::fetch_add<order::relaxed>(word_, u32(-1));
    else
      mem::fetch_add<order::release>(word_, u32(-1));
  }

  void close() const {
    while (mem::fetch_or<order::relaxed>(word_, mark) & mark) mem::relax();  // another one has it
    const auto inside = [&] {
      return (GH_MUTANT(relaxed_wait) ? mem::load<order::relaxed>(word_) : mem::load<order::acquire>(word_)) &
             (mark - 1);
    };
    while (inside() && !GH_MUTANT(gate_checked_once)) mem::relax();
  }
  void open() const {
    if (GH_MUTANT(relaxed_publish))
      mem::fetch_and<order::relaxed>(word_, ~mark);
    else
      mem::fetch_and<order::release>(word_, ~mark);
  }

  // Asked while no tile runs.
  bool is(const void* p) const { return p == word_; }
  std::string draw() const { return std::to_string(*word_ & (mark - 1)) + (*word_ & mark ? "+mark" : ""); }
  std::string check() const { return *word_ ? "the gate is left at " + draw() + " although no batch is inside" : ""; }

 private:
  u32* word_ = nullptr;
};

}  // namespace gpuhash::sim
