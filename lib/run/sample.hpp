#pragma once
// A text that the model writes while it is trained, to look at.
#include <functional>
#include <optional>
#include <string>

#include "lib/data/tokenizer.hpp"
#include "lib/run/config.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Is one due after this step?
bool sample_is_due(const EvaluateConfig&, std::int64_t step, std::int64_t total_steps);

// The prompt and what follows it; the same on every rank and whenever the weights are. Collective;
// none when `interrupted` is true on any rank before the end, or the prompt has no token. Changes
// nothing of the training.
std::optional<std::string> sample_text(Trainer&, const Tokenizer&, const EvaluateConfig&,
                                       const std::function<bool()>& interrupted);

}  // namespace trireme
