#pragma once
// How long a run is: by its deck and the checkpoint that it goes on from. Pure.
#include <cstdint>

#include "lib/io/checkpoint.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// Steps of the whole run: train.steps, or those done and as many as the remaining tokens take.
std::int64_t steps_of_run(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

// Error when a run from this checkpoint would count more samples or tokens than one may hold.
void require_countable(const TrainConfig&, std::int64_t context, const CheckpointMeta&);

}  // namespace trireme
