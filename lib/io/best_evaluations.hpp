#pragma once
// Ranks the evaluations of a run, to keep its best checkpoints and to end a run that no longer
// improves.
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lib/base/value_names.hpp"
#include "lib/io/run_tables.hpp"

namespace trireme {

// The metric that ranks evaluations. Lower losses are better. Higher accuracies and margins of
// preference pairs are better.
enum class BestBy : std::uint8_t { loss, accuracy, margin };
template <>
inline constexpr auto value_names<BestBy> = named<BestBy>("loss", "accuracy", "margin");

// How a run's evaluations are ranked: by one metric of one validation set.
struct EvaluationRanking {
  std::string set;  // as in ValidationData::name
  BestBy by = BestBy::loss;
  std::int64_t every_steps = 0;  // steps between evaluations
};

// Returns the steps of the evaluations, the best one first. Of equal evaluations, the earlier one
// is better. Evaluations whose number is missing or not finite are left out.
std::vector<std::int64_t> best_first(std::span<const EvaluationRow>, BestBy);
// Returns the number of evaluations after the best one, without those that best_first() leaves out.
// If a run diverges, other errors end it.
std::int64_t evaluations_since_best(std::span<const EvaluationRow>, BestBy);
// Returns the elements of `steps` after which an evaluation was due but that have no row.
std::vector<std::int64_t> without_row(std::span<const std::int64_t> steps,
                                      std::span<const EvaluationRow>, std::int64_t every_steps);

}  // namespace trireme
