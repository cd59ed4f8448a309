#pragma once
// What several subcommands share.
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

// For an argument that is no text for a model: ${NAME} stands for the environment's.
CLI::Validator with_environment();

// Fills in model.vocab from the token files if the deck does not give it. Error when the deck's
// vocab is smaller than the files'.
Deck with_vocab(Deck);

// Collective. All but the device (launch::gpu_of_rank), which plans do not need.
BackendChoice backend_choice(const Deck&, const Communicator& world);
// The compute type of the deck, or the one that this machine supports instead, with a warning.
DType usable_compute(const BackendChoice&, DType wanted);

// Device if each rank has a GPU of its own and the build has NCCL, else host.
TransportKind transport_of(const Deck&, const BackendChoice&);

// The deck's sections as a Trainer takes them.
TrainerSetup trainer_setup(const Deck&, DType compute);
Grid grid_of(const Deck&);
// The same for a plan of the run.
PlanInput plan_input(const Deck&, DType compute, TransportKind);
// The deck for one rank, whatever grid it was written for.
Deck on_one_rank(Deck);

// A checkpoint directory, or the newest intact checkpoint of a run directory.
std::filesystem::path find_checkpoint(const std::filesystem::path&);

// A trained model from a checkpoint, for evaluation and generation on one rank.
class LoadedModel {
 public:
  // `backend` and `threads` as run.backend and run.threads; `checkpoint` is the directory of one.
  LoadedModel(const std::filesystem::path& checkpoint, const std::string& backend,
              std::int64_t threads);
  // find_checkpoint's; where a run prunes what it is about to read, the next newest.
  static std::unique_ptr<LoadedModel> open(const std::filesystem::path&, const std::string& backend,
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
