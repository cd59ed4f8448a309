#pragma once
// The model that a deck of train.objective = "distill" learns from.
#include "lib/deck/deck.hpp"

namespace trireme {

// Sets Deck::teacher of a resolved deck of that objective, from what is in the checkpoint that
// distill.teacher names; others stay as they are. Throws Error where there is none, or where it
// cannot run beside the deck's model: on its grid, for its samples and its vocabulary.
void read_teacher(Deck&);

}  // namespace trireme
