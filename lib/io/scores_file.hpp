#pragma once
// HDF5 files of reference losses ("scores"), which `trireme score` writes and preference training
// reads (docs/dpo.md). A file has the attributes `format`, `model`, `checkpoint`, `compute`,
// `context` and `xxh3_128`. The group `files` contains one group per token file, called "0", "1",
// and so on, with the attributes `file` and `identity` and the datasets `begin`, `inputs` and
// `loss`, which have one element per document.
//
// Behind the HDF5 data, which HDF5's own tools ignore, the file ends with the line "xxh3_128 HEX":
// the hash of all bytes before this line. It is checked before HDF5 reads the file.
#include <filesystem>

#include "lib/data/reference_losses.hpp"

namespace trireme {

// Creates the file, which must not exist. It appears complete or not at all. Throws Error if it
// cannot be written.
void write_scores(const std::filesystem::path&, const ReferenceLosses&);

// Reads a scores file. Throws Error, naming the file, if it is not a scores file or does not match
// its hashes.
ReferenceLosses read_scores(const std::filesystem::path&);

// Returns true if the file begins as an HDF5 file does. Only read_scores tells whether it is a
// scores file.
bool is_hdf5_file(const std::filesystem::path&);

// Returns a hash of everything except the paths of the files and the checkpoint.
std::string scores_hash(const ReferenceLosses&);

}  // namespace trireme
