// What a router chooses, its gradient and its losses.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/fixed.hpp"
#include "tests/kernels/error_bounds.hpp"
#include "tests/kernels/routing.hpp"

namespace trireme {
namespace {

using namespace test::routing;

class RoutingContract : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(Backends, RoutingContract, testing::ValuesIn(tested_backends()),
                         name_of_tested);

constexpr double amplitude = 4;  // of logits

// Relative: of a score, of the sum of those chosen, and of what is divided by it.
double score_error(DType t, const Sizes& s) {
  const double u = roundoff(wide(t));
  return CrossEntropyErrors(t, s.experts, amplitude).relative + sum_error(t, s.choices, 1) + 8 * u;
}

TEST_P(RoutingContract, Route) {
  for (const auto& s : sizes)
    for (const auto scores : both_scores)
      for (const bool normalize : {false, true})
        for (const bool biased : {false, true})
          compare(describe(s, scores, normalize), [=](Lab& lab) {
            const View weight = lab.wide_fresh({s.tokens, s.choices});
            const View choice = fresh_ids(lab, {s.tokens, s.choices});
            lab.backend.put(
                queue,
                kernel::Route{
                    .weight_TK = weight,
                    .choice_TK = choice,
                    .logits_TE = lab.wide_random({s.tokens, s.experts}, 1, amplitude),
                    .bias_E = biased ? ConstView(lab.wide_random({s.experts}, 2)) : ConstView{},
                    .scores = scores,
                    .normalize = normalize});
            lab.result("weight", weight, 2 * score_error(lab.tested, s));
            lab.result("choice", choice, 0);
          });
}

// Whole numbers and a bias that turns their order: of equal experts the first comes first.
TEST_P(RoutingContract, RouteOfEqualExperts) {
  for (const auto scores : both_scores)
    for (const std::int64_t experts : {4, 40})
      compare(fmt::format("{} experts", experts), [=](Lab& lab) {
        const std::int64_t choices = 3;
        std::vector<double> logits(static_cast<std::size_t>(2 * experts), 1.0), bias(logits);
        logits[2] = 2;                                          // of the first token
        logits[static_cast<std::size_t>(2 * experts - 1)] = 0;  // of the second
        bias.resize(static_cast<std::size_t>(experts));
        bias.back() = 9;
        for (const bool biased : {false, true}) {
          const View weight = lab.wide_fresh({2, choices}), choice = fresh_ids(lab, {2, choices});
          lab.backend.put(
              queue, kernel::Route{.weight_TK = weight,
                                   .choice_TK = choice,
                                   .logits_TE = lab.wide_values({2, experts}, logits),
                                   .bias_E = biased ? ConstView(lab.wide_values({experts}, bias))
                                                    : ConstView{},
                                   .scores = scores});
          lab.result("weight", weight, score_error(lab.tested, {2, experts, choices}));
          lab.result("choice", choice, 0);
        }
      });
}

// NaN is the worst of all choices, and with softmax a row that has one is nothing else.
TEST_P(RoutingContract, RouteOfNoNumbers) {
  const double nan = std::nan(""), inf = INFINITY;
  for (const auto scores : both_scores)
    compare(scores == RouterScores::softmax ? "softmax" : "sigmoid", [=](Lab& lab) {
      const std::vector<double> logits{nan,  1,    2,    nan,  0,     // one that is none
                                       -inf, 1,    2,    3,    0,     //
                                       inf,  1,    -inf, 3,    2,     //
                                       nan,  -inf, -inf, -inf, -inf,  //
                                       -inf, -inf, -inf, -inf, -inf};
      const std::int64_t experts = 5, tokens = 5;
      const View z = lab.wide_values({tokens, experts}, logits);
      const View weight = lab.wide_fresh({tokens, 4}), choice = fresh_ids(lab, {tokens, 4});
      lab.backend.put(
          queue, kernel::Route{
                     .weight_TK = weight, .choice_TK = choice, .logits_TE = z, .scores = scores});
      lab.result("weight", weight, score_error(lab.tested, {tokens, experts, 4}));
      lab.result("choice", choice, 0);
    });
}

// Sigmoids of what is far below 0 have all their digits, and so have their shares of a sum.
TEST_P(RoutingContract, RouteOfFaintScores) {
  for (const bool normalize : {false, true})
    compare(normalize ? "normalised" : "as they are", [=](Lab& lab) {
      const View weight = lab.wide_fresh({1, 3}), choice = fresh_ids(lab, {1, 3});
      const auto z = lab.wide_values({1, 4}, {-21, -20, -22, -23});
      lab.backend.put(queue, kernel::Route{.weight_TK = weight,
                                           .choice_TK = choice,
                                           .logits_TE = z,
                                           .scores = RouterScores::sigmoid,
                                           .normalize = normalize});
      const double u = roundoff(wide(lab.tested));
      lab.result("weight", weight, 16 * u * (normalize ? 1 : std::exp(-20.0)));
      lab.result("choice", choice, 0);
    });
}

// Padding has experts and no weights, and nothing that is in its logits comes of it.
TEST_P(RoutingContract, RouteOfPadding) {
  for (const auto& s : sizes)
    for (const auto scores : both_scores)
      for (const bool normalize : {false, true})
        compare(describe(s, scores, normalize), [=](Lab& lab) {
          const View weight = lab.wide_fresh({s.tokens, s.choices}),
                     choice = fresh_ids(lab, {s.tokens, s.choices}),
                     z = lab.wide_random({s.tokens, s.experts}, 1, amplitude);
          for (std::int64_t t = 0; t < s.tokens; ++t)
            if (is_padding(t))
              lab.backend.put(queue, kernel::Fill{.dst = z.slice(0, t, 1), .value = NAN});
          lab.backend.put(queue, kernel::Route{.weight_TK = weight,
                                               .choice_TK = choice,
                                               .logits_TE = z,
                                               .bias_E = lab.wide_random({s.experts}, 2),
                                               .counted_T = some_counted(lab, s.tokens),
                                               .scores = scores,
                                               .normalize = normalize});
          lab.result("weight", weight, 2 * score_error(lab.tested, s));
          lab.result("choice", choice, 0);
        });
}

// A token is routed as it is alone.
TEST_P(RoutingContract, TokensStandAlone) {
  const Sizes s{33, 130, 6};
  for (const auto scores : both_scores)
    run([=](Lab& lab) {
      const View z = lab.wide_random({s.tokens, s.experts}, 1, amplitude),
                 one = lab.wide_fresh({1, s.experts}), bias = lab.wide_random({s.experts}, 2);
      lab.backend.put(queue, kernel::Copy{.dst = one, .src = z.slice(0, 16, 1)});
      const auto route = [&](const View& logits) {
        const Shape all{logits.extent[0], s.choices};
        const std::array chosen{lab.wide_fresh(all), fresh_ids(lab, all)};
        lab.backend.put(queue, kernel::Route{.weight_TK = chosen[0],
                                             .choice_TK = chosen[1],
                                             .logits_TE = logits,
                                             .bias_E = bias,
                                             .scores = scores,
                                             .normalize = true});
        return chosen;
      };
      const auto all = route(z), alone = route(one);
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_EQ(lab.bytes(alone[i]), lab.bytes(all[i].slice(0, 16, 1)));
    });
}

// Of a gradient of weights up to 1. |dz| <= s |ds| + s |sum s ds| of each part, and a part's ds is
// below 2, or below the largest share for the balance, whose 1 / A goes with s.
TEST_P(RoutingContract, RouteGradient) {
  struct Parts {
    bool weights, normalize, balance, z, padding = false;
  };
  for (const auto& s : sizes)
    for (const auto scores : both_scores)
      for (const Parts p : {Parts{true, false, false, false}, Parts{true, true, false, false},
                            Parts{true, true, true, true}, Parts{false, false, true, false},
                            Parts{false, false, false, true}, Parts{true, true, true, true, true},
                            Parts{true, false, false, true, true}})
        for (const bool widened : {false, true})
          compare(describe(s, scores, p.normalize), [=](Lab& lab) {
            const Shape all{s.tokens, s.experts};
            const View dz = widened ? lab.wide_fresh(all) : lab.fresh(all);
            const std::int64_t samples = s.tokens % 3 == 0 ? 3 : 1;
            const auto dweight = lab.wide_random({s.tokens, s.choices}, 2);
            const auto count = some_counts(lab, samples, s.experts);
            const double balance_scale = p.balance ? 0.3 : 0, z_scale = p.z ? 0.2 : 0;
            lab.backend.put(
                queue,
                kernel::RouteGrad{
                    .dlogits_TE = dz,
                    .dweight_TK = p.weights ? ConstView(dweight) : ConstView{},
                    .choice_TK = some_choices(lab, s),
                    .logits_TE = lab.wide_random(all, 1, amplitude),
                    .count_BE = p.balance ? ConstView(count) : ConstView{},
                    .counted_T = p.padding ? ConstView(some_counted(lab, s.tokens)) : ConstView{},
                    .scores = scores,
                    .normalize = p.normalize,
                    .balance_scale = balance_scale,
                    .z_scale = z_scale});
            const double lse = amplitude + std::log(static_cast<double>(s.experts));
            const double size = 4 + 2 * balance_scale * largest_share + 2 * z_scale * lse;
            lab.result("dlogits", dz, 4 * score_error(lab.tested, s) * size);
          });
}

// Sigmoids below the smallest number, whose shares are as good as any: a rounding of the logits is
// one of 2^-24 times 120 relative to them.
TEST_P(RoutingContract, SigmoidsThatUnderflowHaveShares) {
  const Sizes s{3, 4, 2};
  compare("far logits", [=](Lab& lab) {
    const View z = lab.wide_values({s.tokens, s.experts}, {-110, -112, -111, -115, -95, -100, -101,
                                                           -99, -200, -201, -203, -300});
    const View weight = lab.wide_fresh({s.tokens, s.choices});
    const View choice = fresh_ids(lab, {s.tokens, s.choices});
    const View dz = lab.wide_fresh({s.tokens, s.experts});
    const ConstView count = some_counts(lab, 1, s.experts);
    const double error = 8 * (300 + 2 * largest_share) * roundoff(wide(lab.tested));
    lab.backend.put(queue, kernel::Route{.weight_TK = weight,
                                         .choice_TK = choice,
                                         .logits_TE = z,
                                         .scores = RouterScores::sigmoid,
                                         .normalize = true});
    lab.result("weight", weight, error);
    lab.result("choice", choice, 0);
    lab.backend.put(queue,
                    kernel::RouteGrad{.dlogits_TE = dz,
                                      .dweight_TK = lab.wide_random({s.tokens, s.choices}, 2),
                                      .choice_TK = choice,
                                      .logits_TE = z,
                                      .count_BE = count,
                                      .scores = RouterScores::sigmoid,
                                      .normalize = true,
                                      .balance_scale = 1});
    lab.result("dlogits", dz, error * largest_share);
  });
}

TEST_P(RoutingContract, RouterLosses) {
  for (const auto& s : sizes)
    for (const auto scores : both_scores)
      for (const std::int64_t samples : {0, 1, 3})
        if (samples == 0 || s.tokens % samples == 0)
          for (const bool padding : {false, true})
            compare(describe(s, scores, false), [=](Lab& lab) {
              const View sums = lab.of_type(DType::f64, {2}, {1.5, -2.5});
              const auto count =
                  samples == 0 ? ConstView{} : ConstView(some_counts(lab, samples, s.experts));
              lab.backend.put(
                  queue,
                  kernel::RouterLosses{
                      .sums = sums,
                      .logits_TE = lab.wide_random({s.tokens, s.experts}, 1, amplitude),
                      .count_BE = count,
                      .counted_T = padding ? ConstView(some_counted(lab, s.tokens)) : ConstView{},
                      .scores = scores});
              const double lse = amplitude + std::log(static_cast<double>(s.experts));
              const double each = 4 * score_error(lab.tested, s);
              lab.result("sums", sums,
                         static_cast<double>(s.tokens) * each * (largest_share + lse * lse));
            });
}

// As counts of quanta, with the largest loss beside them.
TEST_P(RoutingContract, CountedLosses) {
  if (on_device()) GTEST_SKIP() << "a GPU counts no quanta";
  for (const auto& s : sizes)
    for (const auto scores : both_scores)
      for (const bool balance : {false, true})
        compare(describe(s, scores, false), [=](Lab& lab) {
          const View sums = lab.numbers({2, -3}), largest = lab.of_type(DType::f32, {1}, {0.001});
          const auto count = balance ? ConstView(some_counts(lab, 1, s.experts)) : ConstView{};
          lab.backend.put(queue, kernel::RouterLosses{.sums = sums,
                                                      .logits_TE = lab.wide_random(
                                                          {s.tokens, s.experts}, 1, amplitude),
                                                      .count_BE = count,
                                                      .counted_T = some_counted(lab, s.tokens),
                                                      .scores = scores,
                                                      .largest = largest});
          const double lse = amplitude + std::log(static_cast<double>(s.experts));
          const double each = 4 * score_error(lab.tested, s) * (largest_share + lse * lse);
          lab.result("sums", sums,
                     static_cast<double>(s.tokens) * (std::ldexp(each, fixed::loss_bits) + 1));
          lab.result("largest", largest, each);
        });
}

}  // namespace
}  // namespace trireme
