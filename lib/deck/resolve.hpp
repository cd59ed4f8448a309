#pragma once
// Resolves a deck: ranks, nodes and token files determine what the deck leaves open. Converts a
// resolved deck to the input of a plan.
#include <cstdint>

#include "lib/deck/deck.hpp"
#include "lib/plan/plan.hpp"
#include "lib/predict/choices.hpp"

namespace trireme {

// The circumstances that resolve a deck.
struct DeckContext {
  std::int64_t ranks = 1;
  // Number of consecutive ranks on each node. 0 if unknown.
  std::int64_t ranks_of_node = 0;
  // Vocabulary size that the token files need. 0 if no file is known.
  std::int64_t vocab = 0;
};

// Returns the deck with everything decided: parallel.data and train.microbatch according to the
// ranks, model.vocab according to the token files, and a number for zero.shard = "node". Throws
// Error, naming valid values, if the deck does not fit the ranks.
Deck resolve(Deck, const DeckContext&);

// Returns the input of a trainer and of a plan for a resolved deck. `compute` is the compute type
// that the machine supports.
PlanInput plan_input_of(const Deck&, DType compute, TransportKind);
// Returns the grid of a deck. `data` is 0 if the deck leaves it open.
Grid grid_of(const Deck&);

// Returns the deck resolved for one rank, whatever its grid was.
Deck on_one_rank(Deck, std::int64_t vocab = 0);

// Returns the deck resolved for one rank, but with the keys of [parallel] and [zero] that a search
// for other grids keeps.
Deck to_search(const Deck&, std::int64_t vocab);
// Returns which keys the deck sets that a search for other grids must undo by overrides.
SetByDeck set_by(const Deck&);

}  // namespace trireme
