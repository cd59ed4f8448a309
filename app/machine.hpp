#pragma once
// The hardware and memory of a job: chooses a backend, checks the available memory, and opens the
// backend and the trainer.
#include <memory>

#include "app/fixed_models.hpp"
#include "app/run_support.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// The backend of a rank, and the trainer that uses this backend.
struct Machine {
  BackendChoice choice;
  PlanInput input;
  Axes axes;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Workspace> workspace;
  std::unique_ptr<Trainer> trainer;

  // Opens the backend and creates the trainer, whose weights are not initialized. Throws
  // SharedError if the job needs more memory than is available. In this case, no rank has reserved
  // memory. Collective.
  void open(const Communicator& world);
};

// Chooses the backend and the device of each rank, and derives the input of the plan from the deck.
// `DocumentWeights` says whether training documents have weights in the loss. Reserves no memory.
// Collective.
Machine choose_machine(const Communicator& world, const Deck&, const FixedModels&, ModelUse,
                       DocumentWeights = DocumentWeights::absent);

// Loads the model and its fixed models into the machine's trainer. `from` is the checkpoint that
// the model comes from: training resumes from its state, and other uses load its weights. If it is
// null, the model has the weights of the initial model, if any, and random weights from `seed`
// otherwise. Throws SharedError if a checkpoint cannot be read. Collective.
void load_model(const Communicator& world, Machine&, FixedModels&, CheckpointReader* from,
                std::uint64_t seed);

}  // namespace trireme
