#include "lib/ops/rope_scaling.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::ops {

// Returns the factor of a frequency in llama3 scaling: 1 for pairs that rotate often in the
// original context, 1 / factor for pairs that rotate rarely, and values between for others. `turns`
// is the number of rotations.
static double kept(const RotaryFrequencies& r, double turns) {
  const auto span = r.high_freq_factor - r.low_freq_factor;
  const double smooth = std::clamp((turns - r.low_freq_factor) / span, 0.0, 1.0);
  return smooth + (1 - smooth) / r.factor;
}

namespace {

// Range of pairs (index E) over which YaRN changes from unscaled frequencies to frequencies divided
// by `factor`.
struct Ramp {
  double begin, end;
  // Returns the weight of the unscaled frequency of pair e.
  double kept(double e) const { return 1 - std::clamp((e - begin) / (end - begin), 0.0, 1.0); }
};

Ramp ramp_of(const RotaryFrequencies& r, std::int64_t pairs) {
  const auto pair_of = [&](double turns) {
    return static_cast<double>(pairs) *
           std::log(static_cast<double>(r.original_context) / (turns * 2 * std::numbers::pi)) /
           std::log(r.theta);
  };
  Ramp ramp{pair_of(r.beta_fast), pair_of(r.beta_slow)};
  if (r.truncate) ramp = {std::floor(ramp.begin), std::ceil(ramp.end)};
  ramp.begin = std::max(ramp.begin, 0.0);
  ramp.end = std::min(ramp.end, static_cast<double>(2 * pairs - 1));
  if (ramp.begin == ramp.end) ramp.end += 0.001;  // as in transformers
  return ramp;
}

}  // namespace

double RotaryFrequencies::amplitude() const {
  if (scaling != RopeScaling::yarn) return 1;
  return attention_factor > 0 ? attention_factor : 0.1 * std::log(factor) + 1;
}

std::vector<double> RotaryFrequencies::of_pairs(std::int64_t dim) const {
  const auto pairs = (channels > 0 ? channels : dim) / 2;
  const auto ramp = ramp_of(*this, pairs);
  std::vector<double> all;
  for (std::int64_t e = 0; e < pairs; ++e) {
    const double f = std::pow(theta, -static_cast<double>(e) / static_cast<double>(pairs));
    const double turns = f * static_cast<double>(original_context) / (2 * std::numbers::pi);
    const double undivided = ramp.kept(static_cast<double>(e));
    switch (scaling) {
      case RopeScaling::none:
        all.push_back(f);
        break;
      case RopeScaling::linear:
        all.push_back(f / factor);
        break;
      case RopeScaling::llama3:
        all.push_back(f * kept(*this, turns));
        break;
      case RopeScaling::yarn:
        all.push_back(f * undivided + f / factor * (1 - undivided));
    }
  }
  all.resize(static_cast<std::size_t>(dim / 2), 0);
  return all;
}

}  // namespace trireme::ops
