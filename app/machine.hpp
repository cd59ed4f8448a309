#pragma once
// The hardware and memory of a job. The functions choose a backend, check the available memory, and
// open the backend with a trainer.
#include <memory>

#include "app/run_support.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// A backend on each rank, and the trainer that uses it.
struct Machine {
  BackendChoice choice;
  PlanInput input;
  Axes axes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;

  // Opens the backend and the trainer, whose weights are uninitialized. If the job needs more
  // memory than is available, throws SharedError before any memory is reserved. Collective.
  void open(const Communicator& world);
};

// Chooses each rank's backend and device, and derives the plan's input from the deck. Reserves no
// memory. Collective.
Machine choose_machine(const Communicator& world, const Deck&);

}  // namespace trireme
