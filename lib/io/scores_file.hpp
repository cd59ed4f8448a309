#pragma once
// A file of scores, HDF5 that `trireme score` writes and training reads (docs/finetune.md): the
// attributes `format`, `model`, `checkpoint`, `compute`, `context` and `xxh3_128`, and in the group
// `files` one group a token file, "0", "1", ...: its attributes `file` and `identity`, and of each
// document the datasets `begin`, `inputs` and `loss`.
#include <filesystem>

#include "lib/data/reference_losses.hpp"

namespace trireme {

// Creates the file, which must not exist; it appears whole or not at all. Throws Error.
void write_scores(const std::filesystem::path&, const ReferenceLosses&);

// Throws Error, naming the file, when it is none, or holds other contents than its hash says.
ReferenceLosses read_scores(const std::filesystem::path&);

// HDF5 with what every version of these files has; not whether it is whole.
bool is_scores_file(const std::filesystem::path&);

// Of all but where they are and what they were called.
std::string scores_hash(const ReferenceLosses&);

}  // namespace trireme
