#pragma once
// Reads the inputs of a step, for training and for programs that replay a run's steps.
#include <cstdint>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/train/config.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns this rank's share of the step that begins with sample `first`. Sample first + (m * data +
// d) * microbatch + i belongs to data-parallel rank d and micro-batch m. The function is not
// collective, and a thread may call it during a step. Throws Error if samples cannot be read.
std::vector<Batch> read_step(const Trainer&, const Dataset&, const TrainConfig&,
                             std::int64_t first);
// Collective version of read_step(). Throws SharedError if any rank cannot read its samples.
std::vector<Batch> batches_of_step(const Trainer&, const Dataset&, const TrainConfig&,
                                   std::int64_t first);

// Adds one completed step to the counters in the checkpoint metadata.
void count_step(CheckpointMeta&, const TrainConfig&, std::int64_t sample_length);

}  // namespace trireme
