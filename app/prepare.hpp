#pragma once
// Prepares a run: opens its inputs, then the machine with the model. Files of an earlier run remain
// unchanged.
#include <memory>
#include <optional>
#include <string>

#include "app/machine.hpp"
#include "app/tokenizers.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// The data and checkpoints that a run reads.
struct Inputs {
  Deck deck;
  Dataset training;
  std::optional<Dataset> validation;
  // The checkpoint from which the run restarts.
  std::optional<CheckpointReader> from;
  // The checkpoint of model.init_from, if weights are read from it.
  std::unique_ptr<CheckpointReader> initial;
  // The checkpoint of distill.teacher, or null.
  std::unique_ptr<CheckpointReader> teacher;
  // The scores of train.dpo_scores, without the losses of files.
  std::optional<ReferenceLosses> scores;
  // Hash of the scores (scores_hash). Empty if there are none.
  std::string identity_of_scores;
  CheckpointMeta meta;
  std::int64_t total_steps;

  // Returns true if the checkpoint has already reached the last step.
  bool finished() const { return from && meta.step >= total_steps; }
};

// Opens the inputs of a run. `from` is the checkpoint to restart from, or empty. Its parameters
// must be those of the deck's model. Throws Error on all ranks if something is wrong on one rank or
// differs between ranks. Collective.
Inputs open_inputs(const Communicator& world, Deck, const std::string& from);

// Opens the machine and loads the model and its state. If the run needs more memory than there is,
// throws SharedError before memory is reserved. `rounding` is BackendChoice::rounding. Collective.
Machine open_machine(const Communicator& world, Inputs&, std::uint64_t rounding = 0);

}  // namespace trireme
