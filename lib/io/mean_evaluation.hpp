#pragma once
// The weighted mean of the evaluations of several validation sets after the same step.
#include <span>

#include "lib/io/run_tables.hpp"

namespace trireme {

// The evaluation of a set, with its weight above 0.
struct WeightedEvaluation {
  double weight = 0;
  EvaluationRow row;
};

// Returns the weighted mean of the losses and of the numbers about preferences. The perplexity is
// the exponential of the mean loss. Step and tokens are those of the rows, of which there must be
// at least one. If a row has no perplexity or no preferences, the mean has none.
EvaluationRow mean_of(std::span<const WeightedEvaluation>);

}  // namespace trireme
