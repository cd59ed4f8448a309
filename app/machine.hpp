#pragma once
// The hardware and memory of a job: chooses a backend, checks the available memory, and opens the
// backend with a trainer.
#include <memory>

#include "app/run_support.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// A backend on each rank, with the trainer that runs on it.
struct Machine {
  BackendChoice choice;
  PlanInput input;
  Axes axes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;

  // Opens the backend and the trainer, whose weights are undefined. If the job needs more memory
  // than there is, throws SharedError before memory is reserved. Collective.
  void open(const Communicator& world);
};

// Chooses each rank's backend and device, and derives the plan's input from the deck. Reserves
// nothing yet. Collective.
Machine choose_machine(const Communicator& world, const Deck&);

}  // namespace trireme
