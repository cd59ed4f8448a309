#pragma once
// Generates a sample text during training, for people to look at.
#include <functional>
#include <optional>
#include <string>

#include "lib/data/tokenizer.hpp"
#include "lib/run/config.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns true if a sample is due after `step`.
bool sample_is_due(const EvaluateConfig&, std::int64_t step, std::int64_t total_steps);

// Returns the prompt and its continuation, equal on every rank and for equal weights. Collective.
// Does not change the training. Returns nothing if `interrupted` returns true on any rank before
// the end, or if the prompt has no token.
std::optional<std::string> sample_text(Trainer&, const Tokenizer&, const EvaluateConfig&,
                                       const std::function<bool()>& interrupted);

}  // namespace trireme
