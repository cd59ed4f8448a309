#pragma once
#include <string>

#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Returns text that describes a checkpoint: its counters, layout, files, parameters and deck, or
// its model if it has no deck.
std::string describe(const CheckpointReader&);

}  // namespace trireme
