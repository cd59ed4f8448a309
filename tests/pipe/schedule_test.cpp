#include "lib/pipe/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/pipe/programs.hpp"
#include "tests/support/deadlock.hpp"
#include "tests/support/program_checker.hpp"

namespace trireme {
namespace {

using enum Do;
using testing::ElementsAre;

}  // namespace

TEST(Schedule, OneStageAlternates) {
  EXPECT_THAT(training_program({.stages = 1}, 2, 0),
              ElementsAre(Instruction{forward, 0}, Instruction{backward, 0},
                          Instruction{forward, 1}, Instruction{backward, 1}));
}

TEST(Schedule, TwoStagesByHand) {
  EXPECT_THAT(training_program({.stages = 2}, 2, 0),
              ElementsAre(Instruction{forward, 0}, Instruction{send_activation, 0},
                          Instruction{forward, 1}, Instruction{send_activation, 1},
                          Instruction{receive_gradient, 0}, Instruction{backward, 0},
                          Instruction{receive_gradient, 1}, Instruction{backward, 1}));
  EXPECT_THAT(training_program({.stages = 2}, 2, 1),
              ElementsAre(Instruction{receive_activation, 0}, Instruction{forward, 0},
                          Instruction{backward, 0}, Instruction{send_gradient, 0},
                          Instruction{receive_activation, 1}, Instruction{forward, 1},
                          Instruction{backward, 1}, Instruction{send_gradient, 1}));
}

// The penultimate of 4 stages: one microbatch ahead, and each gradient leaves before the next input
// arrives.
TEST(Schedule, MiddleStageByHand) {
  const Program p = training_program({.stages = 4}, 3, 2);
  const Program expected = {
      {receive_activation, 0}, {forward, 0},  {send_activation, 0},  //
      {receive_activation, 1}, {forward, 1},  {send_activation, 1},  //
      {receive_gradient, 0},   {backward, 0}, {send_gradient, 0},    //
      {receive_activation, 2}, {forward, 2},  {send_activation, 2},  //
      {receive_gradient, 1},   {backward, 1}, {send_gradient, 1},    //
      {receive_gradient, 2},   {backward, 2}, {send_gradient, 2},
  };
  EXPECT_EQ(p, expected);
}

TEST(Schedule, FrozenStagesRunForwardAndGetNoGradient) {
  EXPECT_EQ(training_program({.stages = 3}, 2, 0, 1), forward_program({.stages = 3}, 2, 0));
  const Program first = training_program({.stages = 3}, 2, 1, 1);
  EXPECT_EQ(std::ranges::count(first, receive_gradient, &Instruction::what), 2);
  EXPECT_EQ(std::ranges::count(first, send_gradient, &Instruction::what), 0);
  EXPECT_EQ(std::ranges::count(first, backward, &Instruction::what), 2);
  EXPECT_EQ(training_program({.stages = 3}, 2, 2, 1), training_program({.stages = 3}, 2, 2));

  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(training_program({.stages = 3}, 2, stage, 3),
              forward_program({.stages = 3}, 2, stage));
  }
}

// The last of 3 stages: weight gradients of the first two microbatches wait while inputs come in.
TEST(Schedule, ZeroBubbleByHand) {
  const Program last = {
      {receive_activation, 0}, {forward, 0},          {input_gradients, 0},  {send_gradient, 0},
      {receive_activation, 1}, {forward, 1},          {input_gradients, 1},  {send_gradient, 1},
      {receive_activation, 2}, {forward, 2},          {input_gradients, 2},  {send_gradient, 2},
      {weight_gradients, 0},  //
      {receive_activation, 3}, {forward, 3},          {input_gradients, 3},  {send_gradient, 3},
      {weight_gradients, 1},   {weight_gradients, 2}, {weight_gradients, 3},
  };
  EXPECT_EQ(training_program({ScheduleKind::zero_bubble, 3}, 4, 2), last);
  EXPECT_EQ(training_program({ScheduleKind::zero_bubble, 3}, 4, 0),
            training_program({.stages = 3}, 4, 0));
}

TEST(Schedule, ZeroBubbleAtOnceFollowsTheGradientThatHasLeft) {
  const Program p =
      training_program({ScheduleKind::zero_bubble, 2, 1, WeightGradients::at_once}, 2, 1);
  const Program expected = {
      {receive_activation, 0},
      {forward, 0},
      {input_gradients, 0},
      {send_gradient, 0},
      {weight_gradients, 0},
      {receive_activation, 1},
      {forward, 1},
      {input_gradients, 1},
      {send_gradient, 1},
      {weight_gradients, 1},
  };
  EXPECT_EQ(p, expected);
}

