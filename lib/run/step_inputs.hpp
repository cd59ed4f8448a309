#pragma once
// What a step of a run takes from outside, for a training and for whoever makes its steps again.
#include <cstdint>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/train/config.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// This rank's share of the step that begins with sample `first`: sample
// first + (m * data + d) * microbatch + i goes to data rank d, microbatch m. Not collective: safe
// in a thread beside a step. Error for samples that cannot be read.
std::vector<Batch> read_step(const Trainer&, const Dataset&, const TrainConfig&,
                             std::int64_t first);
// The same on all ranks; SharedError when one of them cannot.
std::vector<Batch> batches_of_step(const Trainer&, const Dataset&, const TrainConfig&,
                                   std::int64_t first);

// One more step is finished.
void count_step(CheckpointMeta&, const TrainConfig&, std::int64_t sample_length);

}  // namespace trireme
