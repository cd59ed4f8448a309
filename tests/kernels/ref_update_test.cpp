// The reference's optimizers against steps worked out by hand.
#include <vector>

#include "kernels/ref/kernels.hpp"
#include "tests/kernels/by_hand.hpp"

namespace trireme {
namespace {

// One step of one weight 1 with gradient g, and arrays that are then what the step left.
double stepped(const UpdateRule& rule, const UpdateFactors& factors, double gradient,
               std::vector<double>& arrays) {
  std::vector<double> w{1}, g{gradient};
  kernel::Update update{.rule = rule, .shards = {}};
  auto& s = update.shards.emplace_back(
      kernel::Update::Shard{.master_N = view(w, {1}), .grad_N = view(g, {1}), .factors = factors});
  for (double& a : arrays)
    s.state_N.push_back(View(reinterpret_cast<std::byte*>(&a), DType::f64, {1}));
  ref::run(update);
  return w[0];
}

TEST(RefOptimizer, SgdStep) {
  std::vector<double> w{1}, g{2};
  auto copy = bf16s({0});
  ref::run(kernel::Update{.rule = rule::Sgd{},
                          .shards = {{.master_N = view(w, {1}),
                                      .copy_N = view(copy, {1}),
                                      .grad_N = view(g, {1}),
                                      .factors = {.lr = 0.1, .decay = 0.1, .scale = 0.5}}}});
  expect_values(w, {0.89}, tiny);
  expect_values(copy, {0.89}, 0x1p-9);
}

TEST(RefOptimizer, MomentumStep) {
  const UpdateFactors factors{.lr = 0.1, .decay = 0.1, .scale = 0.5};
  std::vector<double> m{3};
  // m = 0.5 3 + 2 = 3.5; w = 1 - 0.1 (3.5 + 0.1)
  EXPECT_NEAR(stepped(rule::Momentum{.momentum = 0.5, .nesterov = false}, factors, 4, m), 0.64,
              tiny);
  EXPECT_EQ(m[0], 3.5);
  m = {3};
  // The step is 2 + 0.5 3.5.
  EXPECT_NEAR(stepped(rule::Momentum{.momentum = 0.5, .nesterov = true}, factors, 4, m), 0.615,
              tiny);
  EXPECT_EQ(m[0], 3.5);
}

TEST(RefOptimizer, AdamWFirstStep) {
  // Unbiased moments are g = 2 and g^2, so the step is lr (2 / (2 + eps) + decay w).
  std::vector<double> arrays{0, 0};
  EXPECT_NEAR(stepped(rule::AdamW{.beta1 = 0.9, .beta2 = 0.75, .eps = 2},
                      {.lr = 0.1, .decay = 0.5, .scale = 0.5, .count = 1}, 4, arrays),
              0.9, tiny);
  EXPECT_NEAR(arrays[0], 0.2, tiny);
  EXPECT_NEAR(arrays[1], 1, tiny);
}

TEST(RefOptimizer, LionStep) {
  const rule::Lion lion{.beta1 = 0.5, .beta2 = 0.75};
  const UpdateFactors factors{.lr = 0.1, .decay = 0.1, .scale = 0.5};
  std::vector<double> m{-3};
  // 0.5 -3 + 0.5 2 is negative; then m = 0.75 -3 + 0.25 2.
  EXPECT_NEAR(stepped(lion, factors, 4, m), 1 + 0.1 * (1 - 0.1), tiny);
  EXPECT_EQ(m[0], -1.75);
  m = {-2};
  EXPECT_NEAR(stepped(lion, factors, 4, m), 1 - 0.1 * 0.1, tiny);  // of 0
  m = {-1};
  EXPECT_NEAR(stepped(lion, factors, 4, m), 1 - 0.1 * (1 + 0.1), tiny);
}

}  // namespace
}  // namespace trireme
