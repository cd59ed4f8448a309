#pragma once
// What a job runs on: chosen, held to its memory, then opened with a trainer on it.
#include <memory>

#include "app/run_support.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

struct Machine {
  BackendChoice choice;
  PlanInput input;
  Axes axes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;

  // Collective. The trainer, whose weights are undefined. SharedError before any memory is taken
  // when the job needs more than there is.
  void open(const Communicator& world);
};

// Collective. Each rank's backend and device, and what the deck asks of them; nothing is taken yet.
Machine choose_machine(const Communicator& world, const Deck&);

}  // namespace trireme
