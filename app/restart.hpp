#pragma once
// Which checkpoint a run goes on from.
#include <filesystem>
#include <string>

#include "lib/comm/communicator.hpp"

namespace trireme {

// Collective. `restart` is a checkpoint, a run directory, or "latest": the newest intact one in
// `checkpoints`, newer ones that are damaged being skipped with a warning. The ranks read the files
// between them. Empty: there is none, or `restart` is empty. SharedError when what was named is
// damaged, or all there are.
std::string checkpoint_to_restart(const Communicator& world, const std::string& restart,
                                  const std::filesystem::path& checkpoints);

}  // namespace trireme
