#pragma once
// Frequencies of rotary positions: theta^(-e/E) for e of E = dim / 2 pairs of channels (Su et al.
// 2021), radians a position, and how they are lowered for contexts beyond the original one:
//   linear  all are divided by `factor` (Chen et al. 2023, position interpolation)
//   llama3  a pair that turns n times in the original context keeps its frequency f where n is
//           high_freq_factor or more, gets f / factor where it is low_freq_factor or less, and
//           in between s f + (1 - s) f / factor with s = (n - low) / (high - low) (Llama 3.1,
//           "The Llama 3 Herd of Models" 2024 and its reference code)
//   yarn    with e(n) = E ln(original / (2 pi n)) / ln(theta), the pair that turns n times in the
//           original context: pairs up to e(beta_fast) keep f, those from e(beta_slow) on get
//           f / factor, and in between both in parts, linear in e; cos and sin are multiplied by
//           attention_factor (Peng et al. 2023, and as transformers computes it: `truncate` rounds
//           the two ends outwards to whole pairs)
#include <cstdint>
#include <vector>

#include "lib/base/value_names.hpp"

namespace trireme {

enum class RopeScaling : std::uint8_t { none, linear, llama3, yarn };
template <>
inline constexpr auto value_names<RopeScaling> = named<RopeScaling>("none", "linear", "llama3",
                                                                    "yarn");

namespace ops {

struct RotaryFrequencies {
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4;
  std::int64_t original_context = 8192;  // tokens
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;
  double attention_factor = 0;  // 0: 0.1 ln(factor) + 1

  std::vector<double> of_pairs(std::int64_t dim) const;
  // What cos and sin are multiplied with.
  double amplitude() const;
};

}  // namespace ops
}  // namespace trireme
