#include "lib/ops/rope_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::ops {

// Of its frequency what a pair keeps that turns so often in the original context: 1 or, at the
// other end, 1 / factor.
static double kept(const RotaryFrequencies& r, double turns) {
  const auto span = r.high_freq_factor - r.low_freq_factor;
  const double smooth = std::clamp((turns - r.low_freq_factor) / span, 0.0, 1.0);
  return smooth + (1 - smooth) / r.factor;
}

std::vector<double> RotaryFrequencies::of_pairs(std::int64_t dim) const {
  const auto pairs = dim / 2;
  std::vector<double> all;
  for (std::int64_t e = 0; e < pairs; ++e) {
    const double f = std::pow(theta, -static_cast<double>(e) / static_cast<double>(pairs));
    switch (scaling) {
      case RopeScaling::none:
        all.push_back(f);
        break;
      case RopeScaling::linear:
        all.push_back(f / factor);
        break;
      case RopeScaling::llama3:
        const double turns = f * static_cast<double>(original_context) / (2 * std::numbers::pi);
        all.push_back(f * kept(*this, turns));
    }
  }
  return all;
}

}  // namespace trireme::ops
