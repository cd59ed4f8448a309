#pragma once
#include <string>

#include "lib/io/checkpoint_reader.hpp"

namespace trireme {

// What a checkpoint holds, as text: counters, layout, files, parameters, deck.
std::string describe(const CheckpointReader&);

}  // namespace trireme
