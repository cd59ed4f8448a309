#pragma once
#include "kernels/update_rule.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// Returns the update rule that the deck section [optimizer] selects.
UpdateRule update_rule(const OptimizerConfig&);

}  // namespace trireme
