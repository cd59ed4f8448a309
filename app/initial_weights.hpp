#pragma once
// The checkpoint that model.init_from names: what a run begins with, or what adapters stand beside;
// and that of a teacher.
#include <filesystem>

#include "lib/comm/communicator.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Collective: rank 0 finds it, and SharedError where ranks see other weights, or another model's.
// model.init_from becomes that checkpoint itself, of a run its newest.
CheckpointReader open_initial(const Communicator& world, Deck&);

// The same of adapters, where a checkpoint of them says beside which weights they were trained
// (CheckpointMeta::extra.base; null: they are new). Of a run the checkpoint with these weights is
// taken. SharedError where there is none.
CheckpointReader open_adapter_base(const Communicator& world, Deck&,
                                   const CheckpointMeta* adapters);

// Of train.objective = "distill": what distill.teacher names, which becomes that checkpoint itself,
// or, of a run that goes on from one of this head, the one with the weights that it learnt from.
// Sets Deck::teacher. Collective; SharedError.
CheckpointReader open_teacher(const Communicator& world, Deck&, const CheckpointMeta* from);

// Warns where the model that the first weights are of computes otherwise than the deck's.
void compare_with_initial(const Deck&, const CheckpointReader&);

}  // namespace trireme
