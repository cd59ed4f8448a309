#pragma once
// Evaluation on validation data.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/dataset.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns the number of micro-batches that a data-parallel rank evaluates in one program. The
// number is large enough to fill a pipeline, and small enough for a quick reaction to an
// interruption.
std::int64_t evaluation_group(const Grid&);

// The result of an evaluation.
struct Evaluation {
  LossSum loss;                                 // over valid targets, pairs or labeled answers
  std::optional<PreferenceSums> preferences{};  // for pairs and labeled answers
};

// Returns a message that names the numbers in the result that are not finite. Returns an empty
// string if all numbers are finite. `set` is the label of the validation set.
std::string not_finite(const Evaluation&, std::string_view set);

// Returns the loss over `samples` samples that are spread evenly over the dataset
// (Dataset::subset). 0 means all samples. Data-parallel ranks divide the samples among them, in
// micro-batches of `microbatch`. Collective. The result is equal on every rank. `interrupted` is
// called between programs and may be empty. If it returns true on any rank, the result is nullopt.
// Throws SharedError if a rank cannot read its samples.
std::optional<Evaluation> evaluate(Trainer&, const Dataset&, std::int64_t samples,
                                   std::int64_t microbatch,
                                   const std::function<bool()>& interrupted = {});

// Returns the summed target losses of each document (Dataset::documents), by range. Samples must
// consist of whole documents. Collective. The result is equal on every rank. Throws SharedError if
// a rank cannot read its samples.
std::vector<std::vector<double>> losses_of_documents(Trainer&, const Dataset&,
                                                     std::int64_t microbatch);

// Returns the samples [first, first + n) as one batch.
Batch read_samples(const Dataset&, std::int64_t first, std::int64_t n);

}  // namespace trireme