// Stages before the first that trains run no backward, and lateness counts from it.
TEST(Schedule, ZeroBubbleOfFrozenStages) {
  EXPECT_EQ(training_program({ScheduleKind::zero_bubble, 3}, 4, 0, 1),
            forward_program({.stages = 3}, 4, 0));
  EXPECT_EQ(training_program({ScheduleKind::zero_bubble, 3}, 4, 1, 1),
            training_program({.stages = 3}, 4, 1, 1));
  const Program last = training_program({ScheduleKind::zero_bubble, 3}, 4, 2, 1);
  const auto second = std::ranges::find(last, Instruction{input_gradients, 1});
  EXPECT_EQ(*(second + 2), (Instruction{weight_gradients, 0}));
}

// Two stages of two chunks: chunk 0 of the last stage goes on in chunk 1 of the first.
TEST(Schedule, InterleavedByHand) {
  const Program first = {
      {forward, 0},
      {send_activation, 0},  //
      {forward, 1},
      {send_activation, 1},  //
      {receive_activation, 0, 1},
      {forward, 0, 1},
      {send_activation, 0, 1},  //
      {receive_activation, 1, 1},
      {forward, 1, 1},
      {send_activation, 1, 1},  //
      {receive_gradient, 0, 1},
      {backward, 0, 1},
      {send_gradient, 0, 1},  //
      {receive_gradient, 1, 1},
      {backward, 1, 1},
      {send_gradient, 1, 1},  //
      {receive_gradient, 0},
      {backward, 0},  //
      {receive_gradient, 1},
      {backward, 1},
  };
  EXPECT_EQ(training_program({ScheduleKind::interleaved, 2, 2}, 2, 0), first);
  const Program last = {
      {receive_activation, 0},    {forward, 0},    {send_activation, 0},                         //
      {receive_activation, 1},    {forward, 1},    {send_activation, 1},                         //
      {receive_activation, 0, 1}, {forward, 0, 1}, {backward, 0, 1},     {send_gradient, 0, 1},  //
      {receive_activation, 1, 1}, {forward, 1, 1}, {backward, 1, 1},     {send_gradient, 1, 1},  //
      {receive_gradient, 0},      {backward, 0},   {send_gradient, 0},                           //
      {receive_gradient, 1},      {backward, 1},   {send_gradient, 1},
  };
  EXPECT_EQ(training_program({ScheduleKind::interleaved, 2, 2}, 2, 1), last);
}

// Two stages, folded: the second one goes on with its second chunk by itself, and the first one
// ends the microbatch's way. The second receives activation 2 before it reads it, since the
// gradient that it needs was sent later.
TEST(Schedule, FoldedByHand) {
  const Program first = {
      {forward, 0},
      {send_activation, 0},
      {forward, 1},
      {send_activation, 1},
      {forward, 2},
      {send_activation, 2},  //
      {receive_activation, 0, 1},
      {forward, 0, 1},
      {input_gradients, 0, 1},
      {send_gradient, 0, 1},
      {weight_gradients, 0, 1},  //
      {receive_activation, 1, 1},
      {forward, 1, 1},
      {input_gradients, 1, 1},
      {send_gradient, 1, 1},
      {weight_gradients, 1, 1},  //
      {receive_gradient, 0},
      {input_gradients, 0},
      {weight_gradients, 0},  //
      {receive_activation, 2, 1},
      {forward, 2, 1},
      {input_gradients, 2, 1},
      {send_gradient, 2, 1},
      {weight_gradients, 2, 1},  //
      {receive_gradient, 1},
      {input_gradients, 1},
      {weight_gradients, 1},
      {receive_gradient, 2},
      {input_gradients, 2},
      {weight_gradients, 2},
  };
  const Pipeline fold{ScheduleKind::zbv, 2, 2};
  EXPECT_EQ(training_program(fold, 3, 0), first);
  const Program last = {
      {receive_activation, 0},
      {forward, 0},
      {forward, 0, 1},
      {send_activation, 0, 1},  //
      {receive_activation, 1},
      {forward, 1},
      {forward, 1, 1},
      {send_activation, 1, 1},  //
      {receive_activation, 2},
      {receive_gradient, 0, 1},
      {input_gradients, 0, 1},
      {weight_gradients, 0, 1},  //
      {forward, 2},
      {input_gradients, 0},
      {send_gradient, 0},
      {weight_gradients, 0},  //
      {forward, 2, 1},
      {send_activation, 2, 1},
      {receive_gradient, 1, 1},
      {input_gradients, 1, 1},
      {weight_gradients, 1, 1},  //
      {input_gradients, 1},
      {send_gradient, 1},
      {receive_gradient, 2, 1},
      {input_gradients, 2, 1},  //
      {input_gradients, 2},
      {send_gradient, 2},
      {weight_gradients, 1},
      {weight_gradients, 2, 1},
      {weight_gradients, 2},
  };
  EXPECT_EQ(training_program(fold, 3, 1), last);
}

