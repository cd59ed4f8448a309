#pragma once
// Rules between several keys. Pure: they read nothing but the deck.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/comm/grid.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// `keys` are all that the rule reads, the one to change first.
struct DeckProblem {
  std::vector<std::string> keys;
  std::string message;
};

// All rules but those that depend on the number of ranks. Empty: the deck is sound.
std::vector<DeckProblem> check_deck(const Deck&);

// What the deck's grid has to fit.
GridLimits limits_of(const Deck&);

}  // namespace trireme
