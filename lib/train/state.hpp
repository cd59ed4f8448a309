#pragma once
// A model's state from checkpoints; state_saver.hpp writes them.
#include <span>

#include "lib/io/checkpoint_reader.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Error, naming the first differences, when the checkpoint is of another model. Of one with
// adapters a checkpoint has those alone.
void require_model(const CheckpointReader&, const ModelSpec&);
// The same unless it is of the model that adapters stand beside.
void require_base(const CheckpointReader&, const ModelConfig&);

// Each rank reads what it holds. Error when the checkpoint is of another model, naming the first
// differences, or of another master type.
//
// All that adapters stand beside, from a checkpoint of the model without them.
void load_base(Store&, CheckpointReader&);
// Weights alone: moments and counts start afresh. Those of an f32 checkpoint also start a run in
// f64.
void load_weights(Store&, CheckpointReader&);
// Weights, and moments and counts of what `freeze_states` (by ParamId) says resumes in the step
// that comes next; nothing is taken for what is dropped there.
void load_state(Store&, CheckpointReader&, std::span<const FreezeState> freeze_states);

}  // namespace trireme
