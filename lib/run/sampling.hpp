#pragma once
// Draws a token from a model's logits.
#include <cstdint>
#include <span>

namespace trireme {

// Settings for drawing tokens.
struct Sampling {
  double temperature = 1;  // 0 always picks the most likely token
  std::int64_t top_k = 0;  // draw from the k most likely tokens; 0 means all
  double top_p = 1;        // nucleus sampling (Holtzman et al. 2020); 1 means all tokens
  std::uint64_t seed = 1;
};

// Draws a token from the logits. The result is a pure function of logits, settings and `position`.
// Throws Error if a logit is not finite.
std::int32_t sample_token(std::span<const double> logits, const Sampling&, std::int64_t position);

}  // namespace trireme
