#pragma once
// Determines the length of a run from its deck and the checkpoint that it resumes from. All
// functions are pure.
#include <cstdint>

#include "lib/io/checkpoint.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// Returns the number of steps in the whole run: train.steps if it is set, otherwise the completed
// steps plus the steps for the remaining tokens.
std::int64_t steps_of_run(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

// Throws Error if a run from this checkpoint would process more samples or tokens than the counters
// can represent exactly (2^53).
void require_countable(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

}  // namespace trireme
