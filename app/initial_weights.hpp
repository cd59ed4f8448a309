#pragma once
// Opens checkpoints that a run reads but never changes: the weights with which it begins, the base
// model of its adapters, and its teacher.
#include <filesystem>

#include "lib/comm/communicator.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Opens the checkpoint of model.init_from, which becomes the path of the checkpoint itself. For a
// run directory, this is the newest checkpoint. Throws SharedError if ranks see different weights,
// or if the checkpoint holds another model. Collective.
CheckpointReader open_initial(const Communicator& world, Deck&);

// Opens the base model of adapters, and sets model.init_from to its path. `adapters` is the state
// of the adapters' checkpoint, or null for new adapters. If the state names the weights of the base
// model, a checkpoint with these weights is searched for in the same directory. Throws SharedError
// if there is none. Collective.
CheckpointReader open_adapter_base(const Communicator& world, Deck&,
                                   const CheckpointMeta* adapters);

// Opens the checkpoint of distill.teacher, which becomes the path of the checkpoint itself, and
// sets Deck::teacher. If the run restarts from the checkpoint state `from`, the teacher's weights
// must be those from which the run learned so far. Throws SharedError if there is no such
// checkpoint. Collective.
CheckpointReader open_teacher(const Communicator& world, Deck&, const CheckpointMeta* from);

// Logs a warning if the model of the initial weights computes other results than the deck's model.
void compare_with_initial(const Deck&, const CheckpointReader&);

}  // namespace trireme
