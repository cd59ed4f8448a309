// Steps whose gradients and losses are counts of quanta (run.exactness = "invariant"), on one rank,
// on host and ref.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/host/parallel.hpp"
#include "kernels/open/open.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using test::random_batch;

ModelConfig model() {
  auto c = test::tiny_llama();
  c.max_context = 8;
  return completed(c);
}

class CountedStep : public testing::TestWithParam<const char*> {
 protected:
  static TrainerSetup setup() {
    auto s = test::setup_of(model(), test::adamw(), DType::f32);
    s.exact_chunk = 4;
    return s;
  }
  CountedStep() { trainer.store().initialize(3, 1); }

  StepResult step(int s = 0) {
    return trainer.step(s, 1e-2, std::vector{random_batch(model(), 4, 4 * s)});
  }
  void set(ParamId id, float x) {
    std::vector<float> w(
        static_cast<std::size_t>(trainer.store().spec().params[id.index()].shape.count()), x);
    test::write<float>(trainer.store(), id, w);
  }
  std::string refusal() {
    const auto before = test::read_all<float>(trainer.store());
    try {
      step();
    } catch (const CountOverflow& e) {
      EXPECT_EQ(test::read_all<float>(trainer.store()), before);
      return e.what();
    }
    return "no error";
  }

  std::unique_ptr<Backend> backend = open_backend({.name = GetParam(), .threads = 2});
  Workspace scratch{*backend};
  Trainer trainer{*backend, {}, setup()};
};
INSTANTIATE_TEST_SUITE_P(On, CountedStep, testing::Values("host", "ref"),
                         [](const auto& p) { return std::string(p.param); });

TEST_P(CountedStep, IsThatOfFloatsToRounding) {
  Trainer floats(*backend, {}, test::setup_of(model(), test::adamw(), DType::f32));
  floats.store().initialize(3, 1);
  for (int s = 0; s < 5; ++s) {
    const auto counted = step(s),
               plain = floats.step(s, 1e-2, std::vector{random_batch(model(), 4, 4 * s)});
    EXPECT_EQ(counted.valid, plain.valid);
    EXPECT_NEAR(counted.loss, plain.loss, 1e-5);
    EXPECT_NEAR(counted.grad_norm, plain.grad_norm, 1e-4 * plain.grad_norm);
  }
}

TEST_P(CountedStep, HasTheSameBitsOnAnyNumberOfThreads) {
  std::vector<std::vector<std::vector<float>>> all;
  for (const int threads : {1, 2, 3, 4, 8, 12, 16}) {
    host::set_threads(threads);
    Trainer t(*backend, {}, setup());
    t.store().initialize(3, 1);
    for (int s = 0; s < 3; ++s) t.step(s, 1e-2, std::vector{random_batch(model(), 4, 4 * s)});
    all.push_back(test::read_all<float>(t.store()));
  }
  host::set_threads(2);
  for (const auto& weights : all) EXPECT_EQ(weights, all[0]);
}

// Two tokens' gradients reach 2^13 only together: each is below it.
TEST_P(CountedStep, AnOverflowNamesTheParameter) {
  set(trainer.store().spec().final_norm, 2e4F);
  EXPECT_THAT(
      refusal(),
      testing::AllOf(testing::HasSubstr("the gradient of "),
                     testing::HasSubstr("run.exactness = \"invariant\" can count only up to")));
  set(trainer.store().spec().final_norm, 1);
  EXPECT_EQ(step().outcome, StepOutcome::updated);  // as if it had not been tried
}

TEST_P(CountedStep, OneThatIsNotFiniteIsSkippedAndNamed) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const auto id = trainer.store().spec().blocks.back().ffn_out;
    const auto before = test::read<float>(trainer.store(), id);
    auto w = before;
    w[5] = bad;
    test::write<float>(trainer.store(), id, w);

    const auto r = step();

    EXPECT_EQ(r.outcome, StepOutcome::not_finite);
    EXPECT_THAT(r.culprit, testing::HasSubstr("the gradient of "));
    EXPECT_TRUE(std::isnan(trainer.evaluate(random_batch(model(), 4)).sum));
    test::write<float>(trainer.store(), id, before);
  }
  EXPECT_EQ(step().outcome, StepOutcome::updated);
}

