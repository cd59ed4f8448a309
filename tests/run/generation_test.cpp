#include "lib/run/generation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <map>

namespace trireme {

static const std::array<double, 4> logits{std::log(0.1), std::log(0.6), std::log(0.2),
                                          std::log(0.1)};

static std::map<std::int32_t, int> count(const Sampling& s, int n) {
  std::map<std::int32_t, int> seen;
  for (int i = 0; i < n; ++i) ++seen[sample_token(logits, s, i)];
  return seen;
}

TEST(Sampling, ZeroTemperatureTakesTheLikeliest) {
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 3), 1);
}

// Five standard deviations of 20,000 draws at most: 0.018.
TEST(Sampling, FollowsTheProbabilities) {
  const int n = 20000;
  auto seen = count({}, n);

  EXPECT_NEAR(seen[0] / double(n), 0.1, 0.018);
  EXPECT_NEAR(seen[1] / double(n), 0.6, 0.018);
  EXPECT_NEAR(seen[2] / double(n), 0.2, 0.018);
}

TEST(Sampling, TopKAndTopPLeaveOutTheUnlikely) {
  EXPECT_EQ(count({.top_k = 2}, 2000).size(), 2U);
  EXPECT_EQ(count({.top_p = 0.75}, 2000).size(), 2U);
  EXPECT_EQ(count({.top_p = 0.1}, 2000).size(), 1U);
}

TEST(Sampling, IsAFunctionOfSeedAndPosition) {
  const Sampling a{.seed = 5}, b{.seed = 6};
  int differ = 0;
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(sample_token(logits, a, i), sample_token(logits, a, i));
    differ += sample_token(logits, a, i) != sample_token(logits, b, i);
  }
  EXPECT_GT(differ, 50);
}

// An imported model's tokenizer may have more ids than the model has rows.
TEST(Generation, IdsThatTheModelLacksAreRefused) {
  const std::vector<std::int32_t> ids{0, 279, 280};
  EXPECT_NO_THROW(require_ids(ids, 281));
  EXPECT_THROW(require_ids(ids, 280), Error);
  EXPECT_THROW(require_ids(std::vector<std::int32_t>{-1}, 280), Error);
}

}  // namespace trireme
