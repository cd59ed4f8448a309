#pragma once
#include "lib/shard/optimizer_rules.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// Returns the rules that the deck section [optimizer] selects. `average_decay` is train.ema.
OptimizerRules optimizer_rules(const OptimizerConfig&, double average_decay);

}  // namespace trireme
