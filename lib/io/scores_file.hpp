#pragma once
// HDF5 files of reference losses ("scores"), which `trireme score` writes and preference training
// reads (docs/dpo.md). A file has the attributes `format`, `model`, `checkpoint`, `compute`,
// `context` and `xxh3_128`. The group `files` contains one group per token file, called "0", "1",
// and so on, with the attributes `file` and `identity` and the datasets `begin`, `inputs` and
// `loss`, which have one element per document.
//
// After the HDF5 data, the file ends with the line "xxh3_128 HEX", which contains the hash of all
// bytes before this line. HDF5's own tools ignore the line. read_scores() checks the hash before
// HDF5 reads the file.
#include <filesystem>

#include "lib/data/reference_losses.hpp"

namespace trireme {

// Creates a scores file, which must not exist. The file appears complete or not at all. Throws
// Error if the file cannot be written.
void write_scores(const std::filesystem::path&, const ReferenceLosses&);

// Reads a scores file. Throws Error, naming the file, if the file is not a scores file or does not
// match its hashes.
ReferenceLosses read_scores(const std::filesystem::path&);

// Returns true if the file begins like an HDF5 file. Only read_scores() determines whether it is a
// scores file.
bool is_hdf5_file(const std::filesystem::path&);

// Returns a hash of the scores that covers everything except the paths of the token files and the
// checkpoint.
std::string scores_hash(const ReferenceLosses&);

}  // namespace trireme
