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
};

void PrintTo(const PlanCase& c, std::ostream* out) {
  *out << c.name;
}

static std::vector<PlanCase> plan_cases() {
  auto dropout = test::tiny_gpt2();
  dropout.dropout = 0.1;
  auto recompute = test::tiny_llama();
  recompute.recompute = Recompute::block;
  auto chunks = test::tiny_gpt2();  // more tokens than one chunk of logits
  chunks.context = 150;
  return {
      {"gpt2_f32", test::tiny_gpt2(), DType::f32, 4, 4},
      {"gpt2_bf16", test::tiny_gpt2(), DType::bf16, 4, 2},
      {"llama_f32", test::tiny_llama(), DType::f32, 6, 2},
      {"llama_bf16", test::tiny_llama(), DType::bf16, 2, 1},
      {"gpt2_dropout", dropout, DType::f32, 4, 2},
      {"llama_recompute", recompute, DType::f32, 4, 1},
      {"llama_pieces_of_samples", recompute, DType::f32, 4, 2, {}, 3},
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
      trainer.evaluate(step[0]);
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
  c.context = 16384;
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
  EXPECT_NEAR(static_cast<double>(plan.ranks[0].account.peak[static_cast<int>(Kind::optimizer)]),
              8 * n, 1e-3 * n);
  EXPECT_NEAR(static_cast<double>(plan.ranks[0].account.peak[static_cast<int>(Kind::gradients)]),
              4 * (n + table), 1e-3 * n);
}

// A block's backward is two products for each of its forward; the head does all three in forward.
TEST(PlanSchedule, CostsAndTimelineComeFromTheStep) {
  PlanInput input;
  input.setup.model = test::tiny_gpt2();
  input.setup.model.layers = 4;
  input.setup.stage_layers = {3, 1};
  input.train.batch = 6;
  input.train.microbatch = 1;
  input.grid = {.pipe = 2, .data = 1, .seq = 1};
  const auto plan = make_plan(input, dry_target({"host", 2, false}));

  ASSERT_EQ(plan.ranks.size(), 2U);
  for (const auto& r : plan.ranks)
    EXPECT_NEAR(6 * (r.microbatch_flops[0].forward + r.microbatch_flops[0].backward), r.step_flops,
                1e-9 * r.step_flops);
  const auto& first = plan.ranks[0].microbatch_flops[0];
  EXPECT_GT(first.backward, 1.9 * first.forward);
  EXPECT_LT(first.backward, 2.6 * first.forward);  // attention's is 2.5 times its forward
  const auto& c = input.setup.model;
  const double head = 6.0 * static_cast<double>(c.context * c.vocab * c.width);
  EXPECT_NEAR(plan.ranks[1].microbatch_flops[0].forward, first.forward / 3 + head, 1);

  ASSERT_EQ(plan.timeline.stages.size(), 2U);
  EXPECT_EQ(plan.timeline.stages[0].size(), 12U);
  EXPECT_GT(bubble(plan.timeline), 0.1);
  EXPECT_LT(bubble(plan.timeline), 0.5);
  const auto text = plan_text(plan, input, dry_target({"host", 2, false}));
  EXPECT_NE(text.find("stage 1 "), std::string::npos) << text;
  EXPECT_NE(text.find("bubble "), std::string::npos) << text;
}

static PlanInput of_schedule(ScheduleKind schedule, int chunks) {
  PlanInput input;
  input.setup.model = test::tiny_gpt2();
  input.setup.model.layers = 4;
  input.setup.schedule = schedule;
  input.setup.chunks = chunks;
  input.train.batch = 8;
  input.train.microbatch = 1;
  input.grid = {.pipe = 2, .data = 1, .seq = 1};
  return input;
}

// The same work, of which more idles or less; each chunk has its cost.
TEST(PlanSchedule, OthersThan1F1BIdleLess) {
  const auto target = dry_target({"host", 2, false});
  const auto usual = make_plan(of_schedule(ScheduleKind::one_f_one_b, 1), target);
  for (const auto& [schedule, chunks] :
       {std::pair(ScheduleKind::zero_bubble, 1), std::pair(ScheduleKind::interleaved, 2)}) {
    const auto plan = make_plan(of_schedule(schedule, chunks), target);
    ASSERT_EQ(plan.ranks.size(), 2U);
    EXPECT_LT(bubble(plan.timeline), 0.8 * bubble(usual.timeline));
    EXPECT_LT(plan.timeline.end, usual.timeline.end);
    for (std::size_t r = 0; r < 2; ++r) {
      const auto& rank = plan.ranks[r];
      EXPECT_EQ(rank.races, std::vector<std::string>{});
      EXPECT_DOUBLE_EQ(rank.step_flops, usual.ranks[r].step_flops);
      ASSERT_EQ(rank.microbatch_flops.size(), static_cast<std::size_t>(chunks));
      double all = 0;
      for (const auto& c : rank.microbatch_flops) all += c.forward + c.backward;
      EXPECT_NEAR(8 * all, rank.step_flops, 1e-9 * rank.step_flops);
    }
    // The first stage's backward is whole. Of a block's, weights have half of the products' and
    // nothing of attention's; the head's are in forward.
    const auto& cost = plan.ranks[1].microbatch_flops[0];
    const bool halves = schedule == ScheduleKind::zero_bubble;
    EXPECT_EQ(plan.ranks[0].microbatch_flops[0].weights, 0);
    EXPECT_GE(cost.weights, halves ? 0.35 * cost.backward : 0);
    EXPECT_LE(cost.weights, halves ? 0.5 * cost.backward : 0);
    EXPECT_EQ(plan.stage_blocks, (std::vector<std::int64_t>{2, 2}));
  }
}

// Folded, both ends of the model are on the first stage, so that no sum of a tied table is sent,
// and each stage sends both chunks' activations and gradients, of 8 microbatches.
TEST(PlanSchedule, AFoldIdlesLessAndSendsTwice) {
  const auto target = dry_target({"host", 2, false});
  const auto usual = make_plan(of_schedule(ScheduleKind::one_f_one_b, 1), target);
  const auto fold = make_plan(of_schedule(ScheduleKind::zbv, 2), target);
  EXPECT_LT(bubble(fold.timeline), bubble(usual.timeline));
  EXPECT_LT(fold.timeline.end, usual.timeline.end);
  double flops = 0, usual_flops = 0;
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(fold.ranks[r].races, std::vector<std::string>{});
    EXPECT_EQ(fold.ranks[r].step_messages, 2 * 8);
    flops += fold.ranks[r].step_flops;
    usual_flops += usual.ranks[r].step_flops;
  }
  EXPECT_DOUBLE_EQ(flops, usual_flops);
  EXPECT_EQ(fold.stage_blocks, (std::vector<std::int64_t>{2, 2}));
}

