#pragma once
// Reads the inputs of a step, for training and for programs that replay a run's steps.
#include <cstdint>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/io/checkpoint.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// The samples [first, first + count) of a step.
struct SampleRange {
  std::int64_t first = 0, count = 0;
  bool operator==(const SampleRange&) const = default;
};

// Returns this rank's share of a step. Sample first + (m * data + d) * microbatch + i belongs to
// data-parallel rank d and micro-batch m. The function is not collective, and a thread may call it
// during a step. Throws Error if samples cannot be read.
std::vector<Batch> read_step(const Trainer&, const Dataset&, std::int64_t microbatch, SampleRange);
// Collective version of read_step(). Throws SharedError if any rank cannot read its samples.
std::vector<Batch> batches_of_step(const Trainer&, const Dataset&, std::int64_t microbatch,
                                   SampleRange);

// Adds one completed step to the counters in the checkpoint metadata.
void count_step(CheckpointMeta&, std::int64_t samples, std::int64_t sample_length);

}  // namespace trireme
