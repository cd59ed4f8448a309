#pragma once
// Decides from which checkpoint a run restarts.
#include <cstdint>
#include <filesystem>
#include <string>

#include "app/prepare.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Returns the path of the checkpoint to restart from. Returns an empty string if `restart` is
// empty, or if there is no checkpoint. `restart` is the path of a checkpoint or of a run directory,
// or "latest". "latest" means the newest intact checkpoint in the folder `checkpoints`. Newer but
// damaged checkpoints are skipped with a warning. To check the files of checkpoints, the ranks
// divide them among each other. Collective.
//
// Throws SharedError in these cases:
// - The named checkpoint, or every checkpoint, is damaged.
// - Ranks see different checkpoints.
// - The newest checkpoint belongs to another run.
std::string checkpoint_to_restart(const Communicator& world, const std::string& restart,
                                  const std::filesystem::path& checkpoints);

// The steps of the checkpoints to which train.rollback may go back: the multiples of `multiple_of`
// up to `at_most`.
struct AllowedSteps {
  std::int64_t at_most = 0;
  std::int64_t multiple_of = 1;
};
// Returns the newest intact checkpoint of these steps, as checkpoint_to_restart() does for
// "latest". Collective.
std::string checkpoint_to_roll_back_to(const Communicator& world,
                                       const std::filesystem::path& checkpoints, AllowedSteps);

// Whether the model in the deck may compute other results than the model in the checkpoint.
enum class OtherModel : std::uint8_t { refused, allowed };
// Compares the model in the deck with the model in the checkpoint, which has the same parameters.
// If the two models compute different results, throws SharedError, which names the keys that
// differ. If another model is allowed, logs a warning instead. Does nothing if the run does not
// restart. Collective.
void compare_models(const Communicator& world, const Inputs&, OtherModel);

}  // namespace trireme
