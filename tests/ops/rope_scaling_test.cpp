// Against the published formulas, worked out with 40 digits by wavelengths: 2 pi / f above
// original / low_freq_factor or below original / high_freq_factor.
#include "lib/ops/rope_scaling.hpp"

#include <gtest/gtest.h>

#include <map>

namespace trireme::ops {

static void expect_frequencies(const RotaryFrequencies& r, std::int64_t dim,
                               const std::map<std::size_t, double>& wanted) {
  const auto found = r.of_pairs(dim);
  ASSERT_EQ(std::ssize(found), dim / 2);
  // An exponent's rounding is multiplied by ln(theta) < 14, and a few others follow. A frequency
  // that is kept in part is at least 1 / factor of one whose share is off by as much.
  const double span = r.high_freq_factor - r.low_freq_factor;
  const double rounded = 18 * 0x1p-53 * (1 + r.factor * r.high_freq_factor / span);
  for (const auto& [pair, f] : wanted) EXPECT_NEAR(found[pair], f, rounded * f) << pair;
}

TEST(RopeScaling, None) {
  expect_frequencies({1e6}, 128,
                     {{0, 1}, {1, 0.80584218776148182}, {32, 1e-3}, {63, 1.2409377607517196e-6}});
}

TEST(RopeScaling, Linear) {
  expect_frequencies(
      {10000, RopeScaling::linear, 4}, 128,
      {{0, 0.25}, {1, 0.21649108084001634}, {32, 0.0025}, {63, 2.8869549617236454e-5}});
}

// Llama 3.2's settings, and 3.1's. The originals have 14 frequencies and 29 that are kept.
TEST(RopeScaling, Llama3) {
  expect_frequencies({500000, RopeScaling::llama3, 32}, 64,
                     {{0, 1},
                      {1, 0.66360123769608844},
                      {14, 0.003211445994752591},
                      {15, 0.0012905479282092638},
                      {16, 0.0004295567965593682},
                      {17, 9.7082878026276723e-5},
                      {18, 1.9461638184831124e-5},
                      {19, 1.291476718704739e-5},
                      {31, 9.4183067254349098e-8}});
  expect_frequencies({500000, RopeScaling::llama3, 8}, 128,
                     {{0, 1},
                      {28, 0.003211445994752591},
                      {29, 0.0021665707635033586},
                      {32, 0.00052484616099295467},
                      {34, 0.00017850781276799642},
                      {35, 9.556212353964683e-5},
                      {63, 3.0689259889145111e-7}});
}

// Turns in the original context: 100 / 2 pi = 16 of the fastest pair, 1.6, 0.16.
TEST(RopeScaling, Llama3WithOtherFactors) {
  const RotaryFrequencies r{1000, RopeScaling::llama3, 2, 0.5, 8, 100};
  expect_frequencies(r, 6, {{0, 1}, {1, 0.057276996206126356}, {2, 0.005}});
}

// Qwen's settings: pairs 23.6 and 39.7 turn 32 times and once.
TEST(RopeScaling, Yarn) {
  const RotaryFrequencies r{1e6, RopeScaling::yarn, 4, 1, 4, 32768};
  expect_frequencies(r, 128,
                     {{0, 1},
                      {1, 0.80584218776148182},
                      {22, 0.0086596432336006535},
                      {23, 0.0069783058485986634},
                      {24, 0.0053753214907901015},
                      {30, 0.0010643609812470018},
                      {39, 6.4903943208370288e-5},
                      {40, 4.445698525097307e-5},
                      {63, 3.1023444018792989e-7}});
  EXPECT_NEAR(r.amplitude(), 1.1386294361119891, 1e-15);
  EXPECT_EQ(RotaryFrequencies{}.amplitude(), 1);
}

// From pair 0.15 to 2.56, which are not rounded.
TEST(RopeScaling, YarnBetweenPairs) {
  const RotaryFrequencies r{
      1e4, RopeScaling::yarn, 2.5, 1, 4, 60, /*beta_fast=*/8, /*beta_slow=*/0.5, false, 1.25};
  expect_frequencies(r, 16,
                     {{0, 1},
                      {1, 0.24955574671512487},
                      {2, 0.054001995568732561},
                      {3, 0.012649110640673517},
                      {7, 0.00012649110640673517}});
  EXPECT_EQ(r.amplitude(), 1.25);
}

// GLM-4's settings: half of a head's channels turn, as those of a head of 64.
TEST(RopeScaling, OfChannelsThatRotate) {
  RotaryFrequencies r;
  r.channels = 64;
  expect_frequencies(r, 128,
                     {{0, 1}, {1, 0.74989420933245583}, {16, 0.01}, {31, 1.3335214321633240e-4}});
  const auto found = r.of_pairs(128);
  for (std::size_t e = 32; e < 64; ++e) EXPECT_EQ(found[e], 0) << e;

  for (const auto scaling : {RopeScaling::linear, RopeScaling::llama3, RopeScaling::yarn}) {
    r = {.scaling = scaling, .factor = 4, .original_context = 64};
    auto wanted = r.of_pairs(24);
    wanted.resize(40);
    r.channels = 24;
    EXPECT_EQ(r.of_pairs(80), wanted);
  }
}

}  // namespace trireme::ops
