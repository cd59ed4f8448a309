#pragma once
// The one table of all sections and keys, in the order in which decks are written.
#include <string>
#include <string_view>
#include <vector>

#include "lib/deck/deck.hpp"
#include "lib/keys/key.hpp"

namespace trireme {

const std::vector<KeySection>& deck_sections();

// nullptr when absent.
const KeySection* find_section(std::string_view name);
const Key* find_key(std::string_view path);  // "section.key"

// The value without which a deck does: TOML text, or `auto`, or nothing for a required key.
std::string default_text(const Key&);

// "section.key" of every key.
const std::vector<std::string>& deck_key_paths();

}  // namespace trireme
