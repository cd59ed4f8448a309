#pragma once
// What several subcommands share.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/deck/deck.hpp"
#include "lib/deck/trainer_setup.hpp"
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

// The same for a plan, which needs no token files where the deck gives model.vocab: of those that
// are not here nothing is asked.
Deck with_planned_vocab(Deck);

// Warns of a batch that is more than an epoch's samples (0: not known), and of a warm-up that does
// not end within the steps of the run.
void warn_of_length(const Deck&, std::int64_t steps, std::int64_t samples_per_epoch);

// Collective. All but the device (launch::gpu_of_rank), which plans do not need.
BackendChoice backend_choice(const Deck&, const Communicator& world);
// The compute type of the deck, or the one that this machine supports instead, with a warning.
DType usable_compute(const BackendChoice&, DType wanted);
// Collective. The same for the machines of all ranks.
DType agreed_compute(const Communicator& world, const BackendChoice&, DType wanted);

// Says how many times as fast a GPU would multiply, where a deck leaves its tensor cores idle.
void warn_of_slow_products(const BackendChoice&, DType compute);

// Device if each rank has a GPU of its own, else host: the same in every build, and one without
// NCCL refuses to run what several ranks ask of it.
TransportKind transport_of(const Deck&, const BackendChoice&);

// The deck's sections as a plan takes them.
PlanInput plan_input(const Deck&, DType compute, TransportKind);

// The deck for one rank, whatever grid it was written for.
Deck on_one_rank(Deck);

}  // namespace trireme
