// The questions that the simulated machine asks a scheduler, and how a schedule is written down.
//
// A run is deterministic but for its choices: which tile goes on, which slot of a row is read next, which of several
// visible messages a weak load returns, where a weak store goes, whether an allocation fails. The machine numbers the
// alternatives 0..n-1 and asks. A schedule is the list of the answers; 0 is always the tame one (go on with the same
// tile, lowest slot, newest message, no failure), so that trailing zeros may be left out.
#pragma once
#include <stdint.h>

#include <string>
#include <vector>

namespace gpuhash::sim {

enum class what : uint8_t { tile, slot, message, position, failure };

struct choice {
  what kind;
  uint32_t n;            // alternatives, at least 2
  const uint8_t* tiles;  // kind tile: the tile that each alternative runs; else nullptr
  bool preempts;         // kind tile: alternative 0 is the tile that ran last, and any other one preempts it
  uint64_t tag;          // tells choices of one kind at one state apart: an address
};

inline constexpr uint32_t abandon = ~0u;  // answer: this run leads nowhere new, stop it

class scheduler {
 public:
  virtual ~scheduler() = default;
  virtual uint32_t choose(const choice& c) = 0;
  // After a run: prepares the next one; false when there is none left.
  virtual bool next() = 0;
};

// splitmix64: small, and the same everywhere.
class random_source {
 public:
  explicit random_source(uint64_t seed) : state_(seed) {}
  uint64_t operator()() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
  }
  uint32_t below(uint32_t n) { return uint32_t((uint64_t(uint32_t((*this)() >> 32)) * n) >> 32); }

 private:
  uint64_t state_;
};

// Answers as text: one base-36 digit each, trailing zeros dropped; "0" for the tame schedule.
inline std::string schedule_text(const uint8_t* answers, size_t n) {
  while (n && !answers[n - 1]) --n;
  std::string text;
  for (size_t i = 0; i < n; ++i) text += "0123456789abcdefghijklmnopqrstuvwxyz"[answers[i] % 36];
  return n ? text : "0";
}

}  // namespace gpuhash::sim
