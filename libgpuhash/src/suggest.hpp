// Suggestions for misspelt names: the known name that is nearest to an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpuhash {

/// The candidate with the smallest edit distance to `name`, or an empty view when none is close enough to be a typing
/// error (a third of the longer name's length, at least 2).
std::string_view nearest(std::string_view name, const std::vector<std::string_view>& candidates);

/// A second sentence for an error about an unknown name: "; did you mean 'x'? (known: x, y)" or "; known: x, y".
std::string suggestion(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace gpuhash
