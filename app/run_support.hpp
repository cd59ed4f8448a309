#pragma once
// Functions that several subcommands share.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/data/dataset.hpp"
#include "lib/deck/resolve.hpp"

namespace trireme {

// The deck's path and the overrides on a command line.
struct DeckArguments {
  std::string path;
  std::vector<std::string> overrides;
};
void add_deck_arguments(CLI::App& command, DeckArguments&);

// Returns a validator that replaces ${NAME} by the environment variable NAME. It is meant for
// arguments that are not text for a model.
CLI::Validator with_environment();

// Adds --ranks or --ranks-per-node to commands that plan for other machines. If the option is not
// given, the variable keeps its value. 0 means the ranks that run the command.
void add_ranks(CLI::App& command, std::int64_t& ranks);
void add_ranks_of_node(CLI::App& command, std::int64_t& ranks_of_node);

// Returns the vocabulary size that the token files need. If the deck sets model.vocab, files that
// do not exist here are ignored, because they may be on another machine.
std::int64_t planned_vocabulary(const Deck&);

// Logs, for a deck with zero.shard = "node", how many ranks share a copy of the weights.
void log_copy_each_node(const Deck& resolved, std::int64_t ranks_of_node);

// Warns if a rank uses more threads than it has processors. `processors` is the number for one rank
// (launch::processors_of_rank).
void warn_of_threads(const BackendChoice&, int processors);
// Warns of settings that are allowed but seldom intended, such as a batch larger than an epoch, a
// warmup longer than the run, or nothing to train. `steps` is the length of the run.
// `samples_per_epoch` is 0 if unknown.
void warn_of_settings(const Deck&, std::int64_t steps, std::int64_t samples_per_epoch);

// Throws Error if the data are preference pairs but train.objective is not "dpo", or the reverse.
void require_objective(const Deck&, const Dataset&);
// Reads the file of train.dpo_scores. Throws Error, naming the key, if that fails.
ReferenceLosses scores_of(const Deck&);
// Returns a dataset of preference pairs with the reference losses of train.dpo_scores. Returns
// other datasets unchanged, and any dataset if the deck names no scores. Throws Error if the file
// is missing or lacks a document.
Dataset with_scores(const Deck&, Dataset);
// Logs how whole documents are packed into samples, and which share of the targets is lost because
// documents are longer than a sample.
void log_packing(const Dataset&);
// Logs how many targets are in samples that lack the beginning of their document. Reads the token
// files that have a target mask.
void log_cut_documents(const Dataset&);

// Returns the backend and its settings, except for the device (launch::gpu_of_rank), which plans do
// not need. Collective.
BackendChoice backend_choice(const Deck&, const Communicator& world);
// Returns the wanted compute type if this machine supports it. Otherwise logs a warning and returns
// a supported type.
DType usable_compute(const BackendChoice&, DType wanted);
// Returns the compute type that the machines of all ranks support. Collective.
DType agreed_compute(const Communicator& world, const BackendChoice&, DType wanted);

// Logs how much faster a GPU would multiply if the deck's compute type used its tensor cores.
void warn_of_slow_products(const BackendChoice&, DType compute);

// Returns `device` if each rank has its own GPU, otherwise `host`. The result does not depend on
// whether the build contains NCCL. A build without NCCL rejects such a run with several ranks.
TransportKind transport_of(const Deck&, const BackendChoice&);

}  // namespace trireme
