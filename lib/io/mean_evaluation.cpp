#include "lib/io/mean_evaluation.hpp"

#include <algorithm>
#include <cmath>

#include "lib/base/expect.hpp"

namespace trireme {

EvaluationRow mean_of(std::span<const WeightedEvaluation> all) {
  expect(!all.empty(), "a mean has at least one term");
  double weights = 0;
  for (const auto& e : all) weights += e.weight;
  const auto mean = [&](auto number_of) {
    double sum = 0;
    for (const auto& e : all) sum += e.weight * number_of(e.row);
    return sum / weights;
  };
  EvaluationRow row{all[0].row.step, all[0].row.tokens, mean([](auto& r) { return r.loss; })};
  if (std::ranges::all_of(all, [](auto& e) { return e.row.perplexity != 0; }))
    row.perplexity = std::exp(row.loss);
  if (!std::ranges::all_of(all, [](auto& e) { return e.row.preference.has_value(); })) return row;
  const auto of_pairs = [&](double PreferenceColumns::*member) {
    return mean([&](auto& r) { return (*r.preference).*member; });
  };
  row.preference = {of_pairs(&PreferenceColumns::margin), of_pairs(&PreferenceColumns::accuracy),
                    of_pairs(&PreferenceColumns::reward_chosen),
                    of_pairs(&PreferenceColumns::reward_rejected)};
  return row;
}

}  // namespace trireme
