// Steps whose gradients and losses are counts of quanta (run.exactness = "invariant"), on one rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/host/host.hpp"
#include "kernels/host/parallel.hpp"
#include "lib/comm/agree.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using test::random_batch;

ModelConfig model() {
  auto c = test::tiny_llama();
  c.context = 8;
  return resolved(c);
}

class CountedStep : public testing::Test {
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
    try {
      step();
    } catch (const SharedError& e) {
      return e.what();
    }
    return "no error";
  }

  Host host{2};
  Workspace scratch{host};
  Trainer trainer{host, {}, setup()};
};

TEST_F(CountedStep, IsThatOfFloatsToRounding) {
  Trainer floats(host, {}, test::setup_of(model(), test::adamw(), DType::f32));
  floats.store().initialize(3, 1);
  for (int s = 0; s < 5; ++s) {
    const auto counted = step(s),
               plain = floats.step(s, 1e-2, std::vector{random_batch(model(), 4, 4 * s)});
    EXPECT_EQ(counted.valid, plain.valid);
    EXPECT_NEAR(counted.loss, plain.loss, 1e-5);
    EXPECT_NEAR(counted.grad_norm, plain.grad_norm, 1e-4 * plain.grad_norm);
  }
}

TEST_F(CountedStep, HasTheSameBitsOnAnyNumberOfThreads) {
  std::vector<std::vector<std::vector<float>>> all;
  for (const int threads : {1, 2, 3, 4}) {
    host::set_threads(threads);
    Trainer t(host, {}, setup());
    t.store().initialize(3, 1);
    for (int s = 0; s < 3; ++s) t.step(s, 1e-2, std::vector{random_batch(model(), 4, 4 * s)});
    all.push_back(test::read_all<float>(t.store()));
  }
  host::set_threads(2);
  for (const auto& weights : all) EXPECT_EQ(weights, all[0]);
}

// Two tokens' gradients reach 2^13 only together: each is below it.
TEST_F(CountedStep, AnOverflowNamesTheParameter) {
  set(trainer.store().spec().final_norm, 2e4F);
  EXPECT_THAT(refusal(),
              testing::AllOf(testing::HasSubstr("the gradient of "),
                             testing::HasSubstr("run.exactness = \"invariant\" counts up to")));
}

TEST_F(CountedStep, OneThatIsNotFiniteIsSkippedAndNamed) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const auto id = trainer.store().spec().blocks.back().ffn_out;
    const auto before = test::read<float>(trainer.store(), id);
    auto w = before;
    w[5] = bad;
    test::write<float>(trainer.store(), id, w);

    const auto r = step();

    EXPECT_EQ(r.verdict, Verdict::not_finite);
    EXPECT_THAT(r.culprit, testing::HasSubstr("the gradient of "));
    EXPECT_TRUE(std::isnan(trainer.evaluate(random_batch(model(), 4)).sum));
    test::write<float>(trainer.store(), id, before);
  }
  EXPECT_EQ(step().verdict, Verdict::updated);
}

TEST_F(CountedStep, EvaluationIsThatOfFloatsToRounding) {
  Trainer floats(host, {}, test::setup_of(model(), test::adamw(), DType::f32));
  floats.store().initialize(3, 1);
  const auto batch = random_batch(model(), 4);
  const auto counted = trainer.evaluate(batch), plain = floats.evaluate(batch);
  EXPECT_EQ(counted.valid, plain.valid);
  EXPECT_NEAR(counted.sum, plain.sum, 1e-5 * plain.sum);
}

}  // namespace
}  // namespace trireme
