#pragma once
// Formats the result of a search for the terminal.
#include <optional>
#include <string>

#include "lib/predict/search.hpp"

namespace trireme {

// Formats the result. `memory` is the number of bytes that a rank may reserve. If it is absent,
// memory is unlimited. Each line of overrides also resets settings of the deck.
std::string search_text(const SearchResult&, std::optional<double> memory,
                        const SettingsToReset& = {});

}  // namespace trireme
