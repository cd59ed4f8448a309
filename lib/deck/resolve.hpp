#pragma once
// From a deck to a plan's input: what the deck leaves open is decided by its context. Pure.
#include <cstdint>

#include "lib/deck/deck.hpp"
#include "lib/plan/plan.hpp"
#include "lib/predict/choices.hpp"

namespace trireme {

struct DeckContext {
  std::int64_t ranks = 1;
  std::int64_t ranks_of_node = 0;  // consecutive ones that each node runs; 0: not known
  std::int64_t vocab = 0;          // that the token files need; 0: none of them is known
};

// The deck with nothing left to decide: parallel.data and train.microbatch as the ranks say,
// model.vocab as the files do, and a number for zero.shard = "node". Error naming legal values.
Deck resolve(Deck, const DeckContext&);

// What a resolved deck asks of a trainer and of a plan. `compute`: as the machine can.
PlanInput plan_input_of(const Deck&, DType compute, TransportKind);
Grid grid_of(const Deck&);

// The deck resolved for one rank, whatever grid it was written for.
Deck on_one_rank(Deck, std::int64_t vocab = 0);

// The same with what a search of other grids keeps of the deck's [parallel] and [zero].
Deck to_search(const Deck&, std::int64_t vocab);
// The rest, which the overrides that a search finds must undo.
SetByDeck set_by(const Deck&);

}  // namespace trireme
