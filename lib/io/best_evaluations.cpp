#include "lib/io/best_evaluations.hpp"

#include <algorithm>
#include <cmath>

namespace trireme {

// Returns a number that is lower for better evaluations, or NaN if the row has no such number.
static double cost_of(const EvaluationRow& row, BestBy by) {
  if (by == BestBy::loss) return row.loss;
  if (!row.preference) return std::nan("");
  return by == BestBy::accuracy ? -row.preference->accuracy : -row.preference->margin;
}

std::vector<std::int64_t> best_first(std::span<const EvaluationRow> rows, BestBy by) {
  std::vector<EvaluationRow> ranked;
  for (const auto& row : rows)
    if (std::isfinite(cost_of(row, by))) ranked.push_back(row);
  std::ranges::stable_sort(ranked, {}, [&](const auto& row) { return cost_of(row, by); });
  std::vector<std::int64_t> steps;
  for (const auto& row : ranked) steps.push_back(row.step);
  return steps;
}

std::int64_t evaluations_since_best(std::span<const EvaluationRow> rows, BestBy by) {
  const auto ranked = best_first(rows, by);
  return std::ranges::count_if(ranked, [&](auto step) { return step > ranked.front(); });
}

std::vector<std::int64_t> without_row(std::span<const std::int64_t> steps,
                                      std::span<const EvaluationRow> rows,
                                      std::int64_t every_steps) {
  std::vector<std::int64_t> missing;
  for (const auto step : steps)
    if (every_steps > 0 && step % every_steps == 0 &&
        std::ranges::find(rows, step, &EvaluationRow::step) == rows.end())
      missing.push_back(step);
  return missing;
}

}  // namespace trireme
