#pragma once
// What a search found, in words.
#include <optional>
#include <string>

#include "lib/predict/search.hpp"

namespace trireme {

// `memory`: bytes that a rank may reserve.
std::string search_text(const SearchResult&, std::optional<double> memory);

}  // namespace trireme
