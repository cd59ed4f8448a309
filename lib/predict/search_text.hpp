#pragma once
// Formats the result of a search for the terminal.
#include <optional>
#include <string>

#include "lib/predict/search.hpp"

namespace trireme {

// Returns the result as text. `memory` is the number of bytes that a rank may reserve; absent means
// unlimited. Each line of overrides also resets what the deck sets.
std::string search_text(const SearchResult&, std::optional<double> memory, const SetByDeck& = {});

}  // namespace trireme
