#pragma once
// Table of all sections and keys, in the order in which decks are written.
#include <string>
#include <string_view>
#include <vector>

#include "lib/deck/deck.hpp"
#include "lib/keys/key.hpp"

namespace trireme {

const std::vector<KeySection>& deck_sections();

// Return the section or key with this name, or nullptr if there is none. The path of a key is
// "section.key".
const KeySection* find_section(std::string_view name);
const Key* find_key(std::string_view path);

// Returns the value of a key that the deck omits: TOML text, `auto`, or an empty string for a
// required key.
std::string default_text(const Key&);

// Returns the path "section.key" of every key.
const std::vector<std::string>& deck_key_paths();

}  // namespace trireme
