#pragma once
// The teacher model of a deck with train.objective = "distill".
#include "lib/deck/deck.hpp"

namespace trireme {

// Sets Deck::teacher of a resolved deck from the checkpoint that distill.teacher names. Does
// nothing for other objectives. Throws Error if there is no such checkpoint, or if its model cannot
// run with the deck's grid, context length or vocabulary.
void read_teacher(Deck&);

}  // namespace trireme
