#pragma once
// Decides from which checkpoint a run restarts.
#include <cstdint>
#include <filesystem>
#include <string>

#include "app/prepare.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Returns the checkpoint to restart from, or an empty string if there is none or `restart` is
// empty. `restart` is a checkpoint, a run directory, or "latest", which means the newest intact
// checkpoint in `checkpoints`. Newer but damaged checkpoints are skipped with a warning. The ranks
// divide the files among them to check them. Throws SharedError in these cases: - The named
// checkpoint, or every checkpoint, is damaged. - Ranks see different checkpoints. - The newest
// checkpoint belongs to another run.
//
// Collective.
std::string checkpoint_to_restart(const Communicator& world, const std::string& restart,
                                  const std::filesystem::path& checkpoints);

// Whether the deck's model may compute different results than the checkpoint's model.
enum class OtherModel : std::uint8_t { refused, allowed };
// Compares the deck's model with the checkpoint's model, which has the same parameters. If they
// compute different results, throws SharedError, naming the keys, or logs a warning if a different
// model is allowed. Collective.
void compare_models(const Communicator& world, const Inputs&, OtherModel);

}  // namespace trireme
