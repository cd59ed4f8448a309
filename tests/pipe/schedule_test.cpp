#include "lib/pipe/schedule.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {
namespace {

using enum Do;
using testing::ElementsAre;

}  // namespace

TEST(Schedule, OneStageAlternates) {
  EXPECT_THAT(one_f_one_b(1, 2, 0), ElementsAre(Instruction{forward, 0}, Instruction{backward, 0},
                                                Instruction{forward, 1}, Instruction{backward, 1}));
}

TEST(Schedule, TwoStagesByHand) {
  EXPECT_THAT(one_f_one_b(2, 2, 0),
              ElementsAre(Instruction{forward, 0}, Instruction{send_activation, 0},
                          Instruction{forward, 1}, Instruction{send_activation, 1},
                          Instruction{receive_gradient, 0}, Instruction{backward, 0},
                          Instruction{receive_gradient, 1}, Instruction{backward, 1}));
  EXPECT_THAT(one_f_one_b(2, 2, 1),
              ElementsAre(Instruction{receive_activation, 0}, Instruction{forward, 0},
                          Instruction{backward, 0}, Instruction{send_gradient, 0},
                          Instruction{receive_activation, 1}, Instruction{forward, 1},
                          Instruction{backward, 1}, Instruction{send_gradient, 1}));
}

// The penultimate of 4 stages: one microbatch ahead, and each gradient leaves before the next input
// arrives.
TEST(Schedule, MiddleStageByHand) {
  const Program p = one_f_one_b(4, 3, 2);
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
  EXPECT_EQ(one_f_one_b(3, 2, 0, 1), forward_only(3, 2, 0));
  const Program first = one_f_one_b(3, 2, 1, 1);
  EXPECT_EQ(std::ranges::count(first, receive_gradient, &Instruction::what), 2);
  EXPECT_EQ(std::ranges::count(first, send_gradient, &Instruction::what), 0);
  EXPECT_EQ(std::ranges::count(first, backward, &Instruction::what), 2);
  EXPECT_EQ(one_f_one_b(3, 2, 2, 1), one_f_one_b(3, 2, 2));

  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(one_f_one_b(3, 2, stage, 3), forward_only(3, 2, stage));
  }
}

TEST(Schedule, ForwardOnlyByHand) {
  EXPECT_THAT(forward_only(3, 2, 1),
              ElementsAre(Instruction{receive_activation, 0}, Instruction{forward, 0},
                          Instruction{send_activation, 0}, Instruction{receive_activation, 1},
                          Instruction{forward, 1}, Instruction{send_activation, 1}));
  EXPECT_THAT(forward_only(1, 1, 0), ElementsAre(Instruction{forward, 0}));
  EXPECT_TRUE(forward_only(2, 0, 1).empty());
}

TEST(Schedule, Names) {
  EXPECT_EQ(describe({send_gradient, 7}), "send_gradient 7");
  EXPECT_EQ(describe({forward, 7, 1}), "forward 7 of chunk 1");
}

}  // namespace trireme