// A head of zeros over states that are `gain` everywhere: with p = 1/V of each token, all targets
// one token's, its gradient is gain (p - 1) in that row and gain p in the others, and there is no
// other. No element is too large for its counts, but their norm is from 2^15.5 on.
TEST_P(CountedStep, ANormBeyond128BitsIsNamed) {
  auto config = model();
  config.width = 96;
  config.head_dim = 0;
  auto s = setup();
  s.model = completed(config);
  Trainer wide(*backend, {}, s);
  const auto& spec = wide.store().spec();
  auto batch = random_batch(s.model, 4);
  std::ranges::fill(batch.ids_BT, 3);
  std::ranges::fill(batch.targets_BT, 5);
  batch.valid = std::ssize(batch.targets_BT);
  const auto with_gain = [&](float gain) {
    wide.store().initialize(3, 1);
    const auto fill = [&](ParamId id, float x) {
      const auto n = static_cast<std::size_t>(spec.params[id.index()].shape.count());
      test::write<float>(wide.store(), id, std::vector<float>(n, x));
    };
    for (const auto& block : spec.blocks) fill(block.projection, 0), fill(block.ffn_out, 0);
    fill(spec.table, 1);
    fill(spec.final_norm, gain);
    fill(spec.head, 0);
    return wide.step(0, 1e-2, {&batch, 1});
  };
  const double p = 1.0 / static_cast<double>(s.model.vocab),
               norm = std::sqrt(96 * ((1 - p) * (1 - p) + (1 / p - 1) * p * p));
  const auto below = with_gain(4800);
  EXPECT_EQ(below.outcome, StepOutcome::updated);
  // Norm's epsilon beside a mean square of 1, and roundings of f32.
  EXPECT_NEAR(below.grad_norm, 4800 * norm, 1e-4 * below.grad_norm);
  ASSERT_LT(4800 * norm, std::sqrt(0x1p31));
  ASSERT_GT(4900 * norm, std::sqrt(0x1p31));
  EXPECT_THAT([&] { with_gain(4900); }, testing::ThrowsMessage<CountOverflow>(testing::HasSubstr(
                                            "the gradient norm is at least 46341")));
}

TEST_P(CountedStep, ALossThatNoSumOfAnEvaluationHoldsIsNamed) {
  const auto loss_at = [&](float scale) {
    set(trainer.store().spec().final_norm, scale);
    return trainer.evaluate(random_batch(model(), 4));
  };
  EXPECT_TRUE(std::isfinite(loss_at(1e2F).sum));
  EXPECT_THAT([&] { loss_at(1e6F); },
              testing::ThrowsMessage<CountOverflow>(testing::HasSubstr("the losses may reach")));
  EXPECT_TRUE(std::isfinite(loss_at(1).sum));
}

TEST_P(CountedStep, EvaluationIsThatOfFloatsToRounding) {
  Trainer floats(*backend, {}, test::setup_of(model(), test::adamw(), DType::f32));
  floats.store().initialize(3, 1);
  const auto batch = random_batch(model(), 4);
  const auto counted = trainer.evaluate(batch), plain = floats.evaluate(batch);
  EXPECT_EQ(counted.valid, plain.valid);
  EXPECT_NEAR(counted.sum, plain.sum, 1e-5 * plain.sum);
}

// However an evaluation is cut into calls, which a grid decides: beyond 2^53 quanta, too.
TEST(CountedLosses, AddUpToTheBit) {
  const auto large = fixed::Int128{1} << 55;
  const auto all = LossSum::counted(large + 20, 30);
  for (const int each : {1, 4, 5}) {
    LossSum sum = LossSum::counted(large, 10);
    for (int i = 0; i < 20; i += each) sum += LossSum::counted(each, each);
    EXPECT_EQ(sum.sum, all.sum) << each;
    EXPECT_EQ(sum.valid, all.valid);
    sum += LossSum{std::nan(""), 1};
    sum += LossSum::counted(1, 1);
    EXPECT_TRUE(std::isnan(sum.sum));
  }
}

// The trainer itself, whatever asks it to.
TEST(CountedTrainer, RefusesWhatIsNotProven) {
  const auto refusal = [](const TrainerSetup& s, bool invariant) {
    auto target = roomy_target();
    target.properties.invariant = invariant;
    Dry dry(target);
    const Workspace workspace(dry);
    return message_of([&] { const Trainer t(dry, {}, s); });
  };
  auto s = test::setup_of(model(), test::adamw(), DType::f32);
  EXPECT_EQ(refusal(s, false), "");
  s.exact_chunk = 4;
  EXPECT_EQ(refusal(s, true), "");
  EXPECT_THAT(refusal(s, false),
              testing::HasSubstr("works only with the backends host (f32, bf16) and ref (f32)"));
}

}  // namespace
}  // namespace trireme
