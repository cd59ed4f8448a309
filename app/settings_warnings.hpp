#pragma once
// Warnings of `check` and `train`.
#include "lib/data/dataset.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Logs warnings about settings that are valid but usually not intended. Examples are a batch larger
// than an epoch, a warmup longer than the run, or a model without trained parameters. The run
// begins at `from`, which is empty for a new run. `training` is null if the data is unknown.
void warn_of_settings(const Deck&, const CheckpointMeta& from, const Dataset* training);

// Logs a warning if muon or shampoo trains the weights of an initial model that AdamW has trained,
// or that may be from another program.
void warn_of_initial_optimizer(const Deck&, const CheckpointReader& initial);

}  // namespace trireme
