// What dry says is what host does, to the byte, and nothing in a step is unordered.
#include "lib/plan/plan.hpp"

#include <gmock/gmock.h>

#include <ostream>

#include "kernels/host/host.hpp"
#include "kernels/open/open.hpp"
#include "lib/train/state.hpp"
#include "lib/train/state_saver.hpp"
#include "tests/support/scratch.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

struct PlanCase {
  const char* name;
  ModelConfig model;
  DType compute;
  std::int64_t batch, microbatch;
  std::vector<FreezeRule> freeze = {};
  std::int64_t chunk_tokens = 0;
  double dropout = 0;
  Recompute recompute = Recompute::none;
  double ema = 0;
};

void PrintTo(const PlanCase& c, std::ostream* out) {
  *out << c.name;
}

static std::vector<PlanCase> plan_cases() {
  auto chunks = test::tiny_gpt2();  // more tokens than one chunk of logits
  chunks.max_context = 150;
  return {
      {"gpt2_f32", test::tiny_gpt2(), DType::f32, 4, 4},
      {"gpt2_bf16", test::tiny_gpt2(), DType::bf16, 4, 2},
      {"llama_f32", test::tiny_llama(), DType::f32, 6, 2},
      {"llama_bf16", test::tiny_llama(), DType::bf16, 2, 1},
      {"gpt2_dropout", test::tiny_gpt2(), DType::f32, 4, 2, {}, 0, 0.1},
      {"llama_recompute", test::tiny_llama(), DType::f32, 4, 1, {}, 0, 0, Recompute::block},
      {"llama_pieces_of_samples", test::tiny_llama(), DType::f32, 4, 2, {}, 3, 0, Recompute::block},
      {"gpt2_samples_at_a_time", test::tiny_gpt2(), DType::bf16, 6, 3, {}, 14},
      {"gpt2_chunks", chunks, DType::f32, 4, 4},
      // Each in force in some of the steps: what is held grows, shrinks and moves.
      {"thaws_late", test::tiny_gpt2(), DType::f32, 4, 2, {{"*", 0, 5}, {"final_norm.*", 6, 0}}},
      {"thaws_bottom_up",
       test::tiny_llama(),
       DType::bf16,
       4,
       2,
       {{"embedding.*", 0, 6}, {"blocks.0.*", 0, 4}, {"blocks.1.*", 0, 2}}},
      {"freezes_and_keeps",
       test::tiny_gpt2(),
       DType::f32,
       4,
       2,
       {{"blocks.0.*", 1, 4, ThawMoments::keep}, {"*.qkv.*", 2, 6}, {"embedding.*", 5, 0}}},
      {"average_of_thawing_parts",
       test::tiny_llama(),
       DType::bf16,
       4,
       2,
       {{"blocks.0.*", 1, 4, ThawMoments::keep}, {"*.qkv.*", 2, 6}, {"embedding.*", 0, 5}},
       0,
       0,
       Recompute::none,
       0.9},
      {"of_later_steps", test::tiny_gpt2(), DType::f32, 4, 2, {{"*", 0, 7}}}};
}

class PlanAccount : public testing::TestWithParam<PlanCase> {};

TEST_P(PlanAccount, EqualsTheRunToTheByte) {
  const auto& p = GetParam();
  const BackendChoice choice{"host", 2, false};
  PlanInput input;
  input.setup.model = p.model;
  input.train.batch = p.batch;
  input.train.microbatch = p.microbatch;
  input.train.steps = 7;
  input.setup.compute = p.compute;
  input.setup.freeze = p.freeze;
  input.setup.chunk_tokens = p.chunk_tokens;
  input.setup.dropout = p.dropout;
  input.setup.recompute = p.recompute;
  input.setup.ema = p.ema;
  const auto plan = plan_rank(input, dry_target(choice), 0);
  const ScratchFolder folder;

  Host host(2);
  Account account;
  {
    const Workspace scratch(host);
    Trainer trainer(host, {}, input.setup);
    trainer.store().initialize(1, 2);
    for (int s = 0; s < 7; ++s) {
      std::vector<Batch> step;
      for (std::int64_t m = 0; m < p.batch / p.microbatch; ++m)
        step.push_back(test::random_batch(p.model, p.microbatch, m * p.microbatch));
      trainer.step(s, 1e-3, step);
      trainer.store().swap_averages();  // as evaluate.ema does
      trainer.evaluate(step[0]);
      trainer.store().swap_averages();
      if (s == 3) StateSaver(trainer.store(), trainer.axes(), folder.path()).save({});
    }
    account = host.account();
  }

  EXPECT_EQ(plan.races, std::vector<std::string>{});
  EXPECT_EQ(plan.account.live, account.live);
  EXPECT_EQ(plan.account.peak, account.peak);
  EXPECT_EQ(plan.account.peak_all, account.peak_all);
  EXPECT_EQ(plan.account.reserved, account.reserved);
  EXPECT_EQ(host.account().live_all, 0U);
}

