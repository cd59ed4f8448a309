#pragma once
// Losses of a reference model on the documents of token files. Preference training
// (lib/train/preference.hpp) compares the trained model with them. The losses are computed once and
// stored in a file (lib/io/scores_file.hpp).
//
// Shapes: D documents.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/data/packing.hpp"
#include "lib/data/token_file.hpp"

namespace trireme {

// Losses of the documents in one token file, in ascending order of `begin_D`.
struct FileLosses {
  std::string file;                             // path of the token file
  std::string identity;                         // identity_text of the token file
  std::vector<std::int64_t> begin_D, inputs_D;  // as in PackedDocument
  // Negative log-probability of each document in nats, summed over the targets that count in the
  // loss.
  std::vector<double> loss_D;
  bool operator==(const FileLosses&) const = default;
};

// Losses for several token files, and information on how they were computed.
struct ReferenceLosses {
  std::string source;      // path of the scores file, for messages
  std::string model;       // identity_of_weights of the checkpoint
  std::string checkpoint;  // path of the checkpoint
  std::string compute;     // name of the compute type
  // Number of tokens per sample. Pairs that are longer have no losses.
  std::int64_t context = 0;
  std::vector<FileLosses> files;
  bool operator==(const ReferenceLosses&) const = default;
};

// Returns a hash of identity_of(file) (lib/data/same_files.hpp) as text.
std::string identity_text(const TokenFile&);

// Returns the losses of `documents`, which belong to the given file. Throws Error if there are no
// losses for this file (listing the files with losses) or if a document has no loss.
std::vector<double> losses_for(const ReferenceLosses&, const TokenFile&,
                               std::span<const PackedDocument>);

}  // namespace trireme
