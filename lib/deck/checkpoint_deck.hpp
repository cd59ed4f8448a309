#pragma once
// Reads the deck and the model of a checkpoint.
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Returns the deck of a checkpoint, with model.vocab set. The deck itself contains the model's
// shape. Throws Error if the deck cannot be read, or if it refers to a checkpoint for the shape,
// which might be this very checkpoint.
Deck deck_of(const CheckpointReader&);
// Returns the completed model config of a checkpoint.
ModelConfig model_of(const CheckpointReader&);

}  // namespace trireme
