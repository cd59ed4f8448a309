#pragma once
// Loss on held-out samples.
#include "lib/data/dataset.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Samples [0, samples) of the dataset (at most one epoch; 0: all of it), `microbatch` at a time.
// Error when no target of them counts.
LossSum evaluate(Trainer&, const Dataset&, std::int64_t samples, std::int64_t microbatch);

// The samples [first, first + n) as one batch.
Batch read_samples(const Dataset&, std::int64_t first, std::int64_t n);

}  // namespace trireme
