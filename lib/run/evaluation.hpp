#pragma once
// Loss on held-out samples.
#include <functional>
#include <optional>

#include "lib/data/dataset.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Microbatches that a data rank evaluates in one program: enough to fill a pipeline, few enough to
// be broken off soon.
std::int64_t evaluation_group(const Grid&);

// Samples [0, samples) of the dataset (at most one epoch; 0: all of it), `microbatch` at a time,
// which the data ranks take in turn. Collective; equal on every rank. None when `interrupted`
// (asked between programs; may be empty) says so on any rank before the end. SharedError when a
// rank cannot read its samples.
std::optional<LossSum> evaluate(Trainer&, const Dataset&, std::int64_t samples,
                                std::int64_t microbatch,
                                const std::function<bool()>& interrupted = {});

// The samples [first, first + n) as one batch.
Batch read_samples(const Dataset&, std::int64_t first, std::int64_t n);

}  // namespace trireme
