#pragma once
// From a deck to all that a run needs, made before anything of an earlier run is touched: its
// inputs, then the machine with the model on it.
#include <memory>
#include <optional>
#include <string>

#include "app/run_support.hpp"
#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Data, and where training goes on.
struct Inputs {
  Deck deck;
  Dataset training;
  std::optional<Dataset> validation;
  std::optional<CheckpointReader> from;
  CheckpointMeta meta;
  std::int64_t total_steps;

  bool finished() const { return from && meta.step >= total_steps; }
};

// On every rank; `from`: the checkpoint to go on from, empty for none. What is wrong on one rank,
// or not the same on all, is an Error on all.
Inputs open_inputs(const Communicator& world, Deck, const std::string& from);

struct Machine {
  BackendChoice choice;
  Axes axes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;
};

// Error before any memory is taken when what the run will need is more than there is.
Machine open_machine(const Communicator& world, Inputs&);

}  // namespace trireme
