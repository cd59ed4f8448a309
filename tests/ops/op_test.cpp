// What every op owes a tape, whoever runs it.
#include <cmath>
#include <iterator>
#include <numeric>

#include "kernels/host/host.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/open/open.hpp"
#include "kernels/ref/ref.hpp"
#include "tests/ops/cases.hpp"
#include "tests/support/gradient_check.hpp"

namespace trireme {
namespace {

std::vector<OpCase> all_cases() {
  std::vector<OpCase> all;
  for (const auto& some :
       {linear_cases(), mlp_cases(), norm_cases(), residual_norm_cases(), embedding_cases(),
        pointwise_cases(), attention_cases(), qk_norm_cases(), head_cases()})
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

std::unique_ptr<Backend> open_ref() {
  return std::make_unique<Ref>();
}

OpRun on_ref(const OpCase& c, const Ask& ask = {}) {
  return run_op(open_ref, DType::f64, c, ask);
}

void expect_same_bits(const OpRun& got, const OpRun& want, const std::string& when) {
  for (const auto& r : got.results)
    EXPECT_TRUE(r.bytes == want[r.name].bytes) << r.name << " has other bits " << when;
}

// Yes or no to each of n, in every combination.
std::vector<std::vector<std::uint8_t>> choices(std::size_t n) {
  std::vector<std::vector<std::uint8_t>> all;
  for (unsigned bits = 0; bits < 1U << n; ++bits) {
    auto& one = all.emplace_back();
    for (std::size_t i = 0; i < n; ++i) one.push_back(bits >> i & 1);
  }
  return all;
}

// What backward differentiates: <dy, y>, or scale * y where the op brings its own seed.
double objective(Backend& b, const OpCase& c) {
  Lab lab(b, DType::f64, DType::f64);
  Ask ask;
  ask.record = false;
  const auto run = run_op(lab, c, ask);
  const auto& y = run["y"].values;
  if (c.grad_out.values.empty()) return c.pass.scale * y[0];
  double sum = std::inner_product(y.begin(), y.end(), c.grad_out.values.begin(), 0.0);
  for (std::size_t i = 0; i < c.more_grad_out.size(); ++i) {
    const auto& more = run[fmt::format("y{}", i + 1)].values;
    sum = std::inner_product(more.begin(), more.end(), c.more_grad_out[i].values.begin(), sum);
  }
  return sum;
}

TEST(Ops, GradientsAreCentralDifferences) {
  for (OpCase c : all_cases()) {
    SCOPED_TRACE(c.name);
    const auto run = on_ref(c);
    Ref backend;
    const Workspace workspace(backend);
    const auto f = [&] { return objective(backend, c); };

    for (std::size_t i = 0; i < c.in.size(); ++i)
      if (c.in[i].ids.empty())
        expect_gradient(f, c.in[i].values, run[fmt::format("dx{}", i)].values);
    for (std::size_t i = 0; i < c.params.size(); ++i)
      expect_gradient(f, c.params[i].values, run[fmt::format("dw{}", i)].values);
    EXPECT_EQ(run.rows, c.rows);
  }
}

TEST(Ops, WithoutSavedNothingIsKept) {
  for (const auto& c : all_cases())
    for (const bool shared : {false, true}) {
      SCOPED_TRACE(c.name);
      Ask ask;
      ask.record = false;
      ask.shared.assign(c.in.size(), shared);

      const auto plain = on_ref(c, ask), recorded = on_ref(c);

      expect_same_bits(plain, recorded, "when nothing is recorded");
      EXPECT_EQ(plain.after.peak[static_cast<std::size_t>(MemoryKind::saved)], 0U);
      EXPECT_EQ(plain.rows, 0) << "a gradient was added";
    }
}

// Each input wanted or not, each parameter trainable or frozen: what is asked for is the same.
TEST(Ops, WhatNobodyWantsChangesNothing) {
  for (const auto& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const auto full = on_ref(c);
    for (const auto& wanted : choices(c.in.size()))
      for (const auto& trainable : choices(c.params.size())) {
        Ask ask;
        ask.wanted = wanted;
        ask.trainable = trainable;
        const bool any = std::ranges::count(trainable, 1) > 0;

        const auto run = on_ref(c, ask);

        expect_same_bits(run, full, "when less is wanted");
        EXPECT_EQ(run.rows, any ? c.rows : 0);
        for (std::size_t i = 0; i < c.in.size(); ++i)
          EXPECT_EQ(run.has(fmt::format("dx{}", i)), wanted[i] && c.in[i].ids.empty());
        for (std::size_t i = 0; i < c.params.size(); ++i)
          EXPECT_EQ(run.has(fmt::format("dw{}", i)), trainable[i] != 0);
      }
    Ask closed;
    closed.gradients = false;

    const auto run = on_ref(c, closed);

    expect_same_bits(run, full, "when no weight gradient is wanted");
    EXPECT_EQ(run.rows, 0);
  }
}

TEST(Ops, SharedTensorsGiveTheSameAndStayAsTheyAre) {
  for (const auto& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const auto unique = on_ref(c);
    for (const auto& shared : choices(c.in.size()))
      for (const bool gradient : {false, true}) {
        Ask ask;
        ask.shared = shared;
        ask.shared_gradient = gradient;
        expect_same_bits(on_ref(c, ask), unique, "when tensors are shared");
      }
  }
}

// Input gradients first, weight gradients later: whatever is wanted, trainable or shared, as in one
// go.
void expect_halves_like_whole(const std::function<std::unique_ptr<Backend>()>& open, DType t) {
  for (const auto& c : all_cases()) {
    SCOPED_TRACE(c.name);
    for (const auto& wanted : choices(c.in.size()))
      for (const auto& trainable : choices(c.params.size()))
        for (const bool shared : {false, true}) {
          Ask ask;
          ask.wanted = wanted;
          ask.trainable = trainable;
          ask.shared.assign(c.in.size(), shared);
          ask.shared_gradient = shared;
          const auto whole = run_op(open, t, c, ask);
          ask.adjoint = Adjoint::in_halves;

          const auto halves = run_op(open, t, c, ask);

          EXPECT_EQ(halves.results.size(), whole.results.size());
          EXPECT_EQ(halves.rows, whole.rows);
          expect_same_bits(halves, whole, "in two halves");
        }
  }
}

TEST(Ops, HalvesOfTheAdjointGiveTheSameBits) {
  expect_halves_like_whole(open_ref, DType::f64);
  const auto open_host = [] { return std::make_unique<Host>(2); };
  expect_halves_like_whole(open_host, DType::f32);
  if (host::bf16_products()) expect_halves_like_whole(open_host, DType::bf16);
}

// Any cut visits every row once: sums are the same to rounding, and dx, made for a row at a time,
// to the bit. Slacks are of f32.
TEST(Ops, RowsInLeavesGiveTheSameSums) {
  const double finer = roundoff(DType::f64) / roundoff(DType::f32);
  for (const auto& c : all_cases()) {
    SCOPED_TRACE(c.name);
    const auto whole = on_ref(c);
    for (const Cut cut : {Cut{1}, Cut{3}, Cut{3, true}, Cut{2, false, Accumulate::add},
                          Cut{3, true, Accumulate::add}}) {
      SCOPED_TRACE(fmt::format("{} rows a leaf", cut.leaf));
      Ask ask;
      ask.cut = cut;

      const auto run = on_ref(c, ask);

      EXPECT_EQ(run.rows, c.rows);
      ASSERT_EQ(run.results.size(), whole.results.size());
      for (const auto& r : run.results) {
        const auto& want = whole[r.name];
        if (!r.name.starts_with("dw")) {
          EXPECT_TRUE(r.bytes == want.bytes) << r.name << " has other bits";
          continue;
        }
        for (std::size_t i = 0; i < r.values.size(); ++i)
          EXPECT_NEAR(r.values[i], want.values[i],
                      tolerance(DType::f64, want.values[i], finer * r.slack))
              << r.name << "[" << i << "]";
      }
    }
  }
}

void expect_same_account(const Account& dry, const Account& host, const char* when) {
  EXPECT_EQ(dry.live, host.live) << when;
  EXPECT_EQ(dry.peak, host.peak) << when;
  EXPECT_EQ(dry.live_all, host.live_all) << when;
  EXPECT_EQ(dry.peak_all, host.peak_all) << when;
  EXPECT_EQ(dry.reserved, host.reserved) << when;
  EXPECT_EQ(dry.pinned_reserved, host.pinned_reserved) << when;
}

TEST(Ops, DryKeepsTheHostsAccountAndFindsNoRace) {
  std::vector<DType> types{DType::f32};
  if (host::bf16_products()) types.push_back(DType::bf16);
  const BackendChoice choice{"host", 1, false};
  std::vector<Ask> asks(3);
  asks[1].shared = {1, 1};
  asks[1].shared_gradient = true;
  asks[2].record = false;
  for (const auto& c : all_cases())
    for (const DType t : types)
      for (Ask ask : asks) {
        SCOPED_TRACE(fmt::format("{} in {}", c.name, name_of(t)));
        ask.shared.resize(ask.shared.empty() ? 0 : c.in.size(), 1);
        const auto host = run_op([] { return std::make_unique<Host>(1); }, t, c, ask);
        Dry dry(dry_target(choice));
        const Workspace workspace(dry);
        Lab lab(dry, t, t);

        const auto planned = run_op(lab, c, ask);

        expect_same_account(planned.before, host.before, "before");
        expect_same_account(planned.forward, host.forward, "after forward");
        expect_same_account(planned.after, host.after, "after backward");
        EXPECT_EQ(dry.races(), std::vector<std::string>{});
      }
}

std::vector<Tested> of_f32() {
  std::vector<Tested> some;
  std::ranges::copy_if(tested_backends(), std::back_inserter(some),
                       [](const Tested& t) { return t.compute == DType::f32; });
  return some;
}

class OpsOnBackends : public ContractTest {};
INSTANTIATE_TEST_SUITE_P(F32, OpsOnBackends, testing::ValuesIn(of_f32()), name_of_tested);

TEST_P(OpsOnBackends, AgreeWithTheOracle) {
  for (const auto& c : all_cases()) compare(c.name, [c](Lab& lab) { run_op(lab, c); });
}

TEST_P(OpsOnBackends, AgreeWithTheOracleWhenLessIsWanted) {
  for (const auto& c : all_cases())
    for (const auto& wanted : choices(c.in.size()))
      for (const auto& trainable : choices(c.params.size())) {
        Ask ask;
        ask.wanted = wanted;
        ask.trainable = trainable;
        compare(c.name, [=](Lab& lab) { run_op(lab, c, ask); });
      }
}

TEST_P(OpsOnBackends, AgreeWithTheOracleInLeaves) {
  Ask ask;
  ask.cut = {4};
  for (const auto& c : all_cases()) compare(c.name, [=](Lab& lab) { run_op(lab, c, ask); });
}

}  // namespace
}  // namespace trireme