// Queues of devices would wait for each other around the ring of chunks.
TEST(PlanSchedule, StagesOfSeveralChunksSendNothingBetweenDevices) {
  for (const auto kind : {ScheduleKind::interleaved, ScheduleKind::zbv}) {
    auto input = of_schedule(kind, 2);
    input.transport = TransportKind::device;
    EXPECT_THAT(message_of<Error>([&] {
                  plan_rank(input, dry_target({"host", 1, false}), 0);
                }),
                testing::HasSubstr("would wait for each other between devices"));
  }
  auto input = of_schedule(ScheduleKind::zero_bubble, 1);
  input.transport = TransportKind::device;
  plan_rank(input, dry_target({"host", 1, false}), 0);
}

// What reserved_by takes for granted: a step of few microbatches holds as much as one of many, but
// for a number of each one's loss. An input would be some 30 KiB.
TEST(PlanSchedule, FewMicrobatchesHoldAsMuchAsMany) {
  const auto target = dry_target({"host", 1, false});
  constexpr int pipe = 4, many = 32;
  for (const auto& [schedule, chunks] :
       {std::pair(ScheduleKind::zero_bubble, 1), std::pair(ScheduleKind::interleaved, 2),
        std::pair(ScheduleKind::zbv, 2)}) {
    const auto few = microbatches_held({schedule, pipe, chunks}, many);
    auto input = of_schedule(schedule, chunks);
    input.setup.model.layers = 8;
    input.setup.model.context = 64;
    input.grid.pipe = pipe;
    for (int rank = 0; rank < pipe; ++rank) {
      const auto peak = [&](std::int64_t microbatches) {
        input.train.batch = microbatches;
        return static_cast<double>(plan_rank(input, target, rank).account.peak_all);
      };
      EXPECT_NEAR(peak(few), peak(many), many * Arena::granule) << "rank " << rank;
    }
  }
}

