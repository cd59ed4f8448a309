// Blocks in chunks of tokens: the same training, in memory that attention alone makes grow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/fenced/fenced.hpp"
#include "kernels/host/host.hpp"
#include "kernels/open/open.hpp"
#include "kernels/ref/ref.hpp"
#include "lib/plan/plan.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

using test::random_batch;

std::vector<TrainerSetup> setups(const OptimizerConfig& optimizer, DType compute) {
  std::vector<TrainerSetup> all;
  for (const auto& model : {test::tiny_gpt2(), test::tiny_llama(), test::tiny_qwen(),
                            test::tiny_mixture(), test::tiny_granite()})
    all.push_back(test::setup_of(model, optimizer, compute));
  all[0].dropout = 0.2;
  all[2].recompute = Recompute::block;
  return all;
}

struct Trained {
  std::vector<StepResult> steps;
  LossSum held_out;
};

// Two steps of two microbatches of 3 samples, and an evaluation.
template <class T>
std::vector<std::vector<T>> train(Backend& b, const TrainerSetup& setup, bool documents,
                                  Trained& out) {
  const Workspace scratch(b);
  Trainer trainer(b, {}, setup);
  trainer.store().initialize(3, 2);
  const auto batch = [&](std::int64_t first) {
    auto one = random_batch(setup.model, 3, first);
    if (documents) one.start_BT = test::starts_of(one, 4);
    return one;
  };
  for (int s = 0; s < 2; ++s)
    out.steps.push_back(trainer.step(s, 1e-2, std::vector{batch(6 * s), batch(6 * s + 3)}));
  out.held_out = trainer.evaluate(batch(20));
  return test::read_all<T>(trainer.store());
}

// One piece and a shorter one, single tokens, whole samples.
constexpr std::int64_t sizes[] = {4, 1, 7, 14};

// Sums of up to 42 terms: 1e-12 of a weight of size 1 bounds what another order makes of them.
TEST(ChunkTokens, ChangeNothingButTheOrderOfSums) {
  for (auto setup : setups(test::plain_sgd(), DType::f64))
    for (const bool documents : {false, true}) {
      setup.chunk_tokens = 0;
      setup.attention = documents ? AttentionSpan::document : AttentionSpan::causal;
      Ref ref;
      Trained whole;
      const auto want = train<double>(ref, setup, documents, whole);
      for (const auto size : sizes) {
        setup.chunk_tokens = size;
        Trained chunks;
        const auto got = train<double>(ref, setup, documents, chunks);
        for (std::size_t s = 0; s < 2; ++s) {
          EXPECT_NEAR(chunks.steps[s].loss, whole.steps[s].loss, 1e-12);
          EXPECT_NEAR(chunks.steps[s].grad_norm, whole.steps[s].grad_norm, 1e-12);
        }
        EXPECT_NEAR(chunks.held_out.sum, whole.held_out.sum, 1e-11);
        for (std::size_t i = 0; i < want.size(); ++i)
          for (std::size_t e = 0; e < want[i].size(); ++e)
            ASSERT_NEAR(got[i][e], want[i][e], 1e-12) << size;
      }
    }
}

TEST(ChunkTokens, ChangeNoBitWhereSumsAreCounted) {
  for (const DType t : {DType::f32, DType::bf16})
    for (auto setup : setups(test::adamw(), t)) {
      setup.model.max_context = 8;
      setup.exact_chunk = 2;
      Host host(2);
      Trained whole;
      const auto want = train<float>(host, setup, false, whole);
      for (const std::int64_t size : {2, 6, 8, 16}) {
        setup.chunk_tokens = size;
        Trained chunks;
        EXPECT_EQ(train<float>(host, setup, false, chunks), want) << size;
        EXPECT_EQ(chunks.steps[1].loss, whole.steps[1].loss);
        EXPECT_EQ(chunks.steps[1].grad_norm, whole.steps[1].grad_norm);
      }
    }
}

// What is frozen has no backward in chunks either.
TEST(ChunkTokens, OfBlocksThatAreFrozenInPart) {
  for (const char* pattern : {"blocks.0.*", "*.ffn*", "embedding*"}) {
    auto setup = test::setup_of(test::tiny_llama(), test::plain_sgd(), DType::f64);
    setup.freeze = {{pattern, 0, 0}};
    Ref ref;
    Trained whole, chunks;
    const auto want = train<double>(ref, setup, false, whole);
    setup.chunk_tokens = 4;
    const auto got = train<double>(ref, setup, false, chunks);
    for (std::size_t i = 0; i < want.size(); ++i)
      for (std::size_t e = 0; e < want[i].size(); ++e) ASSERT_NEAR(got[i][e], want[i][e], 1e-12);
  }
}

PlanInput long_input(std::int64_t tokens, Recompute recompute) {
  PlanInput in;
  auto& m = in.setup.model;
  m.layers = 3;
  m.width = 32;
  m.heads = 2;
  m.ffn_width = 2048;
  m.vocab = 4096;
  m.max_context = tokens;
  m.activation = ActivationKind::swiglu;
  m.norm = NormKind::rms;
  m.bias = false;
  m.positions = Positions::rotary;
  m = completed(m);
  in.setup.recompute = recompute;
  in.setup.chunk_tokens = 64;
  in.train.batch = in.train.microbatch = 1;
  return in;
}

std::size_t peak(const PlanInput& in) {
  const auto plan = plan_rank(in, dry_target({"host", 1, false}), 0);
  EXPECT_EQ(plan.races, std::vector<std::string>{});
  return plan.account.peak_all;
}

// A token more takes tens of rows as wide as the model, of which an MLP's 2 x 2048 channels alone
// would be 128, and a row of logits as many.
TEST(ChunkTokens, NothingWideGrowsWithTheContext) {
  for (const auto recompute : {Recompute::none, Recompute::block}) {
    const auto rows = [&](std::int64_t chunk) {
      auto one = long_input(2048, recompute), two = long_input(4096, recompute);
      one.setup.chunk_tokens = two.setup.chunk_tokens = chunk;
      return static_cast<double>(peak(two) - peak(one)) / 2048 / (32 * 4);
    };
    EXPECT_LT(rows(64), recompute == Recompute::block ? 22 : 36);
    EXPECT_GT(rows(0), 200);
  }
}

}  // namespace
}  // namespace trireme
