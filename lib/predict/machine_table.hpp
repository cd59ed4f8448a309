#pragma once
// The keys of a machine file, row by row: what each takes and which member of MachineModel it is.
#include <vector>

#include "lib/keys/key.hpp"

namespace trireme {

const std::vector<KeySection>& machine_sections();

}  // namespace trireme
