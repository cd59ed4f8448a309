#pragma once
// Which checkpoint a run goes on from.
#include <cstdint>
#include <filesystem>
#include <string>

#include "app/prepare.hpp"
#include "lib/comm/communicator.hpp"

namespace trireme {

// Collective. `restart` is a checkpoint, a run directory, or "latest": the newest intact one in
// `checkpoints`, newer ones that are damaged being skipped with a warning. The ranks read the files
// between them. Empty: there is none, or `restart` is empty. SharedError when what was named is
// damaged, or all there are, when ranks see different ones, or the newest is of another run.
std::string checkpoint_to_restart(const Communicator& world, const std::string& restart,
                                  const std::filesystem::path& checkpoints);

// What a restart does whose [model] computes otherwise than the checkpoint's.
enum class OtherModel : std::uint8_t { refused, allowed };
// Collective. The model that goes on is the one that was trained, or one of the same parameters:
// SharedError naming the keys that differ; where another one is allowed, a warning.
void compare_models(const Communicator& world, const Inputs&, OtherModel);

}  // namespace trireme
