#pragma once
// Text from a model, one token after the other.
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lib/train/trainer.hpp"

namespace trireme {

struct Sampling {
  double temperature = 1;  // 0: always the likeliest token
  std::int64_t top_k = 0;  // only the k likeliest; 0: all
  double top_p = 1;        // only the likeliest that together reach p (Holtzman et al. 2020)
  std::uint64_t seed = 1;
};

// The token for these logits; a pure function of them, the options and `position`.
std::int32_t sample_token(std::span<const double> logits, const Sampling&, std::int64_t position);

// Appends `count` tokens below `vocab` to `ids` (not empty), each seeing the last `context` before
// it, and calls `emit` after each. Collective; every rank gets the same tokens.
void generate(Trainer&, std::vector<std::int32_t>& ids, std::int64_t count, const Sampling&,
              std::int32_t vocab, const std::function<void()>& emit);

}  // namespace trireme