// Stages below the first that trains run forward alone.
TEST(PlanSchedule, FrozenStagesHaveNoBackward) {
  PlanInput input;
  input.setup.model = test::tiny_llama();
  input.setup.freeze = {{.pattern = "embedding*"}, {.pattern = "blocks.0.*"}};
  input.train.batch = 4;
  input.train.microbatch = 1;
  input.grid = {.pipe = 2, .data = 1, .seq = 1};
  const auto plan = make_plan(input, dry_target({"host", 2, false}));

  EXPECT_EQ(plan.ranks[0].microbatch_flops[0].backward, 0);
  EXPECT_EQ(plan.timeline.stages[0].size(), 4U);
  EXPECT_EQ(plan.timeline.stages[1].size(), 8U);
}

// 6 query and 2 key/value heads over 4 ranks: 1, 2, 1 and 2 query heads, all of one key/value head.
TEST(PlanRanks, OneOfEachKindIsPlanned) {
  PlanInput input;
  input.setup.model = test::tiny_llama();
  input.setup.model.context = 8;
  input.train.batch = 2;
  input.train.microbatch = 1;
  const auto planned = [&](int pipe, int seq) {
    input.grid = {.pipe = pipe, .data = 1, .seq = seq};
    std::vector<int> ranks;
    for (const auto& r : make_plan(input, dry_target({"host", 1, false})).ranks)
      ranks.push_back(r.rank);
    return ranks;
  };
  EXPECT_EQ(planned(1, 2), (std::vector<int>{0}));
  EXPECT_EQ(planned(1, 4), (std::vector<int>{0, 1}));
  EXPECT_EQ(planned(2, 4), (std::vector<int>{0, 1, 4, 5}));
}

TEST(PlanSchedule, GridsAreTriedWithFewMicrobatches) {
  PlanInput input;
  input.setup.model = test::tiny_gpt2();
  input.train.batch = 64;
  input.train.microbatch = 1;
  input.grid = {.pipe = 2, .data = 1, .seq = 1};
  const auto target = dry_target({"host", 2, false});
  const auto whole = static_cast<double>(make_plan(input, target).most_reserved());

  const auto tried = needed_within(input, target, SIZE_MAX);

  ASSERT_TRUE(tried);
  EXPECT_NEAR(static_cast<double>(*tried), whole, 0.05 * whole);
  EXPECT_EQ(needed_within(input, target, *tried), tried);
  EXPECT_FALSE(needed_within(input, target, *tried - 1));
}

// What NCCL takes and what is left free counts where a limit does, and in no account.
TEST(PlanSchedule, ADevicesMemoryIsNotTheRunsAlone) {
  PlanInput input;
  input.setup.model = test::tiny_gpt2();
  input.train.batch = input.train.microbatch = 2;
  input.grid = {.pipe = 2, .data = 1, .seq = 1};
  const auto target = dry_target({"cuda", 1, false});
  const auto alone = make_plan(input, target);
  EXPECT_EQ(alone.most_needed(), alone.most_reserved());

  input.transport = TransportKind::device;
  input.headroom = std::size_t{3} << 30;
  const auto plan = make_plan(input, target);

  const auto beside = std::size_t{3} * (32 * 12 << 20) + input.headroom;
  EXPECT_EQ(plan.ranks[0].reserved, alone.ranks[0].reserved);
  EXPECT_EQ(plan.ranks[0].needed(), plan.ranks[0].reserved + beside);
  EXPECT_TRUE(needed_within(input, target, plan.most_needed()));
  EXPECT_FALSE(needed_within(input, target, plan.most_reserved()));
}

TEST(PlanSchedule, StagesLeftOutOfATryHoldLess) {
  PlanInput input;
  input.setup.model = test::tiny_gpt2();
  input.setup.model.layers = 9;
  input.train.batch = 10;  // all of them in a try of 4 stages
  input.train.microbatch = 1;
  input.grid = {.pipe = 4, .data = 1, .seq = 1};
  const auto target = dry_target({"host", 2, false});
  const auto equal = [&] {
    EXPECT_EQ(needed_within(input, target, SIZE_MAX), make_plan(input, target).most_reserved());
  };
  for (const auto& layers : std::vector<std::vector<std::int64_t>>{
           {2, 2, 3, 2}, {1, 2, 5, 1}, {1, 4, 3, 1}, {1, 3, 3, 2}, {4, 1, 1, 3}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layers, " ")));
    input.setup.stage_layers = layers;
    input.setup.freeze.clear();
    equal();
    input.setup.freeze = {
        {.pattern = "embedding*"}, {.pattern = "blocks.0.*"}, {.pattern = "blocks.1.*"}};
    equal();
  }
}

}  // namespace trireme
