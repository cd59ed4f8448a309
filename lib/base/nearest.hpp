#pragma once
// Which known name a misspelt one probably means.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// Optimal string alignment: insertions, deletions, substitutions and swaps of neighbours, each 1.
std::size_t edit_distance(std::string_view, std::string_view);

// The candidate of least distance (the first of equals), or empty when more than half of the
// letters would change.
std::string nearest_name(std::string_view wrong, std::span<const std::string> candidates);

}  // namespace trireme
