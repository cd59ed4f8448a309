#pragma once
// One token from a model's logits.
#include <cstdint>
#include <span>

namespace trireme {

struct Sampling {
  double temperature = 1;  // 0: greedy
  std::int64_t top_k = 0;  // only the k most likely tokens; 0: all
  double top_p = 1;        // nucleus sampling (Holtzman et al. 2020); 1: all
  std::uint64_t seed = 1;
};

// A token drawn from these logits; a pure function of them, the options and `position`.
std::int32_t sample_token(std::span<const double> logits, const Sampling&, std::int64_t position);

}  // namespace trireme
