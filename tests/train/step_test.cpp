// Properties of a training step.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/fenced/fenced.hpp"
#include "kernels/host/host.hpp"
#include "kernels/ref/ref.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using test::random_batch;

static Trainer make(Backend& b, const ModelConfig& c, const OptimizerConfig& o,
                    DType t = DType::f32) {
  return Trainer(b, {}, test::setup_of(c, o, t));
}

template <class T>
static std::vector<std::vector<T>> train(Backend& b, const TrainerSetup& setup, int steps) {
  Trainer trainer(b, {}, setup);
  trainer.store().initialize(3, 2);
  for (int s = 0; s < steps; ++s)
    EXPECT_EQ(trainer.step(s, 1e-2, std::vector{random_batch(setup, 4, 4 * s)}).outcome,
              StepOutcome::updated);
  return test::read_all<T>(trainer.store());
}

TEST(Step, TwiceGivesTheSameBits) {
  auto setup = test::setup_of(test::tiny_gpt2(), test::adamw(), DType::f32);
  setup.dropout = 0.1;
  Host host(2);
  const Workspace host_scratch(host);

  const auto a = train<float>(host, setup, 3);
  const auto b = train<float>(host, setup, 3);

  EXPECT_EQ(a, b);
}

TEST(Step, RecomputeGivesTheSameBits) {
  for (const auto& c : {test::tiny_gpt2(), test::tiny_llama()}) {
    auto setup = test::setup_of(c, test::adamw(), DType::f32);
    setup.dropout = 0.2;
    Host host(2);
    const Workspace host_scratch(host);
    const auto kept = train<float>(host, setup, 3);
    setup.recompute = Recompute::block;

    const auto again = train<float>(host, setup, 3);

    EXPECT_EQ(kept, again);
  }
}

TEST(Step, FencedTrainsLikeHost) {
  for (const auto& c : {test::tiny_gpt2(), test::tiny_llama()})
    for (const DType t : {DType::f32, DType::bf16}) {
      Host host(2);
      const Workspace host_scratch(host);
      Fenced fenced(2);
      const Workspace fenced_scratch(fenced);

      const auto setup = test::setup_of(c, test::adamw(), t);
      const auto a = train<float>(host, setup, 2);
      const auto b = train<float>(fenced, setup, 2);

      EXPECT_EQ(a, b);
    }
}

// 4 microbatches of 2 samples are one of 8: only the order of the sums over tokens differs. In f64
// a gradient here sums under 100 terms, so 1e-13 of its largest element bounds the rounding.
TEST(Step, AccumulationEqualsOneLargeBatch) {
  const auto c = test::tiny_llama();
  Ref backend;
  const Workspace backend_scratch(backend);
  auto whole = make(backend, c, test::plain_sgd(), DType::f64);
  whole.store().initialize(3, 1);
  const auto one = whole.step(0, 1, std::vector{random_batch(c, 8)});
  const auto a = test::read_all<double>(whole.store());
  whole.store().initialize(3, 1);
  std::vector<Batch> pieces;
  for (int m = 0; m < 4; ++m) pieces.push_back(random_batch(c, 2, 2 * m));
  ASSERT_NE(pieces[0].valid, pieces[1].valid);

  const auto four = whole.step(0, 1, pieces);
  const auto b = test::read_all<double>(whole.store());

  EXPECT_NEAR(one.loss, four.loss, 1e-13 * one.loss);
  EXPECT_NEAR(one.grad_norm, four.grad_norm, 1e-13 * one.grad_norm);
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t e = 0; e < a[i].size(); ++e) ASSERT_NEAR(a[i][e], b[i][e], 1e-13);
}

TEST(Step, OverfitsOneBatch) {
  for (const DType t : {DType::f32, DType::bf16}) {
    auto c = test::tiny_gpt2();
    c.width = 48;
    c.head_dim = c.width / c.heads;
    c.ffn_width = 192;
    Host host(2);
    const Workspace host_scratch(host);
    auto trainer = make(host, c, test::adamw(), t);
    trainer.store().initialize(3, 2);
    const std::vector batch{random_batch(c, 3)};
    double loss = 0;

    for (int s = 0; s < 150; ++s) loss = trainer.step(s, 3e-3, batch).loss;

    EXPECT_LT(loss, 0.1) << name_of(t);
  }
}

// ln(vocab), and half the variance of the logits: width * 0.02^2 / 2.
TEST(Step, StartsAtTheEntropyOfTheVocabulary) {
  auto c = test::tiny_gpt2();
  c.width = 96;
  c.heads = 6;
  c.head_dim = 16;
  c.ffn_width = 384;
  c.max_context = 64;
  c.vocab = 301;
  Host host(2);
  const Workspace host_scratch(host);
  auto trainer = make(host, c, test::adamw());
  trainer.store().initialize(1, 2);

  const auto loss = trainer.evaluate(random_batch(c, 24));

  ASSERT_GE(loss.valid, 1000);
  EXPECT_NEAR(loss.mean(), std::log(301.0) + 2e-4 * 96, 0.1);
}

TEST(Step, WithoutTargetsIsSkipped) {
  const auto c = test::tiny_gpt2();
  Host host(1);
  const Workspace host_scratch(host);
  auto trainer = make(host, c, test::adamw());
  trainer.store().initialize(3, 1);
  const auto before = test::read_all<float>(trainer.store());
  auto batch = random_batch(c, 2);
  std::ranges::fill(batch.targets_BT, -1);
  batch.valid = 0;

  const auto result = trainer.step(0, 1e-2, std::vector{batch});

  EXPECT_EQ(result.outcome, StepOutcome::no_targets);
  EXPECT_EQ(test::read_all<float>(trainer.store()), before);
  EXPECT_EQ(trainer.store().count({0}), 0);
}

