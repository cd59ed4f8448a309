#pragma once
// Evaluation on validation data.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns the number of micro-batches that a data-parallel rank evaluates in one program. It is
// large enough to fill a pipeline, and small enough to notice an interruption soon.
std::int64_t evaluation_group(const Grid&);

// The result of an evaluation.
struct Evaluation {
  LossSum loss;                                 // over valid targets, or over pairs of documents
  std::optional<PreferenceSums> preferences{};  // for a dataset of pairs
};

// Returns a message that names the numbers in the result that are not finite, or an empty text if
// all are finite.
std::string not_finite(const Evaluation&);

// Returns the loss over `samples` samples spread evenly over the dataset (Dataset::subset); 0 means
// all. Data-parallel ranks share the samples, in micro-batches of `microbatch`. Collective; the
// result is equal on every rank. `interrupted` may be empty and is called between programs. If it
// returns true on any rank, the result is empty. Throws SharedError if a rank cannot read its
// samples.
std::optional<Evaluation> evaluate(Trainer&, const Dataset&, std::int64_t samples,
                                   std::int64_t microbatch,
                                   const std::function<bool()>& interrupted = {});

// Returns the summed target losses of each document of a dataset of pairs (Dataset::documents) that
// has one range. Collective; the result is equal on every rank. Throws SharedError if a rank cannot
// read its samples.
std::vector<double> losses_of_documents(Trainer&, const Dataset&, std::int64_t microbatch);

// Returns the samples [first, first + n) as one batch.
Batch read_samples(const Dataset&, std::int64_t first, std::int64_t n);

}  // namespace trireme
