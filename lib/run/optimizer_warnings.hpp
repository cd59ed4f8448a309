#pragma once
// Finds settings of the optimizer that are valid but usually not intended.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/model/spec.hpp"
#include "lib/shard/config.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// Returns a sentence without a period for each learning rate that is far from the usual ones, for
// matrices that optimizer.adamw_patterns takes from AdamW, and for an optimizer of matrices that
// updates none. The run has `steps` steps.
std::vector<std::string> optimizer_warnings(const OptimizerConfig&, const ModelSpec&,
                                            std::span<const FreezeRule>, std::int64_t steps);

}  // namespace trireme
