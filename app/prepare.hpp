#pragma once
// From a deck to all that a run needs: its inputs, then the machine with the model on it. Nothing
// of an earlier run is touched yet.
#include <memory>
#include <optional>
#include <string>

#include "app/run_support.hpp"
#include "app/tokenizers.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Data, and the checkpoint to restart from.
struct Inputs {
  Deck deck;
  Dataset training;
  std::optional<Dataset> validation;
  std::optional<CheckpointReader> from;
  CheckpointMeta meta;
  std::int64_t total_steps;

  bool finished() const { return from && meta.step >= total_steps; }
};

// Collective; `from`: the checkpoint to restart from, whose parameters are the deck's model's,
// empty for none. Error on all ranks when something is wrong on one, or differs between them.
Inputs open_inputs(const Communicator& world, Deck, const std::string& from);

struct Machine {
  BackendChoice choice;
  Axes axes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;
};

// Collective. Error before any memory is taken when the run needs more than there is. `rounding`:
// BackendChoice's.
Machine open_machine(const Communicator& world, Inputs&, std::uint64_t rounding = 0);

}  // namespace trireme
