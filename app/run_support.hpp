#pragma once
// What several subcommands do alike.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/data/tokenizer.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint_reader.hpp"
#include "lib/plan/plan.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// DECK and its overrides on the command line.
struct DeckArguments {
  std::string path;
  std::vector<std::string> overrides;
};
void add_deck_arguments(CLI::App& command, DeckArguments&);

// The deck with model.vocab taken from the token files where the deck leaves it open. Error when
// the deck's vocab is smaller than the files'.
Deck with_vocab(Deck);

// Collective. What a plan needs to know: which device is for those who open it
// (launch::gpu_of_rank).
BackendChoice backend_choice(const Deck&, const Communicator& world);
// The compute type of the deck, or what this machine has instead, with a warning.
DType usable_compute(const BackendChoice&, DType wanted);

// Each rank has a GPU of its own and NCCL to reach the others' with; else Views travel through host
// memory.
Wires wires_of(const Deck&, const BackendChoice&);

// What a deck says about a model, its state and its training.
TrainerSetup trainer_setup(const Deck&, DType compute);
Grid grid_of(const Deck&);
// What a plan of its run needs.
PlanInput plan_input(const Deck&, DType compute, Wires);
// The deck as one rank runs it, whatever grid it was written for.
Deck on_one_rank(Deck);

// A checkpoint directory, or the newest intact checkpoint of a run directory.
std::filesystem::path find_checkpoint(const std::filesystem::path&);

// A trained model ready to be used, from a checkpoint alone.
class LoadedModel {
 public:
  // `backend` and `threads` as run.backend and run.threads.
  LoadedModel(const std::filesystem::path& checkpoint, const std::string& backend,
              std::int64_t threads);

  const Deck& deck() const { return deck_; }
  const CheckpointMeta& meta() const { return reader_.meta(); }
  Trainer& trainer() { return *trainer_; }

 private:
  CheckpointReader reader_;
  Deck deck_;
  Axes axes_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Workspace> workspace_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace trireme
