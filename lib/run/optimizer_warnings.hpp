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

// The steps that a run still computes, from `begin` up to `end`, which is not included.
struct StepSpan {
  std::int64_t begin = 0, end = 0;
};

// Returns a sentence without a period for each learning rate that is far from the usual ones, for
// matrices that optimizer.adamw_patterns takes from AdamW, and for an optimizer of matrices that
// updates none.
std::vector<std::string> optimizer_warnings(const OptimizerConfig&, const ModelSpec&,
                                            std::span<const FreezeRule>, StepSpan);

// Returns whether an optimizer of matrices updates any matrix in these steps that does not belong
// to an adapter.
bool updates_base_matrices(const OptimizerConfig&, const ModelSpec&, std::span<const FreezeRule>,
                           StepSpan);

}  // namespace trireme
