#include "tests/support/program_checker.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "tests/pipe/programs.hpp"

namespace trireme {
namespace {

using enum Do;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// Stages in a ring.
std::vector<std::string> program_faults(const std::vector<Program>& programs, int microbatches,
                                        int chunks = 1) {
  return program_faults(ring_of(static_cast<int>(programs.size()), chunks), programs, microbatches);
}

// Two stages and two microbatches after `edit`.
template <class F>
std::vector<std::string> faults_after(F edit) {
  auto programs = training_programs(2, 2);
  edit(programs);
  return program_faults(programs, 2);
}

}  // namespace

TEST(Checker, AllSchedulesAreSound) {
  for_each_schedule([](const Schedule& s) {
    ASSERT_THAT(program_faults(s.route(), s.programs, s.microbatches), IsEmpty()) << s;
  });
}

// So that gradients are summed in the order of microbatches.
TEST(Checker, WorkRunsInTheSameOrderOnEveryStage) {
  for_each_schedule([](const Schedule& s) {
    for (const auto& p : s.programs) {
      std::map<std::pair<Do, int>, int> next;  // microbatch, by kind and chunk
      for (const auto& i : p)
        if (computes(i.what)) {
          ASSERT_EQ(i.microbatch, (next[{i.what, i.chunk}]++)) << s;
        }
    }
  });
}

TEST(Checker, StagesHoldExactlyTheirInputs) {
  for_each_schedule([](const Schedule& s) {
    for (int stage = 0; stage < s.pipe.stages; ++stage) {
      const PeakHeld peak = peak_in_flight(s.programs[static_cast<std::size_t>(stage)]);
      ASSERT_EQ(peak.inputs, s.inputs(stage)) << s << ", stage " << stage;
      ASSERT_EQ(peak.weights, s.weights(stage)) << s << ", stage " << stage;
      ASSERT_LE(peak.arriving, s.arriving(stage)) << s << ", stage " << stage;
      ASSERT_LE(peak.leaving, 1);
    }
  });
}

// What the traits of its schedule promise.
TEST(Checker, SchedulesAreAsTheirTraitsSay) {
  for_each_schedule([](const Schedule& s) {
    const auto& traits = traits_of(s.pipe.schedule);
    std::vector<PeakHeld> peaks;
    for (const auto& p : s.programs) peaks.push_back(peak_in_flight(p));
    for (std::size_t i = 1; traits.earlier_holds_most && s.first == 0 && i < peaks.size(); ++i)
      ASSERT_TRUE(peaks[i].inputs <= peaks[i - 1].inputs && peaks[i].weights == 0) << s;
    const auto few = static_cast<int>(microbatches_held(s.pipe, s.microbatches));
    const Schedule shorter(s.pipe, few, s.first);
    for (std::size_t i = 0; i < peaks.size(); ++i)
      ASSERT_EQ(peak_in_flight(shorter.programs[i]), peaks[i]) << s;
  });
}

// Buffers taken in turn (microbatch modulo their number) are never overwritten: neither an input
// that backward still needs nor a gradient that is still to be sent.
TEST(Checker, BuffersInTurnAreFreeWhenTheirTurnComes) {
  for_each_schedule([](const Schedule& s) {
    if (s.pipe.chunks > 1) return;
    for (int stage = 0; stage < s.pipe.stages; ++stage) {
      const Program& p = s.programs[static_cast<std::size_t>(stage)];
      const InputLife life = input_life(p);
      std::vector<char> taken(static_cast<std::size_t>(s.inputs(stage)), 0);
      for (const auto& i : p) {
        char& mine = taken[static_cast<std::size_t>(i.microbatch) % taken.size()];
        if (i.what == life.begins) {
          ASSERT_FALSE(mine) << "overwritten";
          mine = 1;
        }
        if (i.what == life.ends) mine = 0;
      }
    }
  });
}

TEST(Checker, AReceiveBeforeTheGradientHasLeftTakesOneMore) {
  const auto late = gradients_sent_late(training_programs(4, 8));
  EXPECT_EQ(peak_in_flight(late[0]).inputs, 4);
  for (int stage = 1; stage < 4; ++stage) {
    EXPECT_EQ(peak_in_flight(late[static_cast<std::size_t>(stage)]).inputs, 4 - stage + 1);
  }
}

TEST(Checker, CountsWhatArrivesAndLeaves) {
  EXPECT_EQ(peak_in_flight({}), PeakHeld{});
  EXPECT_EQ(peak_in_flight({{receive_activation, 0},
                            {receive_activation, 1},
                            {forward, 0},
                            {forward, 1},
                            {send_activation, 0},
                            {send_activation, 1}}),
            (PeakHeld{.inputs = 2, .arriving = 2, .leaving = 2}));
  EXPECT_EQ(peak_in_flight({{forward, 0}, {forward, 1}}), (PeakHeld{.inputs = 1}));
}

TEST(Checker, NamesWhatIsMissingTwiceOrTooMuch) {
  EXPECT_THAT(faults_after([](auto& p) {
                std::erase(p[0], Instruction{backward, 1});
              }),
              ElementsAre("stage 0: backward 1 is missing"));
  EXPECT_THAT(faults_after([](auto& p) {
                p[1].push_back({forward, 1});
              }),
              ElementsAre("stage 1: forward 1 comes twice"));
  EXPECT_THAT(faults_after([](auto& p) {
                p[1].push_back({send_activation, 1});
              }),
              ElementsAre("stage 1: send_activation 1 has no counterpart"));
  EXPECT_THAT(faults_after([](auto& p) {
                p[0].push_back({forward, 2});
              }),
              ElementsAre("stage 0: forward 2 is of no microbatch of this step"));
  EXPECT_THAT(faults_after([](auto& p) {
                p[0].push_back({forward, 1, 1});
              }),
              ElementsAre("stage 0: forward 1 of chunk 1 is of no microbatch of this step"));
  // A schedule has one kind of backward.
  EXPECT_THAT(faults_after([](auto& p) {
                p[0].push_back({weight_gradients, 1});
              }),
              ElementsAre("stage 0: weight_gradients 1 has no counterpart"));
}

// Of two stages and two microbatches in halves.
template <class F>
static std::vector<std::string> halves_after(F edit) {
  Schedule s({ScheduleKind::zero_bubble, 2}, 2, 0);
  edit(s.programs[1]);
  return program_faults(s.programs, 2);
}

TEST(Checker, NamesWeightGradientsThatAreLostTwiceOrTooEarly) {
  EXPECT_THAT(halves_after([](auto& p) {
                std::erase(p, Instruction{weight_gradients, 1});
              }),
              ElementsAre("stage 1: weight_gradients 1 is missing"));
  EXPECT_THAT(halves_after([](auto& p) {
                p.push_back({weight_gradients, 1});
              }),
              ElementsAre("stage 1: weight_gradients 1 comes twice"));
  EXPECT_THAT(halves_after([](auto& p) {
                std::iter_swap(std::ranges::find(p, Instruction{input_gradients, 1}),
                               std::ranges::find(p, Instruction{weight_gradients, 1}));
              }),
              testing::Contains("stage 1: weight_gradients 1 comes before input_gradients 1"));
  EXPECT_THAT(halves_after([](auto& p) {
                p.push_back({backward, 1});
              }),
              ElementsAre("stage 1: backward 1 has no counterpart"));
}

TEST(Checker, NamesMessagesThatDoNotMatch) {
  EXPECT_THAT(faults_after([](auto& p) {
                std::erase(p[1], Instruction{receive_activation, 1});
              }),
              UnorderedElementsAre("stage 1: receive_activation 1 is missing",
                                   "stage 0 has send_activation 1 where stage 1 receives nothing "
                                   "(message 1 down)"));
  // Both gradients sent in the wrong order.
  EXPECT_THAT(faults_after([](auto& p) {
                auto& q = p[1];
                std::erase_if(q, [](const auto& i) { return i.what == send_gradient; });
                q.push_back({send_gradient, 1});
                q.push_back({send_gradient, 0});
              }),
              ElementsAre("stage 1 has send_gradient 1 where stage 0 receives send_gradient 0 "
                          "(message 0 up)"));
}

TEST(Checker, NamesWhatComesTooEarly) {
  const std::pair<Do, Do> orders[] = {{receive_activation, forward},
                                      {forward, send_activation},
                                      {forward, backward},
                                      {receive_gradient, backward},
                                      {backward, send_gradient}};
  for (const auto& [first, second] : orders) {
    auto programs = training_programs(3, 2);
    Program& p = programs[1];
    std::iter_swap(std::ranges::find(p, Instruction{first, 1}),
                   std::ranges::find(p, Instruction{second, 1}));
    EXPECT_THAT(program_faults(programs, 2),
                testing::Contains(fmt::format("stage 1: {} 1 comes before {} 1", name_of(second),
                                              name_of(first))));
  }
}

// Chunk 0 of the last stage sends to the first one's chunk 1.
TEST(Checker, NamesChunksWhoseMessagesDoNotMatch) {
  const Schedule good({ScheduleKind::interleaved, 2, 2}, 2, 0);
  EXPECT_THAT(program_faults(good.programs, 2, 2), IsEmpty());

  auto programs = good.programs;
  auto& p = programs[1];
  std::swap(*std::ranges::find(p, Instruction{send_activation, 0, 0}),
            *std::ranges::find(p, Instruction{send_activation, 1, 0}));
  EXPECT_THAT(program_faults(programs, 2, 2),
              testing::Contains("stage 1 has send_activation 1 where stage 0 receives "
                                "send_activation 0 (message 0 down)"));

  EXPECT_THAT(program_faults(good.programs, 2, 3),
              testing::Contains("stage 0: forward 0 of chunk 2 is missing"));
}

// Down comes what a stage sends forward in its first chunk and backward in its second.
TEST(Checker, NamesMessagesOfAFoldThatOvertake) {
  Schedule s({ScheduleKind::zbv, 2, 2}, 3, 0);
  auto& p = s.programs[1];
  std::swap(*std::ranges::find(p, Instruction{receive_activation, 2}),
            *std::ranges::find(p, Instruction{receive_gradient, 0, 1}));
  EXPECT_THAT(program_faults(s.route(), s.programs, 3),
              ElementsAre("stage 0 has send_activation 2 where stage 1 receives send_gradient 0 of "
                          "chunk 1 (message 2 down)"));
  std::iter_swap(std::ranges::find(p, Instruction{forward, 1}),
                 std::ranges::find(p, Instruction{forward, 1, 1}));
  EXPECT_THAT(program_faults(s.route(), s.programs, 3),
              testing::Contains("stage 1: forward 1 of chunk 1 comes before forward 1"));
}

TEST(Checker, TrainedStagesHaveNoFrozenOneBelow) {
  auto programs = training_programs(2, 1);
  programs[1] = forward_program({.stages = 2}, 1, 1);
  EXPECT_THAT(program_faults(programs, 1), testing::Contains("stage 1: backward 0 is missing"));
}

}  // namespace trireme
