// What is the same for all operations, and what those are in steps that no backend has as one
// piece.
#include "kernels/operations.hpp"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "tests/kernels/pretended_views.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

TEST(Operations, AbsentOperandsAreNotWalked) {
  const auto x = f32s({5});
  std::vector<Role> roles;
  const auto note = [&](const auto&, Role r) { roles.push_back(r); };
  const kernel::Dropout o{.y_BTC = x, .x_BTC = x, .key = {}, .rows = {}};
  each_operand(o, note);
  EXPECT_EQ(roles, (std::vector{Role::write, Role::read}));
}

TEST(Operations, RolesFollowWhatIsAsked) {
  const auto x = f32s({5});
  const auto first = [](const auto& o) {
    std::vector<Role> roles;
    each_operand(o, [&](const auto&, Role r) { roles.push_back(r); });
    return roles.at(0);
  };
  EXPECT_EQ(first(kernel::Copy{.dst = x, .src = x}), Role::write);
  EXPECT_EQ(first(kernel::Copy{.dst = x, .src = x, .how = Accumulate::add}), Role::add);
  EXPECT_EQ(first(kernel::CrossEntropy{.loss = {}, .logits_TV = x, .target_T = {}}), Role::read);
  EXPECT_EQ(first(kernel::CrossEntropy{
                .loss = {}, .logits_TV = x, .target_T = {}, .logits = Logits::become_gradient}),
            Role::add);
}

TEST(Operations, OperandsOfOnesOwnMayBeChanged) {
  const auto x = f32s({5});
  kernel::Activate o{.activation = Activation::gelu, .y_N = x, .x_N = x};
  each_operand(o, [](auto& v, Role) { v = v.slice(0, 1, 2); });
  EXPECT_EQ(o.y_N.count(), 2);
  EXPECT_EQ(o.x_N.count(), 2);
}

// The steps of what no backend has as one piece: named once, for all.
TEST(Work, StepsOfAResidualNorm) {
  const auto x = bf16s({2, 3, 10}), w = bf16s({10});
  const auto rstd = f32s({6});
  std::vector<kernel::Operation> steps;
  kernel::ResidualNorm::in_steps({.sum_BTC = x,
                                  .y_BTC = x,
                                  .rstd_T = rstd,
                                  .x_BTC = x,
                                  .skip_BTC = x,
                                  .w_C = w,
                                  .eps = 0.5,
                                  .key = {7, 0.25F},
                                  .rows = {pretended(DType::i64, {2}), 4}},
                                 [&](const kernel::Operation& o) { steps.push_back(o); });
  ASSERT_EQ(steps.size(), 2U);
  const auto& dropout = std::get<kernel::Dropout>(steps[0]);
  EXPECT_TRUE(dropout.skip_BTC);
  EXPECT_EQ(dropout.key.p, 0.25F);
  EXPECT_EQ(dropout.rows.t0, 4);
  const auto& norm = std::get<kernel::Norm>(steps[1]);
  EXPECT_EQ(norm.eps, 0.5);
  EXPECT_FALSE(norm.mean_T);
  EXPECT_EQ(norm.x_TC.extent[0], 6);
  EXPECT_EQ(norm.x_TC.extent[1], 10);
}

TEST(Operations, StepsOfANormsGradientBesideASum) {
  const auto x = f32s({6, 10}), w = f32s({10}), rstd = f32s({6});
  kernel::NormGrad o{.dx_TC = x,
                     .dw_C = w,
                     .how = Accumulate::add,
                     .dsum_TC = x,
                     .dy_TC = x,
                     .x_TC = x,
                     .w_C = w,
                     .rstd_T = rstd};
  const auto steps = [&] {
    std::vector<kernel::Operation> all;
    kernel::NormGrad::in_steps(o, [&](const kernel::Operation& step) { all.push_back(step); });
    return all;
  };
  const auto both = steps();
  ASSERT_EQ(both.size(), 2U);
  EXPECT_FALSE(std::get<kernel::NormGrad>(both[0]).dsum_TC);
  EXPECT_TRUE(std::get<kernel::NormGrad>(both[0]).dw_C);
  EXPECT_EQ(std::get<kernel::Copy>(both[1]).how, Accumulate::add);
  o.dx_TC = {};
  EXPECT_EQ(steps().size(), 1U);
}

TEST(Operations, NameTheOperandThatIsMissing) {
  const auto x = f32s({5});
  const auto message = [](const kernel::Operation& o) {
    return message_of<Error>([&] { check_operands(o); });
  };
  EXPECT_NO_THROW(
      check_operands(kernel::Activate{.activation = Activation::gelu, .y_N = x, .x_N = x}));
  EXPECT_NE(message(kernel::Activate{.activation = Activation::gelu, .y_N = x, .x_N = {}})
                .find("activate: operand 1"),
            std::string::npos);
  EXPECT_NE(message(kernel::Activate{.activation = Activation::gelu, .y_N = {}, .x_N = x})
                .find("activate: operand 0"),
            std::string::npos);
  const kernel::Update::Shard whole{.master_N = x, .grad_N = x, .state_N = {x}, .factors = {}};
  auto without_gradient = whole, without_state = whole;
  without_gradient.grad_N = {};
  without_state.state_N[0] = {};
  EXPECT_NE(message(kernel::Update{.rule = rule::Lion{}, .shards = {whole, without_gradient}})
                .find("update: operand 7"),
            std::string::npos);
  EXPECT_NE(message(kernel::Update{.rule = rule::Lion{}, .shards = {without_state}})
                .find("update: operand 1"),
            std::string::npos);
}

}  // namespace
}  // namespace trireme
