#pragma once
// What several subcommands share.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/data/dataset.hpp"
#include "lib/deck/resolve.hpp"

namespace trireme {

// DECK and its overrides on the command line.
struct DeckArguments {
  std::string path;
  std::vector<std::string> overrides;
};
void add_deck_arguments(CLI::App& command, DeckArguments&);

// For an argument that is no text for a model: ${NAME} stands for the environment's.
CLI::Validator with_environment();

// --ranks-per-node of commands that plan for other machines; stays as it is if not given.
// 0: not given, and the ranks are those that run the command.
void add_ranks(CLI::App& command, std::int64_t& ranks);
void add_ranks_of_node(CLI::App& command, std::int64_t& ranks_of_node);

// What the token files of a plan need of model.vocab. Where the deck gives that, they may be
// elsewhere: of those that are not here nothing is asked.
std::int64_t planned_vocabulary(const Deck&);

// Of a deck that had zero.shard = "node": how many ranks share a copy.
void log_copy_each_node(const Deck& resolved, std::int64_t ranks_of_node);

// Warns of what is allowed and seldom meant: a batch that is more than an epoch's samples (0: not
// known), a warm-up that does not end within the steps of the run, nothing to train.
// `processors`: of a rank (launch::processors_of_rank).
void warn_of_threads(const BackendChoice&, int processors);
void warn_of_settings(const Deck&, std::int64_t steps, std::int64_t samples_per_epoch);

// Error when data are not what train.objective is of: pairs of documents, or others.
void require_objective(const Deck&, const Dataset&);
// What train.dpo_scores names. Throws Error, naming the key.
ReferenceLosses scores_of(const Deck&);
// Pairs with what train.dpo_scores says of them, where the deck names such a file; other data as
// they are. Error when it is not there or lacks some.
Dataset with_scores(const Deck&, Dataset);
// Logs how whole documents share samples, and what is lost of those that are too long.
void log_packing(const Dataset&);
// Logs what samples cut off in files of which a part is learnt. Reads these files.
void log_cut_documents(const Dataset&);

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

}  // namespace trireme
