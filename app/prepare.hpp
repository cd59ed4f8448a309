#pragma once
// From a deck to all that a run needs: its inputs, then the machine with the model on it. Nothing
// of an earlier run is touched yet.
#include <memory>
#include <optional>
#include <string>

#include "app/machine.hpp"
#include "app/tokenizers.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Data, and the checkpoint to restart from.
struct Inputs {
  Deck deck;
  Dataset training;
  std::optional<Dataset> validation;
  std::optional<CheckpointReader> from;
  // What model.init_from comes to, where weights are taken from it.
  std::unique_ptr<CheckpointReader> initial;
  std::unique_ptr<CheckpointReader> teacher;  // of distill.teacher; null: there is none
  std::optional<ReferenceLosses> scores;      // of train.dpo_scores, without their files
  std::string identity_of_scores;             // scores_hash; empty: there are none
  CheckpointMeta meta;
  std::int64_t total_steps;

  bool finished() const { return from && meta.step >= total_steps; }
};

// Collective; `from`: the checkpoint to restart from, whose parameters are the deck's model's,
// empty for none. Error on all ranks when something is wrong on one, or differs between them.
Inputs open_inputs(const Communicator& world, Deck, const std::string& from);

// Collective. The machine with the model and its state on it. SharedError before any memory is
// taken when the run needs more than there is. `rounding`: BackendChoice's.
Machine open_machine(const Communicator& world, Inputs&, std::uint64_t rounding = 0);

}  // namespace trireme
