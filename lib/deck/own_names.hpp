#pragma once
// Patterns of names in the form of transformers and peft, such as "q_proj" and "model.layers.0.*".
#include <string>
#include <string_view>

#include "lib/deck/deck.hpp"

namespace trireme {

// Returns the pattern in Trireme's names: "*.qkv.q" for "q_proj", and "blocks.0.*" for
// "model.layers.0.*". A pattern without a name of transformers is returned unchanged.
std::string own_pattern(std::string_view pattern);

// Converts all patterns of a deck. In adapter.patterns, "all-linear" means all products outside
// experts, as in peft.
void use_own_names(Deck&);

}  // namespace trireme
