#pragma once
// Checks that a run does not overwrite its own inputs.
#include <filesystem>

#include "lib/deck/deck.hpp"

namespace trireme {

// Throws Error if `train --overwrite` in the run directory `run` would delete the deck or a file
// that the deck reads.
void require_inputs_survive_overwrite(const std::filesystem::path& deck_file, const Deck&,
                                      const std::filesystem::path& run);

// Throws Error if distill.teacher is a checkpoint in the run directory.
void require_teacher_of_another_run(const Deck&, const std::filesystem::path& run);

}  // namespace trireme
