#pragma once
#include "kernels/update_rule.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// What [optimizer] asks for.
UpdateRule update_rule(const OptimizerConfig&);

}  // namespace trireme
