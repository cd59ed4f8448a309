#pragma once
// What a run reads and its own directory must not hold.
#include <filesystem>

#include "lib/deck/deck.hpp"

namespace trireme {

// Error when the run directory, which is about to be overwritten, holds something that the deck
// reads among what runs write there, or the deck itself.
void require_inputs_survive_overwrite(const std::filesystem::path& deck_file, const Deck&,
                                      const std::filesystem::path& run);

// Error when the teacher is one of the run directory's own checkpoints.
void require_teacher_of_another_run(const Deck&, const std::filesystem::path& run);

}  // namespace trireme
