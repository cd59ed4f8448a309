#pragma once
// What a checkpoint says of the run and the model that it is of.
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// The deck of a checkpoint, with vocab. It gives its model's shape itself: one that refers to a
// checkpoint, which might be this one, is an Error as one that cannot be read.
Deck deck_of(const CheckpointReader&);
// Its model, completed.
ModelConfig model_of(const CheckpointReader&);

}  // namespace trireme
