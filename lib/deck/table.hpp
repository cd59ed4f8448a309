#pragma once
// The one table of all sections and keys, in the order in which decks are written.
#include <string>
#include <string_view>
#include <vector>

#include "lib/deck/key.hpp"

namespace trireme {

const std::vector<DeckSection>& deck_sections();

// nullptr when absent.
const DeckSection* find_section(std::string_view name);
const DeckKey* find_key(const DeckSection&, std::string_view name);
const DeckKey* find_key(std::string_view path);  // "section.key"

// "section.key" of every key.
const std::vector<std::string>& deck_key_paths();

}  // namespace trireme
