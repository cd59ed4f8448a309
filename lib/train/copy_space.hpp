#pragma once
// Whether the memory of the nodes is large enough for memory copies of a run.
#include <filesystem>
#include <string>

#include "lib/comm/axes.hpp"
#include "lib/shard/store.hpp"

namespace trireme {

// Throws SharedError if a node has too little memory for the copies, or if its memory directory
// cannot be created. `run` is the run directory, and `run_id` is CheckpointMeta::run. Counts the
// memory of copies of an earlier start of the run as free, because this start removes them. If the
// run continues after a failure, only logs a warning about memory directories with too little
// space. Collective.
void require_space_for_copies(const Store&, const Axes&, const std::filesystem::path& run,
                              const std::string& run_id);

}  // namespace trireme
