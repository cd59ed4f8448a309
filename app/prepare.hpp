#pragma once
// Prepares a run: opens the inputs, opens the machine, and loads the model. Does not change any
// file of an earlier run.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "app/machine.hpp"
#include "app/tokenizers.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/io/rollback_rows.hpp"
#include "lib/run/skip_rules.hpp"

namespace trireme {

// The data and checkpoints that a run reads.
struct Inputs {
  const Deck deck;
  Dataset training;
  std::vector<ValidationData> validation;
  // Checkpoint from which the run restarts. Absent for a new run.
  std::optional<CheckpointReader> from;
  FixedModels fixed;
  // Scores in the file of train.dpo_scores, without the losses for the token files.
  std::optional<ReferenceLosses> scores;
  // Hash of the scores (scores_hash). Empty if the run has no scores.
  std::string identity_of_scores;
  CheckpointMeta meta;
  std::int64_t total_steps;
  std::vector<RollbackRow> rollbacks;  // to the checkpoint and to earlier ones
  // Names of the validation sets whose tokens are not those of the checkpoint's run. Absent if the
  // checkpoint does not identify them.
  std::optional<std::vector<std::string>> changed_sets{};

  // Returns true if the checkpoint has already reached the last step.
  bool finished() const { return from && meta.step >= total_steps; }
};

// Opens the inputs of a run. `from` is the path of the checkpoint to restart from, or empty, and
// `run` is the directory of the run that saved it. The checkpoint must have the same parameters as
// the model in the deck. Throws SharedError if an input is invalid on any rank, or differs between
// ranks. Collective.
Inputs open_inputs(const Communicator& world, const Deck&, const std::string& from,
                   const std::filesystem::path& run);

// Returns the rules of train.skip_above and train.skip_steps, with the window in the checkpoint.
// Call it after the identities of the token files are known (open_inputs).
SkipRules skip_rules(const Inputs&);

// Opens the machine, and loads the model and its training state. `rounding` is the value of
// BackendChoice::rounding. Throws SharedError if the run needs more memory than is available. In
// this case, no rank has reserved memory. Collective.
Machine open_machine(const Communicator& world, Inputs&, std::uint64_t rounding = 0);

}  // namespace trireme
