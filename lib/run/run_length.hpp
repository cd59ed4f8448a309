#pragma once
// Determines the length of a run from its deck and the checkpoint that it resumes from. All
// functions are pure.
#include <cstdint>

#include "lib/io/checkpoint.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// Returns the steps of the whole run: train.steps, or the completed steps plus those that the
// remaining tokens need.
std::int64_t steps_of_run(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

// Throws Error if a run from this checkpoint would count more samples or tokens than the counters
// can hold (2^53).
void require_countable(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

}  // namespace trireme
