#pragma once
// Reads the deck and the model of a checkpoint.
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/model/config.hpp"

namespace trireme {

// Returns the deck of a checkpoint, with model.vocab set. If the checkpoint has only a model, the
// result is deck_without_run(). Throws Error if the deck cannot be read, or if it refers to a
// checkpoint for the model's shape, which might be this very checkpoint.
Deck deck_of(const CheckpointReader&);
// model_of() returns the completed model of a checkpoint. description_of() also returns its
// adapters and its context. Checkpoints of formats 1 and 2 contain these only as part of their
// deck.
ModelConfig model_of(const CheckpointReader&);
ModelDescription description_of(const CheckpointReader&);

}  // namespace trireme
