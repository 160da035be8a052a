// Counts numbers with gpuhash.hpp: a table that destroys itself, over spans; what fails throws gpuhash::error.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <gpuhash/gpuhash.hpp>

int main() try {
  gpuhash::map<std::uint64_t, std::uint64_t> counts({.backend = "linear_probe", .capacity = 100});
  const std::vector<std::uint64_t> seen{3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, ones(seen.size(), 1);
  counts.accumulate(seen, ones, gpuhash::combine::add);

  const std::vector<std::uint64_t> wanted{5, 7};
  std::vector<std::uint64_t> times(wanted.size());
  std::vector<std::uint8_t> found(wanted.size());
  counts.find(wanted, times, found);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    std::printf("%d: %s %d\n", int(wanted[i]), found[i] ? "found" : "absent", int(times[i]));
  std::printf("%d distinct\n", int(counts.size()));

  try {
    gpuhash::map<std::uint64_t, std::uint64_t> table({.backend = "linear_prob"});
  } catch (const gpuhash::error& error) {
    std::printf("%s\n", error.what());
  }
} catch (const gpuhash::error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
