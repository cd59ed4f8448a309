#pragma once
// A deck's sections as a Trainer takes them.
#include "lib/comm/grid.hpp"
#include "lib/deck/deck.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

TrainerSetup trainer_setup(const Deck&, DType compute);
Grid grid_of(const Deck&);

}  // namespace trireme
