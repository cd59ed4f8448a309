#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "lib/shard/optimizer_rules.hpp"
#include "lib/train/config.hpp"

namespace trireme {

// Returns the rules that the deck section [optimizer] selects. `average_decay` is train.ema.
OptimizerRules optimizer_rules(const OptimizerConfig&, double average_decay);

// A range of learning rates.
struct UsualRates {
  double least, most;
};
// Returns the values of optimizer.lr that papers and model cards report for the optimizer.
UsualRates usual_rates(const OptimizerConfig&);

// Returns the log text about the parameters that are trained in `step`, such as "muon updates 2
// matrices with 1.20M parameters, and AdamW updates 0.50M other parameters". The text ends with "at
// first" if a later step changes which parameters are trained. Returns an empty text if the
// optimizer updates all parameters element by element.
std::string matrices_text(const ModelSpec&, const OptimizerConfig&, std::span<const FreezeRule>,
                          std::int64_t step);

}  // namespace trireme
