// Suggestions for misspelt names: see suggest.hpp.
#include "libgpuhash/src/suggest.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace gpuhash {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

// Levenshtein's distance, one row of the table at a time. Capitals are no difference.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (lower(a[i - 1]) != lower(b[j - 1]));
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest(std::string_view name, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  size_t best_distance = SIZE_MAX;
  for (const auto candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    const size_t limit = std::max<size_t>(2, std::max(name.size(), candidate.size()) / 3);
    if (distance <= limit && distance < best_distance) best = candidate, best_distance = distance;
  }
  return best;
}

std::string suggestion(std::string_view name, const std::vector<std::string_view>& candidates) {
  std::string known;
  for (const auto candidate : candidates) known.append(known.empty() ? "" : ", ").append(candidate);
  const auto best = nearest(name, candidates);
  if (best.empty()) return known.empty() ? "" : "; known: " + known;
  return "; did you mean '" + std::string(best) + "'? (known: " + known + ")";
}

}  // namespace gpuhash
