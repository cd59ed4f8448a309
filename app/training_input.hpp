#pragma once
// Opens the training data of a deck, for a run that begins or continues.
#include <string>

#include "lib/data/dataset.hpp"
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

// Opens the training data of a new run, for planning and checking. If `most` is positive, only the
// first `most` tokens of each file are used.
Dataset training_data_of(const Deck&, std::int64_t most = 0);

}  // namespace trireme
