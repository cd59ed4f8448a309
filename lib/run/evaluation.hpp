#pragma once
// Loss on held-out samples.
#include <functional>
#include <optional>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Microbatches that a data rank evaluates in one program: enough to fill a pipeline, few enough
// that an interruption is noticed soon.
std::int64_t evaluation_group(const Grid&);

struct Evaluation {
  LossSum loss;                                 // over valid targets, or over pairs
  std::optional<PreferenceSums> preferences{};  // of a dataset of pairs
};

// Loss over `samples` of the dataset, spread over all of it (Dataset::subset; 0: all), `microbatch`
// at a time, dealt out to the data ranks. Collective; equal on every rank. None when `interrupted`
// (called between programs; may be empty) is true on any rank before the end. SharedError when a
// rank cannot read its samples.
std::optional<Evaluation> evaluate(Trainer&, const Dataset&, std::int64_t samples,
                                   std::int64_t microbatch,
                                   const std::function<bool()>& interrupted = {});

// Of each document of a dataset of pairs (Dataset::documents), of one range in sequence, the sum of
// its targets' losses. Collective; equal on every rank. SharedError as evaluate.
std::vector<double> losses_of_documents(Trainer&, const Dataset&, std::int64_t microbatch);

// The samples [first, first + n) as one batch.
Batch read_samples(const Dataset&, std::int64_t first, std::int64_t n);

}  // namespace trireme