// One stage hands tensors from chunk to chunk without messages.
TEST(Schedule, InterleavedOnOneStage) {
  EXPECT_THAT(training_program({ScheduleKind::interleaved, 1, 2}, 1, 0),
              ElementsAre(Instruction{forward, 0}, Instruction{forward, 0, 1},
                          Instruction{backward, 0, 1}, Instruction{backward, 0}));
}

TEST(Schedule, ForwardOnlyGoesThroughTheChunksInGroups) {
  EXPECT_THAT(forward_program({ScheduleKind::interleaved, 1, 2}, 2, 0),
              ElementsAre(Instruction{forward, 0}, Instruction{forward, 0, 1},
                          Instruction{forward, 1}, Instruction{forward, 1, 1}));
  for (int stages = 1; stages <= 4; ++stages)
    for (int chunks = 1; chunks <= 3; ++chunks)
      for (int microbatches = 1; microbatches <= 9; ++microbatches) {
        for (const auto kind : {ScheduleKind::interleaved, ScheduleKind::zbv}) {
          if (kind == ScheduleKind::zbv && chunks != 2) continue;
          const Pipeline p{kind, stages, chunks};
          const auto all = forward_programs(p, microbatches);
          EXPECT_THAT(program_faults(route_of(p), all, microbatches), testing::IsEmpty());
          EXPECT_TRUE(stuck(route_of(p), all, {.sends = Sends::one_outstanding}).empty());
        }
      }
}

TEST(Schedule, SaysWhichChunksAndMicrobatchesItTakes) {
  using enum ScheduleKind;
  using testing::HasSubstr;
  EXPECT_EQ(pipeline_fault(ScheduleKind::interleaved, 4, 2, 8), "");
  EXPECT_EQ(pipeline_fault(ScheduleKind::zero_bubble, 4, 1, 3), "");
  EXPECT_THAT(pipeline_fault(ScheduleKind::zero_bubble, 4, 2),
              HasSubstr("parallel.chunks = 2 does not work with"));
  EXPECT_THAT(pipeline_fault(ScheduleKind::one_f_one_b, 4, 2),
              HasSubstr("parallel.chunks = 2 does not work with"));
  EXPECT_THAT(pipeline_fault(ScheduleKind::interleaved, 4, 1), HasSubstr("of 2 or more"));
  EXPECT_EQ(pipeline_fault(ScheduleKind::zbv, 4, 2, 3), "");
  EXPECT_THAT(pipeline_fault(ScheduleKind::zbv, 4, 1), HasSubstr("needs parallel.chunks of 2,"));
  EXPECT_THAT(pipeline_fault(ScheduleKind::zbv, 4, 3), HasSubstr("needs parallel.chunks of 2,"));
  EXPECT_THAT(
      pipeline_fault(ScheduleKind::interleaved, 4, 2, 6),
      HasSubstr(
          "needs a multiple of parallel.pipe = 4 microbatches per step, but each data rank has 6"));
}

TEST(Schedule, ForwardOnlyByHand) {
  EXPECT_THAT(forward_program({.stages = 3}, 2, 1),
              ElementsAre(Instruction{receive_activation, 0}, Instruction{forward, 0},
                          Instruction{send_activation, 0}, Instruction{receive_activation, 1},
                          Instruction{forward, 1}, Instruction{send_activation, 1}));
  EXPECT_THAT(forward_program({.stages = 1}, 1, 0), ElementsAre(Instruction{forward, 0}));
  EXPECT_TRUE(forward_program({.stages = 2}, 0, 1).empty());
}

TEST(Schedule, Names) {
  EXPECT_EQ(describe({send_gradient, 7}), "send_gradient 7");
  EXPECT_EQ(describe({forward, 7, 1}), "forward 7 of chunk 1");
}

}  // namespace trireme