INSTANTIATE_TEST_SUITE_P(Cases, PlanAccount, testing::ValuesIn(plan_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Moments that a frozen part keeps are loaded with the rest.
TEST(PlanOfARestart, HoldsWhatFrozenPartsKeep) {
  PlanInput input;
  input.setup.model = test::tiny_gpt2();
  input.setup.freeze = {{"blocks.*", 2, 6, ThawMoments::keep},
                        {"embedding.*", 0, 6, ThawMoments::keep}};
  input.setup.ema = 0.9;
  input.train.batch = input.train.microbatch = 2;
  input.train.steps = 5;
  input.evaluation = PlanEvaluation::left_out;
  input.snapshot = PlanSnapshot::left_out;
  const auto batch = std::vector{test::random_batch(input.setup.model, 2)};
  const ScratchFolder folder;
  std::filesystem::path saved;
  {
    Host host(1);
    const Workspace scratch(host);
    Trainer trainer(host, {}, input.setup);
    trainer.store().initialize(1, 1);
    for (int s = 0; s < 3; ++s) trainer.step(s, 1e-3, batch);
    CheckpointMeta meta;
    meta.step = 3;
    saved = StateSaver(trainer.store(), trainer.axes(), folder.path()).save(meta);
  }
  input.setup.first_step = 3;
  const auto plan = plan_rank(input, dry_target({"host", 1, false}), 0);

  Host host(1);
  const Workspace scratch(host);
  Trainer trainer(host, {}, input.setup);
  CheckpointReader reader(saved);
  load_state(trainer.store(), reader, trainer.freeze_states());
  for (int s = 3; s < 5; ++s) trainer.step(s, 1e-3, batch);

  EXPECT_EQ(plan.account.peak, host.account().peak);
  EXPECT_EQ(plan.account.reserved, host.account().reserved);
}

// Attention streams over blocks and keeps no T x T matrix: T = 16,384 trains in under 1 GB.
TEST(Plan, LongContextsNeedLittle) {
  ModelConfig c;
  c.layers = 1;
  c.width = 256;
  c.heads = 4;
  c.vocab = 256;
  c.max_context = 16384;
  PlanInput input;
  input.setup.model = completed(c);
  input.train.batch = input.train.microbatch = 1;

  const auto plan = make_plan(input, dry_target({"host", 2, false}));

  EXPECT_LT(plan.most_reserved(), 1000000000U);
}

// A model far larger than this machine is planned in no memory at all.
TEST(Plan, LargeModelsCostNothing) {
  PlanInput input;
  input.setup.model = completed(model_preset("gpt2-1558M"));
  input.train.batch = input.train.microbatch = 1;
  auto target = dry_target({"host", 2, false});
  target.capacity = std::size_t{1} << 40;

  const auto plan = make_plan(input, target);

  // Master weights, two moments, gradients, and the table's second gradient.
  const auto n = static_cast<double>(plan.parameters);
  const auto table = 50304.0 * 1600;
  EXPECT_NEAR(
      static_cast<double>(plan.ranks[0].account.peak[static_cast<int>(MemoryKind::optimizer)]),
      8 * n, 1e-3 * n);
  EXPECT_NEAR(
      static_cast<double>(plan.ranks[0].account.peak[static_cast<int>(MemoryKind::gradients)]),
      4 * (n + table), 1e-3 * n);
}

}  // namespace trireme
