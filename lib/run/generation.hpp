#pragma once
// Sampling text from a model, token by token.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/train/trainer.hpp"

namespace trireme {

struct Sampling {
  double temperature = 1;  // 0: greedy
  std::int64_t top_k = 0;  // only the k most likely tokens; 0: all
  double top_p = 1;        // nucleus sampling (Holtzman et al. 2020); 1: all
  std::uint64_t seed = 1;
};

// A token drawn from these logits; a pure function of them, the options and `position`.
std::int32_t sample_token(std::span<const double> logits, const Sampling&, std::int64_t position);

// Appends `count` tokens below `vocab` to `ids` (not empty), each predicted from the last `context`
// ones, and calls `emit` after each. Collective; every rank gets the same tokens.
void generate(Trainer&, std::vector<std::int32_t>& ids, std::int64_t count, const Sampling&,
              std::int32_t vocab, const std::function<void()>& emit);

}  // namespace trireme
