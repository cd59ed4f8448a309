#pragma once
// Opens checkpoints that a run reads but never changes: the initial weights, the base model of
// adapters, and the teacher.
#include <filesystem>

#include "lib/comm/communicator.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Opens the checkpoint of model.init_from and sets model.init_from to the path of this checkpoint.
// For a run directory, the newest checkpoint is used. Throws SharedError if ranks see different
// weights, or if the checkpoint contains another model. Collective.
CheckpointReader open_initial(const Communicator& world, Deck&);

// Opens the base model of adapters, and sets model.init_from to its path. `adapters` is the state
// in the adapters' checkpoint, or null for new adapters. If the state identifies the base model's
// weights, the function searches for a checkpoint with these weights in the same directory. Throws
// SharedError if there is no base model. Collective.
CheckpointReader open_adapter_base(const Communicator& world, Deck&,
                                   const CheckpointMeta* adapters);

// Opens the checkpoint of distill.teacher, sets distill.teacher to its path, and sets
// Deck::teacher. If the run restarts from the checkpoint state `from`, the teacher must have the
// same weights as before the restart. Throws SharedError if there is no such checkpoint.
// Collective.
CheckpointReader open_teacher(const Communicator& world, Deck&, const CheckpointMeta* from);

// Logs a warning if the model of the initial weights and the deck's model compute different
// results.
void compare_with_initial(const Deck&, const CheckpointReader&);

}  // namespace trireme
