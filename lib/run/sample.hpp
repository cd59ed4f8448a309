#pragma once
// Generates sample texts during training, for users to read.
#include <functional>
#include <optional>
#include <string>

#include "lib/run/config.hpp"
#include "lib/tokenizer/tokenizer.hpp"
#include "lib/train/trainer.hpp"

namespace trireme {

// Returns true if a sample is due after `step`.
bool sample_is_due(const EvaluateConfig&, std::int64_t step, std::int64_t total_steps);

// Returns the prompt and its continuation. The text is equal on every rank, and is always the same
// for equal weights. Collective. Training is not affected. Returns nullopt if the prompt has no
// token, or if `interrupted` returns true on any rank before the end.
std::optional<std::string> sample_text(Trainer&, const Tokenizer&, const EvaluateConfig&,
                                       const std::function<bool()>& interrupted);

}  // namespace trireme
