#pragma once
// Loads a model's state from checkpoints. state_saver.hpp writes checkpoints.
#include <span>

#include "lib/io/checkpoint_reader.hpp"
#include "lib/shard/freeze.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Throws Error, naming the first differences, if the checkpoint is of a different model. For a
// model with adapters, the checkpoint must contain exactly the adapters and the parameters in
// AdapterConfig::also_train.
void require_model(const CheckpointReader&, const ModelSpec&);
// Throws Error, naming the first differences, unless the checkpoint is of the base model, without
// adapters.
void require_base(const CheckpointReader&, const ModelConfig&);

// In the following functions, each rank reads the part of the state that it holds. The functions
// throw Error, naming the first differences, if the checkpoint is of a different model. They also
// throw Error if the checkpoint's master type differs.
//
// Loads all base weights of a model with adapters from a checkpoint of the model without them.
void load_base(Store&, CheckpointReader&);
// Sets the trained norms of DoRA adapters to the row norms of the base weights in the checkpoint,
// so that the model computes what its base model computes. Call it after load_base(), which checks
// the checkpoint. Logs a warning for each weight that has rows of zeros on this rank.
void initialize_norms(Store&, CheckpointReader&);
// Loads only the weights. Moments and update counts start afresh. A run in f64 may load an f32
// checkpoint.
void load_weights(Store&, CheckpointReader&);
// Loads the weights. Also loads the moments, averages and update counts of parameters that resume
// in the next step. `freeze_states` is indexed by ParamId. Allocates no optimizer arrays for other
// parameters. Averages that the checkpoint does not have begin at the weights.
void load_state(Store&, CheckpointReader&, std::span<const FreezeState> freeze_states);

}  // namespace trireme
