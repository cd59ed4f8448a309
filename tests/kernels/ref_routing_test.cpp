// The reference's routers, and rows by expert, against values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "kernels/ref/kernels.hpp"
#include "lib/base/fixed.hpp"

namespace trireme {
namespace {

constexpr auto overwrite = Accumulate::overwrite, add = Accumulate::add;

template <class T>
View view(std::vector<T>& v, const Shape& s) {
  EXPECT_EQ(static_cast<std::int64_t>(v.size()), s.count());
  return {reinterpret_cast<std::byte*>(v.data()), dtype_of<T>, s};
}

void expect_values(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14) << i;
}

using Ids = std::vector<std::int32_t>;
using Counts = std::vector<std::int64_t>;
const double ln3 = std::log(3.0);  // whose sigmoid is 3/4

struct Routed {
  std::vector<double> weight;
  Ids choice;
};
Routed route(std::vector<double> z, std::vector<double> bias, std::int64_t K, RouterScores scores,
             bool normalize) {
  const auto E = std::ssize(z);
  Routed r{std::vector<double>(static_cast<std::size_t>(K)), Ids(static_cast<std::size_t>(K), -1)};
  ref::run(kernel::Route{.weight_TK = view(r.weight, {1, K}),
                         .choice_TK = view(r.choice, {1, K}),
                         .logits_TE = view(z, {1, E}),
                         .bias_E = bias.empty() ? View{} : view(bias, {E}),
                         .scores = scores,
                         .normalize = normalize});
  return r;
}

TEST(RefRoute, TakesTheLargestScores) {
  const std::vector<double> z{0, std::log(2.0), std::log(5.0)};  // 1/8, 2/8, 5/8
  const auto softmax = route(z, {}, 2, RouterScores::softmax, false);
  EXPECT_EQ(softmax.choice, (Ids{2, 1}));
  expect_values(softmax.weight, {0.625, 0.25});
  expect_values(route(z, {}, 2, RouterScores::softmax, true).weight, {5.0 / 7, 2.0 / 7});
  const auto sigmoid = route({0, ln3, -ln3}, {}, 2, RouterScores::sigmoid, false);
  EXPECT_EQ(sigmoid.choice, (Ids{1, 0}));
  expect_values(sigmoid.weight, {0.75, 0.5});
  expect_values(route({0, ln3, -ln3}, {}, 2, RouterScores::sigmoid, true).weight, {0.6, 0.4});
}

// A bias chooses, and is no part of the weights.
TEST(RefRoute, WithABias) {
  const auto r =
      route({0, std::log(2.0), std::log(5.0)}, {0, 0, -1}, 2, RouterScores::softmax, false);
  EXPECT_EQ(r.choice, (Ids{1, 0}));
  expect_values(r.weight, {0.25, 0.125});
}

TEST(RefRoute, OfEqualScoresTheLowerIndex) {
  EXPECT_EQ(route({1, 2, 1, 2, 1}, {}, 4, RouterScores::softmax, false).choice, (Ids{1, 3, 0, 2}));
  EXPECT_EQ(route({1, NAN, 2, NAN}, {}, 4, RouterScores::sigmoid, false).choice, (Ids{2, 0, 1, 3}));
}

TEST(RefRouterLosses, OfTwoExperts) {
  std::vector<double> z{0, ln3}, sums{100, 200};
  Counts count{2, 4};
  kernel::RouterLosses o{.sums = view(sums, {2}),
                         .logits_TE = view(z, {1, 2}),
                         .count_BE = view(count, {1, 2}),
                         .scores = RouterScores::softmax};
  const double square = std::log(4.0) * std::log(4.0);
  ref::run(o);  // of 1/4 and 3/4
  expect_values(sums, {100 + (0.5 + 3) / 3, 200 + square});
  o.scores = RouterScores::sigmoid;
  sums = {0, 0};
  ref::run(o);  // of 2/5 and 3/5
  expect_values(sums, {(0.8 + 2.4) / 3, square});
  o.count_BE = {};
  sums = {0, 0};
  ref::run(o);
  expect_values(sums, {0, square});
}

// The second token is padding, the third is counted with the first.
TEST(RefRouterLosses, WithoutPadding) {
  std::vector<double> z{0, ln3, 7, -7, ln3, 0}, sums{0, 0};
  Counts count{2, 4, 9, 9, 5, 1};
  Ids counted{0, -1, 0};
  ref::run(kernel::RouterLosses{.sums = view(sums, {2}),
                                .logits_TE = view(z, {3, 2}),
                                .count_BE = view(count, {3, 2}),
                                .counted_T = view(counted, {3})});
  const double square = std::log(4.0) * std::log(4.0);
  expect_values(sums, {(0.5 + 3) / 3 + (1.5 + 1) / 3, 2 * square});
}

// Two samples, of a token each: a count of quanta a token.
TEST(RefRouterLosses, AsCounts) {
  std::vector<double> z{0, 0, ln3, 0};
  Counts count{2, 4, 8, 0}, sums{5, 7};
  std::vector<float> largest{0.25F};
  ref::run(kernel::RouterLosses{.sums = view(sums, {2}),
                                .logits_TE = view(z, {2, 2}),
                                .count_BE = view(count, {2, 2}),
                                .largest = view(largest, {1})});
  const double first = std::log(2.0) * std::log(2.0), second = std::log(4.0) * std::log(4.0);
  EXPECT_EQ(sums, (Counts{5 + (5LL << 31), 7 + fixed::of_loss(first) + fixed::of_loss(second)}));
  EXPECT_EQ(largest[0], static_cast<float>(second));
}

// Experts 2 and 0, 0 and 3, 2 and 3: nobody takes expert 1.
TEST(RefChoices, AreSortedByExpertAndCounted) {
  Ids choice{2, 0, 0, 3, 2, 3}, offset(5), token(6), row(6), place(6);
  const View choice_TK = view(choice, {3, 2});
  ref::run(kernel::SortChoices{.offset_E1 = view(offset, {5}),
                               .token_R = view(token, {6}),
                               .choice_R = view(row, {6}),
                               .row_TK = view(place, {3, 2}),
                               .choice_TK = choice_TK});
  EXPECT_EQ(offset, (Ids{0, 2, 2, 4, 6}));
  EXPECT_EQ(token, (Ids{0, 1, 0, 2, 1, 2}));
  EXPECT_EQ(row, (Ids{1, 2, 0, 4, 3, 5}));
  EXPECT_EQ(place, (Ids{2, 0, 1, 4, 3, 5}));

  Counts all(4, 9), each(12, 100);
  ref::run(kernel::CountChoices{.count_BE = view(all, {1, 4}), .choice_TK = choice_TK});
  EXPECT_EQ(all, (Counts{2, 0, 2, 2}));
  ref::run(
      kernel::CountChoices{.count_BE = view(each, {3, 4}), .how = add, .choice_TK = choice_TK});
  EXPECT_EQ(each, (Counts{101, 100, 101, 100, 101, 100, 100, 101, 100, 100, 101, 101}));

  Ids counted{1, -1, 1};
  each = Counts(12, 100);
  ref::run(kernel::CountChoices{
      .count_BE = view(each, {3, 4}), .choice_TK = choice_TK, .counted_T = view(counted, {3})});
  EXPECT_EQ(each, (Counts{0, 0, 0, 0, 1, 0, 2, 1, 0, 0, 0, 0}));
  ref::run(kernel::CountChoices{
      .count_BE = view(all, {1, 4}), .choice_TK = choice_TK, .counted_T = view(counted, {3})});
  EXPECT_EQ(all, (Counts{1, 0, 2, 1}));
}

TEST(RefRoute, OfPadding) {
  std::vector<double> z{1, 2, 3, NAN, NAN, 5, 3, 2, 1}, weight(6, 7);
  Ids counted{0, -1, 0}, choice(6, 7);
  ref::run(kernel::Route{.weight_TK = view(weight, {3, 2}),
                         .choice_TK = view(choice, {3, 2}),
                         .logits_TE = view(z, {3, 3}),
                         .counted_T = view(counted, {3}),
                         .normalize = true});
  EXPECT_EQ(choice, (Ids{2, 1, 2, 0, 0, 1}));
  EXPECT_EQ(weight[2], 0);
  EXPECT_EQ(weight[3], 0);
  EXPECT_EQ(weight[0], weight[4]);
  EXPECT_GT(weight[1], 0);
}

TEST(RefSumRows, InTheOrderOfChoices) {
  std::vector<double> x{1, 2, 10, 20, 100, 200, 1000, 2000}, y(4), skip{0.5, 0.25, -1, -2};
  Ids place{3, 0, 1, 2};
  kernel::SumRows o{
      .y_TC = view(y, {2, 2}), .x_RC = view(x, {4, 2}), .row_TK = view(place, {2, 2})};
  ref::run(o);
  expect_values(y, {1001, 2002, 110, 220});
  o.skip_TC = view(skip, {2, 2});
  ref::run(o);
  expect_values(y, {1001.5, 2002.25, 109, 218});
}

TEST(RefGroupedMatmul, HasAMatrixForEachExpert) {
  std::vector<double> a{1, 2, 3}, b0{10, 100}, b1{7, 7}, b2{-1, 1}, c(6), dc{1, 2, 3, 4, 5, 6};
  Ids offset{0, 1, 1, 3};
  const View a_31 = view(a, {3, 1}), offsets = view(offset, {4});
  ref::run(kernel::GroupedMatmul{.c_RN = view(c, {3, 2}),
                                 .a_RK = a_31,
                                 .offset_E1 = offsets,
                                 .b_KN = {view(b0, {1, 2}), view(b1, {1, 2}), view(b2, {1, 2})}});
  expect_values(c, {10, 100, -2, 2, -3, 3});
  for (const auto how : {overwrite, add}) {
    std::vector<double> d0{100, 100}, d1{100, 100};
    ref::run(kernel::GroupedMatmulGrad{.c_MN = {view(d0, {1, 2}), view(d1, {1, 2}), View{}},
                                       .how = how,
                                       .a_RM = a_31,
                                       .b_RN = view(dc, {3, 2}),
                                       .offset_E1 = offsets});
    const double before = how == add ? 100 : 0;
    expect_values(d0, {before + 1, before + 2});
    expect_values(d1, {before, before});
  }
}

// Tokens 0, 1 and 4 of one expert: leaves of two tokens are multiplied by themselves.
TEST(RefGroupedMatmul, CountsLeaves) {
  std::vector<double> a{1, 2, 3}, b{10, 20, 30};
  Ids offset{0, 3}, token{0, 1, 4};
  Counts c{1};
  std::vector<float> largest{1};
  ref::run(kernel::GroupedMatmulGrad{.c_MN = {view(c, {1, 1})},
                                     .how = add,
                                     .a_RM = view(a, {3, 1}),
                                     .b_RN = view(b, {3, 1}),
                                     .offset_E1 = view(offset, {2}),
                                     .token_R = view(token, {3}),
                                     .leaf = 2,
                                     .largest = {view(largest, {1})}});
  EXPECT_EQ(c[0], 1 + fixed::of_gradient(50) + fixed::of_gradient(90));
  EXPECT_EQ(largest[0], 90);
}

}  // namespace
}  // namespace trireme
