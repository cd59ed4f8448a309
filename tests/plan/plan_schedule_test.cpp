// What a plan says of the work of a step, its schedule and its stages.
#include <gmock/gmock.h>

#include "kernels/arena.hpp"
#include "kernels/open/open.hpp"
#include "lib/plan/plan.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

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
  const double head = 6.0 * static_cast<double>(c.max_context * c.vocab * c.width);
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
                testing::HasSubstr("would deadlock over NCCL"));
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
    input.setup.model.max_context = 64;
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
