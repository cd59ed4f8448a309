#pragma once
// Checks a deck against rules that involve several keys. The checks depend only on the deck.
#include <cstdint>
#include <string>
#include <vector>

#include "lib/comm/grid.hpp"
#include "lib/deck/deck.hpp"

namespace trireme {

// A violated rule. `keys` lists all keys that the rule reads, beginning with the key that the user
// should change.
struct DeckProblem {
  std::vector<std::string> keys;
  std::string message;
};

// Checks all rules except those that depend on the number of ranks. Returns an empty list if the
// deck is valid.
std::vector<DeckProblem> check_deck(const Deck&);

// Returns the limits that the deck sets for its grid.
GridLimits limits_of(const Deck&);

}  // namespace trireme
