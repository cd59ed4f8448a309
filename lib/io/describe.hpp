#pragma once
#include <string>

#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// Returns text that describes a checkpoint: its counters, layout, files, parameters and deck.
std::string describe(const CheckpointReader&);

}  // namespace trireme