TEST(Step, ThatIsNotFiniteIsSkippedAndNamesTheFirstParameter) {
  const auto c = test::tiny_gpt2();
  Host host(1);
  const Workspace host_scratch(host);
  auto trainer = make(host, c, test::adamw());
  auto& store = trainer.store();
  store.initialize(3, 1);
  const auto& spec = store.spec();
  // The last block's output projection: the gradients of all before it are poisoned.
  const ParamId p = spec.blocks.back().ffn_out;
  auto w = test::read<float>(store, p);
  w[0] = std::numeric_limits<float>::infinity();
  test::write<float>(store, p, w);

  const auto result = trainer.step(0, 1e-2, std::vector{random_batch(c, 2)});

  EXPECT_EQ(result.outcome, StepOutcome::not_finite);
  EXPECT_EQ(result.culprit, "the gradient of embedding.weight");
  EXPECT_EQ(test::read<float>(store, p), w);
  EXPECT_EQ(store.count(p), 0);
}

// What the first block attends to is zero, so the loss never meets the huge weights behind it; the
// gradient of the values does.
TEST(Step, WhoseGradientAloneIsNotFiniteIsSkipped) {
  const auto c = test::tiny_gpt2();
  Host host(1);
  const Workspace host_scratch(host);
  auto trainer = make(host, c, test::adamw());
  auto& store = trainer.store();
  store.initialize(3, 1);
  const auto& block = store.spec().blocks[0];
  const auto fill = [&](ParamId p, float x) {
    auto w = test::read<float>(store, p);
    std::ranges::fill(w, x);
    test::write<float>(store, p, w);
  };
  fill(block.qkv, 0);
  fill(block.qkv_bias, 0);
  fill(block.attention_norm, 1e10F);
  fill(block.projection, 1e37F);
  const auto before = test::read_all<float>(store);

  const auto result = trainer.step(0, 1e-2, std::vector{random_batch(c, 2)});

  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(result.outcome, StepOutcome::not_finite);
  EXPECT_EQ(result.culprit, "the gradient of blocks.0.qkv.weight");
  EXPECT_EQ(test::read_all<float>(store), before);
}

TEST(Step, ClippingScalesTheWholeGradient) {
  const auto c = test::tiny_gpt2();
  Ref backend;
  const Workspace backend_scratch(backend);
  auto o = test::plain_sgd();
  auto trainer = make(backend, c, o, DType::f64);
  trainer.store().initialize(3, 1);
  const auto start = test::read_all<double>(trainer.store());
  const auto norm = trainer.step(0, 1, std::vector{random_batch(c, 2)}).grad_norm;
  const auto full = test::read_all<double>(trainer.store());
  o.clip = norm / 3;
  auto clipped = make(backend, c, o, DType::f64);
  clipped.store().initialize(3, 1);

  clipped.step(0, 1, std::vector{random_batch(c, 2)});

  const double scale = o.clip / (norm + 1e-6);
  const auto short_step = test::read_all<double>(clipped.store());
  for (std::size_t i = 0; i < full.size(); ++i)
    for (std::size_t e = 0; e < full[i].size(); ++e)
      ASSERT_NEAR(short_step[i][e] - start[i][e], scale * (full[i][e] - start[i][e]), 1e-14);
}

TEST(Step, ClippingLeavesShortGradientsAlone) {
  const auto c = test::tiny_gpt2();
  Ref backend;
  const Workspace backend_scratch(backend);
  auto o = test::plain_sgd();
  const auto trained = [&] {
    auto trainer = make(backend, c, o, DType::f64);
    trainer.store().initialize(3, 1);
    const auto norm = trainer.step(0, 1, std::vector{random_batch(c, 2)}).grad_norm;
    return std::pair(norm, test::read_all<double>(trainer.store()));
  };
  const auto [norm, unclipped] = trained();
  o.clip = 2 * norm;

  EXPECT_EQ(trained().second, unclipped);
}

TEST(Step, EvaluationDropsNothingAndChangesNothing) {
  const auto c = test::tiny_gpt2();
  Host host(2);
  const Workspace host_scratch(host);
  auto plain = make(host, c, test::adamw());
  plain.store().initialize(3, 2);
  auto setup = test::setup_of(c, test::adamw(), DType::f32);
  setup.dropout = 0.5;
  Trainer dropping(host, {}, setup);
  dropping.store().initialize(3, 2);
  const auto batch = random_batch(c, 3);

  EXPECT_EQ(plain.evaluate(batch).sum, dropping.evaluate(batch).sum);
  EXPECT_EQ(dropping.evaluate(batch).sum, dropping.evaluate(batch).sum);
}

// The logits after a prefix give the loss of the one target behind it, whatever comes later.
TEST(Step, LogitsAreThoseOfTheLoss) {
  const auto c = test::tiny_llama();
  Host host(2);
  const Workspace host_scratch(host);
  auto trainer = make(host, c, test::adamw());
  trainer.store().initialize(3, 2);
  const std::vector<std::int32_t> prefix{3, 1, 4, 1};
  const std::int32_t target = 5;

  const auto logits = trainer.logits(prefix);

  double sum = 0;
  for (double z : logits) sum += std::exp(z);
  for (const std::int32_t tail : {0, 7}) {
    Batch batch{prefix, std::vector<std::int32_t>(7, -1), {0}, 1};
    batch.ids_BT.resize(7, tail);
    batch.targets_BT[3] = target;
    // A sum of 19 f32 terms of size 1.
    EXPECT_NEAR(trainer.evaluate(batch).sum, std::log(sum) - logits[5], 19 * 6e-8);
  }
}

}  // namespace trireme
