#include "lib/ops/pointwise.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/ref/ref.hpp"
#include "tests/ops/cases.hpp"

namespace trireme {
namespace {

constexpr std::int64_t B = 3, T = 5, C = 19, site = 4;
const double roundoff_f32 = roundoff(DType::f32);

OpCase swiglu() {
  OpCase c;
  c.name = "swiglu";
  c.make = [](Backend&, DType) { return std::make_unique<ops::Swiglu>(); };
  c.in = {random_numbers({B, T, 2 * C}, 1, 4)};
  c.grad_out = random_numbers({B, T, C}, 2);
  c.slack = {8 * roundoff_f32 * 4 * 4, {16 * roundoff_f32 * 4 * 4}, {}};
  return c;
}

PassContext pass_context() {
  PassContext p;
  p.seed = 3;
  p.step = 11;
  return p;
}

OpCase dropout(std::string name, double p) {
  OpCase c;
  c.name = std::move(name);
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::Dropout>(ops::DropoutSite{site, p});
  };
  c.in = {random_numbers({B, T, C}, 1)};
  c.grad_out = random_numbers({B, T, C}, 2);
  c.pass = pass_context();
  c.samples = {7, (std::int64_t{1} << 40) + 3, 0};
  c.t0 = 2;
  const double each = 4 * roundoff_f32 * (1 / (1 - p) + 1);
  c.slack = {each, {each}, {}};
  return c;
}

OpCase residual(std::string name, double p) {
  OpCase c = dropout(std::move(name), p);
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::Residual>(ops::DropoutSite{site, p});
  };
  c.in.push_back(random_numbers({B, T, C}, 3));
  c.slack.in.push_back(c.slack.y);
  return c;
}

OpRun forward(const OpCase& c) {
  Ask ask;
  ask.record = false;
  return run_op([] { return std::make_unique<Ref>(); }, DType::f64, c, ask);
}

TEST(DropoutOps, DropAboutTheirShare) {
  OpCase c = dropout("dropout", 0.3);
  c.in = {{{B, T * 20, C}, std::vector<double>(B * T * 20 * C, 0.7), {}}};
  const auto y = forward(c)["y"].values;

  const auto dropped = static_cast<double>(std::ranges::count(y, 0.0));
  const auto n = static_cast<double>(y.size());

  // Six standard deviations of a binomial distribution.
  EXPECT_NEAR(dropped, 0.3 * n, 6 * std::sqrt(0.3 * 0.7 * n));
  for (double v : y) EXPECT_NEAR(v, v == 0 ? 0 : 1, 1e-7);  // p is held in f32
}

TEST(DropoutOps, DropNothingInEvaluation) {
  for (OpCase c : {dropout("dropout", 0.3), residual("residual", 0.3)}) {
    c.pass.phase = Phase::evaluate;
    const auto y = forward(c)["y"].values;
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], c.in[0].values[i] + (c.in.size() > 1 ? c.in[1].values[i] : 0));
  }
}

// What is dropped is known by seed, step, site, sample and position, not by where it is computed.
TEST(DropoutOps, DropTheSameOfATokenWhereverItIsComputed) {
  const OpCase whole = dropout("dropout", 0.3);
  const auto all = forward(whole)["y"].values;
  OpCase one = whole;  // positions 3 and 4 of the second sample
  const auto begin = (T + 3) * C;
  one.in = {{{1, 2, C}, {&whole.in[0].values[begin], &whole.in[0].values[begin] + 2 * C}, {}}};
  one.samples = {whole.samples[1]};
  one.t0 = whole.t0 + 3;

  const auto some = forward(one)["y"].values;

  EXPECT_EQ(some, std::vector<double>(&all[begin], &all[begin] + 2 * C));
}

TEST(DropoutOps, DropOthersAtAnotherSeedStepSiteOrSample) {
  const OpCase c = dropout("dropout", 0.3);
  std::vector<OpCase> others(4, c);
  others[0].pass.seed = 4;
  others[1].pass.step = 12;
  others[2].samples[1] = 8;
  others[3].make = [](Backend&, DType) {
    return std::make_unique<ops::Dropout>(ops::DropoutSite{site + 1, 0.3});
  };
  const auto y = forward(c)["y"].values;

  for (const auto& other : others) EXPECT_NE(forward(other)["y"].values, y);
}

}  // namespace

std::vector<OpCase> pointwise_cases() {
  return {swiglu(), dropout("dropout", 0.3), dropout("dropout of nothing", 0),
          residual("residual", 0.3), residual("residual without dropout", 0)};
}

}  // namespace trireme
