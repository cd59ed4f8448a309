#pragma once
// Prepares a run: opens its inputs, and then the machine with the model. Files of an earlier run
// remain unchanged.
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
  // Checkpoint from which the run restarts. Absent for a new run.
  std::optional<CheckpointReader> from;
  // Checkpoint of model.init_from. Null if no weights are read from it.
  std::unique_ptr<CheckpointReader> initial;
  // Checkpoint of distill.teacher. Null if there is none.
  std::unique_ptr<CheckpointReader> teacher;
  // Scores of train.dpo_scores, without the losses of the files.
  std::optional<ReferenceLosses> scores;
  // Hash of the scores (scores_hash). Empty if there are none.
  std::string identity_of_scores;
  CheckpointMeta meta;
  std::int64_t total_steps;

  // Returns true if the checkpoint has already reached the last step.
  bool finished() const { return from && meta.step >= total_steps; }
};

// Opens the inputs of a run. `from` is the checkpoint to restart from, or empty. The checkpoint's
// parameters must be those of the deck's model. If an input is invalid on one rank or differs
// between ranks, throws Error on all ranks. Collective.
Inputs open_inputs(const Communicator& world, Deck, const std::string& from);

// Opens the machine and loads the model and its state. If the run needs more memory than is
// available, throws SharedError before any memory is reserved. `rounding` is
// BackendChoice::rounding. Collective.
Machine open_machine(const Communicator& world, Inputs&, std::uint64_t rounding = 0);

}  // namespace trireme
