#pragma once
// Rotary frequencies in radians per position. Pair e of the E pairs of channels that rotate has the
// frequency theta^(-e/E) (Su et al. 2021). The other pairs have the frequency 0. Scaling lowers
// frequencies for contexts that are longer than the original one:
//   linear  all frequencies are divided by `factor` (position interpolation, Chen et al. 2023)
//   llama3  a pair that turns n times in the original context keeps its frequency f if n >=
//           high_freq_factor and gets f / factor if n <= low_freq_factor; between, it gets
//           s f + (1 - s) f / factor with s = (n - low) / (high - low) (Llama 3.1, "The Llama 3
//           Herd of Models" 2024 and its reference code)
//   yarn    pair e(n) = E ln(original / (2 pi n)) / ln(theta) turns n times in the original
//           context; pairs up to e(beta_fast) keep f, and pairs from e(beta_slow) on get f /
//           factor; between, the frequency is interpolated linearly in e; cos and sin are
//           multiplied by attention_factor (Peng et al. 2023; computed as in transformers, where
//           `truncate` rounds the two limits outward to whole pairs)
#include <cstdint>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

// Methods of scaling rotary frequencies for long contexts.
enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn };
template <>
inline constexpr auto value_names<RopeScaling> = named<RopeScaling>("none", "linear", "llama3",
                                                                    "yarn");

namespace ops {

// The parameters of rotary frequencies.
struct RotaryFrequencies {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_context = 8192;  // in tokens
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
  double attention_factor = 0;  // 0 means 0.1 ln(factor) + 1
  std::int64_t channels = 0;    // channels of a head that rotate; 0 means all

  // Returns the scaled frequency of each of the dim / 2 pairs of a head of `dim` channels.
  std::vector<double> of_pairs(std::int64_t dim) const;
  // Returns the factor by which cos and sin of the pairs that rotate are multiplied.
  double amplitude() const;
};

}  // namespace ops
}  // namespace trireme
