#pragma once
// The teacher model of a deck with train.objective = "distill".
#include <optional>

#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Returns the model in a checkpoint as the teacher of a resolved deck. Throws Error if it cannot
// run with the deck's grid, context length or vocabulary.
ModelConfig teacher_in(const CheckpointReader&, const Deck&);

// Returns the model of distill.teacher, or nothing for objectives without a teacher. Throws Error
// if there is no such checkpoint, or like teacher_in().
std::optional<ModelConfig> teacher_of(const Deck&);

}  // namespace trireme
