#pragma once
// Opens the training data of a deck, for a run that begins or continues, and identifies its token
// files.
#include <span>
#include <string>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/data/deck_data.hpp"
#include "lib/deck/deck.hpp"
#include "lib/io/checkpoint.hpp"

namespace trireme {

// The training data of a run, and its phases, which checkpoints store (RunExtra::data_phases).
struct TrainingInput {
  Dataset data;
  DataHistory history;
};

// Opens the training data of a run that begins, or that continues from `meta`. Throws Error if a
// token file or the checkpoint's list of phases cannot be read.
TrainingInput open_training(const Deck&, const CheckpointMeta& meta);

// Returns a hash of the identities of the token files (RunExtra::token_files).
std::string hash_of_files(const Dataset&);

// Returns a hash of the tokens of each validation set by its name, as JSON text
// (RunExtra::validation_sets).
std::string hashes_of_sets(std::span<const ValidationData>);
// Returns the names of the sets that both texts contain and whose hashes differ. Returns no name if
// a text is empty.
std::vector<std::string> changed_sets(const std::string& before, const std::string& now);

// Opens the training data of a new run, for planning and checking. If `most` is positive, only the
// first `most` tokens of each file are used.
Dataset training_data_of(const Deck&, std::int64_t most = 0);

}  // namespace trireme
