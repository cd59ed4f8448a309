#pragma once
// HDF5 files of reference losses ("scores"), which `trireme score` writes and preference training
// reads (docs/dpo.md). A file has the attributes `format`, `model`, `checkpoint`, `compute`,
// `context` and `xxh3_128`. The group `files` contains one group per token file, called "0", "1",
// and so on, with the attributes `file` and `identity` and the datasets `begin`, `inputs` and
// `loss`, which have one element per document.
#include <filesystem>

#include "lib/data/reference_losses.hpp"

namespace trireme {

// Creates the file, which must not exist. It appears complete or not at all. Throws Error if it
// cannot be written.
void write_scores(const std::filesystem::path&, const ReferenceLosses&);

// Reads a scores file. Throws Error, naming the file, if it is not a scores file or does not match
// its hash.
ReferenceLosses read_scores(const std::filesystem::path&);

// Returns true if the file is HDF5 and contains what every version of a scores file contains. The
// file may still be damaged.
bool is_scores_file(const std::filesystem::path&);

// Returns a hash of everything except the paths of the files and the checkpoint.
std::string scores_hash(const ReferenceLosses&);

}  // namespace trireme
