#pragma once
// Opens the checkpoints of other models that a run reads: the initial weights, the base model of
// adapters, and the teacher.
#include <filesystem>

#include "lib/comm/communicator.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Opens the checkpoint in model.init_from. If model.init_from is a run directory, opens its newest
// checkpoint. Sets model.init_from to the path of the opened checkpoint. Throws SharedError if
// ranks see different weights, or if the checkpoint contains another model. Collective.
CheckpointReader open_initial(const Communicator& world, Deck&);

// Opens the checkpoint of the base model of adapters, and sets model.init_from to the path of this
// checkpoint. `adapters` is the state in the checkpoint of the adapters, or null for new adapters.
// If `adapters` contains a hash of the base model's weights, the function searches the directory of
// model.init_from for a checkpoint with these weights. Throws SharedError if there is no base
// model. Collective.
CheckpointReader open_adapter_base(const Communicator& world, Deck&,
                                   const CheckpointMeta* adapters);

// Opens the checkpoint in distill.teacher, sets distill.teacher to the path of this checkpoint, and
// sets Deck::teacher. `from` is the checkpoint state from which the run restarts, or null. If the
// run restarts, the teacher must have the same weights as before the restart. Throws SharedError if
// there is no such checkpoint. Collective.
CheckpointReader open_teacher(const Communicator& world, Deck&, const CheckpointMeta* from);

// Logs a warning if the model in the checkpoint of the initial weights and the model in the deck
// compute different results from the same weights.
void compare_with_initial(const Deck&, const CheckpointReader&);

}  // namespace trireme
