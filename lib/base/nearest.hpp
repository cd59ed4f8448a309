#pragma once
// Suggestions for misspelled names.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Returns the number of insertions, deletions, substitutions and swaps of adjacent characters that
// turn one text into the other (optimal string alignment distance).
std::size_t edit_distance(std::string_view, std::string_view);

// Returns the candidate with the smallest edit distance, or the first such candidate if there are
// several. Returns an empty string if more than half of the letters would change.
std::string nearest_name(std::string_view wrong, std::span<const std::string> candidates);

}  // namespace trireme
