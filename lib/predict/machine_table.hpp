#pragma once
// Declares the keys of a machine file: each key's type, range and the member of MachineModel that
// holds its value.
#include <vector>

#include "lib/keys/key.hpp"

namespace trireme {

// Returns the sections of a machine file with their keys.
const std::vector<KeySection>& machine_sections();

}  // namespace trireme
