// model.offload = "inputs": the same bits, with inputs of blocks in the host's memory.
#include "lib/train/offload.hpp"

#include <gtest/gtest.h>

#include "kernels/arena.hpp"
#include "kernels/fenced/fenced.hpp"
#include "kernels/host/host.hpp"
#include "kernels/open/open.hpp"
#include "lib/plan/plan.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

TEST(OffloadedTensor, ComesUpAsItWentDown) {
  Fenced b(1);
  const Workspace scratch(b);
  const std::vector<float> values{1, 2, 3, 4};
  Tensor x = Tensor::empty(b, {4}, DType::f32, MemoryKind::saved);
  b.upload(Queue::compute, x.view(), std::as_bytes(std::span(values)));

  OffloadedTensor down(b, x);
  x = {};
  // Takes the place that x had, which has to wait until x is down.
  const Tensor next = Tensor::empty(b, {4}, DType::f32, MemoryKind::saved);
  b.put(Queue::compute, kernel::Fill{.dst = next.view(), .value = 7});
  down.bring_up(b);
  const Tensor up = down.take(b);

  std::vector<float> got(4);
  b.download(Queue::compute, std::as_writable_bytes(std::span(got)), up.view());
  EXPECT_EQ(got, values);
  EXPECT_FALSE(down);
}

struct Run {
  std::vector<std::vector<float>> weights;
  Account account;
};

TrainerSetup setup_of(Offload offload, std::int64_t chunk_tokens) {
  auto model = test::tiny_llama();
  model.layers = 4;
  model.max_context = 160;
  auto s = test::setup_of(model, test::adamw(), DType::f32);
  s.dropout = 0.1;
  s.recompute = Recompute::block;
  s.offload = offload;
  s.chunk_tokens = chunk_tokens;
  return s;
}

Run train(Backend& b, const TrainerSetup& setup) {
  Run run;
  {
    const Workspace scratch(b);
    Trainer trainer(b, {}, setup);
    trainer.store().initialize(3, 2);
    for (int s = 0; s < 2; ++s)
      trainer.step(s, 1e-2,
                   std::vector{test::random_batch(setup.model, 2, 4 * s),
                               test::random_batch(setup.model, 2, 4 * s + 2)});
    run.weights = test::read_all<float>(trainer.store());
  }
  run.account = b.account();
  return run;
}

constexpr auto offloaded = static_cast<std::size_t>(MemoryKind::offloaded);

TEST(Offload, TakesTheBitsAndTheMemoryOfItsPlan) {
  for (const std::int64_t chunk_tokens : {0, 16}) {
    const auto setup = setup_of(Offload::inputs, chunk_tokens);
    Fenced with(2), without(2);
    const auto got = train(with, setup),
               want = train(without, setup_of(Offload::none, chunk_tokens));
    EXPECT_EQ(got.weights, want.weights);

    PlanInput in;
    in.setup = setup;
    in.train.batch = 4;
    in.train.microbatch = 2;
    in.evaluation = PlanEvaluation::left_out;
    const auto plan = plan_rank(in, dry_target({"fenced", 2, false}), 0);
    EXPECT_EQ(plan.races, std::vector<std::string>{});
    EXPECT_EQ(plan.account.peak, got.account.peak);
    EXPECT_EQ(plan.account.reserved, got.account.reserved);
    EXPECT_EQ(plan.account.pinned_reserved, got.account.pinned_reserved);

    // Of four blocks; on the device two are left, one computed and one coming up.
    const std::size_t input = std::size_t{2} * 160 * 24 * 4;
    EXPECT_EQ(got.account.peak[offloaded], 4 * input);
    EXPECT_EQ(want.account.peak[offloaded], 0U);
    EXPECT_LT(got.account.reserved, want.account.reserved);
  }
}

// Memory that the host reads is its own.
TEST(Offload, HasNoEffectOnTheHost) {
  Host with(2), without(2);
  const auto got = train(with, setup_of(Offload::inputs, 0)),
             want = train(without, setup_of(Offload::none, 0));
  EXPECT_EQ(got.weights, want.weights);
  EXPECT_EQ(got.account.peak, want.account.peak);
}

}  // namespace
}  // namespace trireme
