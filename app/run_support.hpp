#pragma once
// Functions that several subcommands share.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include "kernels/open/open.hpp"
#include "lib/data/dataset.hpp"
#include "lib/deck/resolve.hpp"
#include "lib/train/batch_ramp.hpp"

namespace trireme {

// The deck's path and the overrides in a command line.
struct DeckArguments {
  std::string path;
  std::vector<std::string> overrides;
};
void add_deck_arguments(CLI::App& command, DeckArguments&);

// Returns a validator that replaces ${NAME} in an argument by the value of the environment variable
// NAME. Do not use this validator for arguments that are text for a model, such as prompts.
CLI::Validator with_environment();

// Add the option --ranks or --ranks-per-node to a command that plans for other machines. If the
// user does not pass the option, the variable keeps its value. A value of 0 stands for the ranks
// that run the command.
void add_ranks(CLI::App& command, std::int64_t& ranks);
void add_ranks_of_node(CLI::App& command, std::int64_t& ranks_of_node);

// Returns the vocabulary size that the token files of the deck require. If the deck sets
// model.vocab, ignores files that do not exist, because they may exist only on the machine that
// will train.
std::int64_t planned_vocabulary(const Deck&);

// For a deck with zero.shard = "node", logs how many ranks share a copy of the weights.
void log_copy_each_node(const Deck& resolved, std::int64_t ranks_of_node);

// Logs a warning if a rank uses more threads than it has processors. `processors` is the number of
// processors of one rank (launch::processors_of_rank).
void warn_of_threads(const BackendChoice&, int processors);

// Throws Error if train.objective is for another kind of documents than the data have.
void require_objective(const Deck&, const Dataset&);
// Reads the file in train.dpo_scores. Throws Error, which names this key, if the file cannot be
// read.
ReferenceLosses scores_of(const Deck&);
// Adds the reference losses in train.dpo_scores to a dataset of preference pairs or labeled
// answers, and returns the dataset. If the dataset contains single documents, or if the deck has no
// train.dpo_scores, returns the dataset unchanged. Throws Error if the scores file is missing, or
// lacks a document of the dataset.
Dataset with_scores(const Deck&, Dataset);
// Logs how documents are packed into samples, and which fraction of the targets is lost because
// documents are longer than a sample. `set` names the dataset, such as "validation", and may be
// empty.
void log_packing(const Dataset&, const std::string& set = "");
// Logs how many targets are in samples that do not contain the beginning of the target's document.
// Reads all token files that have a target mask.
void log_cut_documents(const Dataset&);
// Logs a warning if a token file with a target mask is not packed into samples of whole documents.
// Reads only the headers of the files.
void suggest_packing(const Dataset&);

// Returns the backend and its settings for this deck. Does not set the device
// (launch::gpu_of_rank), because plans do not need it. Collective.
BackendChoice backend_choice(const Deck&, const Communicator& world);
// Returns the compute type `wanted` if this machine supports it. Otherwise logs a warning and
// returns a supported type.
DType usable_compute(const BackendChoice&, DType wanted);
// Returns a compute type that the machines of all ranks support. Collective.
DType agreed_compute(const Communicator& world, const BackendChoice&, DType wanted);

// If the compute type does not use the tensor cores of a GPU, logs how much faster matrix products
// would be with tensor cores.
void warn_of_slow_products(const BackendChoice&, DType compute);

// Returns the transport for messages between ranks: `device` if each rank has its own GPU,
// otherwise `host`. The result does not depend on whether the build includes NCCL. A build without
// NCCL rejects a run with several ranks on GPUs later.
TransportKind transport_of(const Deck&, const BackendChoice&);

}  // namespace trireme
