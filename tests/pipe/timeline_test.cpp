#include "lib/pipe/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "lib/base/error.hpp"
#include "tests/pipe/programs.hpp"
#include "tests/support/message_of.hpp"

namespace trireme {
namespace {

using enum Do;
using testing::HasSubstr;
using testing::Not;

Timeline timeline(const std::vector<Program>& programs, StageCost cost = {}) {
  return make_timeline({.stages = static_cast<int>(programs.size())}, programs,
                       std::vector<StageCost>(programs.size(), cost));
}
// Of chunks that take `part` of a stage's time.
Timeline timeline(const Schedule& s, double part) {
  return make_timeline(s.pipe, s.programs,
                       std::vector<StageCost>(static_cast<std::size_t>(s.pipe.virtual_stages()),
                                              {part, 2 * part, part}));
}

}  // namespace

TEST(Timeline, TwoStagesByHand) {
  const Timeline t = timeline(training_programs(2, 3));
  EXPECT_EQ(t.end, 12);
  EXPECT_EQ(timeline_text(t),
            "stage 0 0>1>....0<<<2>1<<<..2<<<\n"
            "stage 1 ..0>0<<<1>1<<<2>2<<<....\n"
            "m> forward, m< backward of microbatch m, . idle\n");
}

TEST(Timeline, FrozenStagesRunAheadAndForwardOnlyHasNoBackward) {
  EXPECT_EQ(timeline_text(timeline(training_programs(2, 2, 1))),
            "stage 0 0>1>..........\n"
            "stage 1 ..0>0<<<1>1<<<\n"
            "m> forward, m< backward of microbatch m, . idle\n");
  EXPECT_EQ(timeline_text(timeline(forward_programs(2, 2))),
            "stage 0 0>1>..\n"
            "stage 1 ..0>1>\n"
            "m> forward of microbatch m, . idle\n");
}

TEST(Timeline, StagesOfDifferentCosts) {
  const std::vector<StageCost> costs = {{1, 2}, {2, 3}};
  const Timeline t = make_timeline({.stages = 2}, training_programs(2, 1), costs);
  EXPECT_EQ(timeline_text(t),
            "stage 0 0>..........0<<<\n"
            "stage 1 ..0>>>0<<<<<....\n"
            "m> forward, m< backward of microbatch m, . idle\n");
  EXPECT_DOUBLE_EQ(bubble(t), 0.5);
}

// Narayanan et al. 2021, section 2.2: (S-1)/M of the useful time, so (S-1)/(M+S-1) of all time.
TEST(Timeline, BubbleOfEqualStages) {
  for (int stages = 1; stages <= 12; ++stages) {
    for (int microbatches = 1; microbatches <= 24; ++microbatches) {
      const double expected = (stages - 1.0) / (microbatches + stages - 1);
      // Fewer than 1,000 sums of numbers below 1,000: rounding stays under 1e-12.
      ASSERT_NEAR(bubble(timeline(training_programs(stages, microbatches), {1, 2.3})), expected,
                  1e-12)
          << stages << " stages, " << microbatches << " microbatches";
      ASSERT_NEAR(bubble(timeline(forward_programs(stages, microbatches))), expected, 1e-12);
    }
  }
}

// Qi et al. 2024, section 2.2: (S-1)(F + B - W), of which F = B = W.
TEST(Timeline, BubbleOfZeroBubble) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int microbatches = stages; microbatches <= 32; ++microbatches) {
      const Schedule s({ScheduleKind::zero_bubble, stages}, microbatches, 0);
      const double idle = stages - 1, work = 3.0 * microbatches;
      ASSERT_NEAR(bubble(timeline(s.programs)), idle / (work + idle), 1e-12) << s;
    }
}

// With weight gradients at once gradients still leave before them: (S-1)(F + B).
TEST(Timeline, BubbleOfZeroBubbleAtOnce) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int microbatches = 1; microbatches <= 32; ++microbatches) {
      const Schedule s({ScheduleKind::zero_bubble, stages, 1, WeightGradients::at_once},
                       microbatches, 0);
      const double idle = 2.0 * (stages - 1), work = 3.0 * microbatches;
      ASSERT_NEAR(bubble(timeline(s.programs)), idle / (work + idle), 1e-12) << s;
    }
}

// Narayanan et al. 2021, section 2.2: 1F1B's divided by the number of chunks.
TEST(Timeline, BubbleOfInterleaved) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int chunks = 2; chunks <= 4; ++chunks)
      for (int microbatches = stages; microbatches <= 32; microbatches += stages) {
        const Schedule s({ScheduleKind::interleaved, stages, chunks}, microbatches, 0);
        const double idle = 3.0 * (stages - 1) / chunks, work = 3.0 * microbatches;
        ASSERT_NEAR(bubble(timeline(s, 1.0 / chunks)), idle / (work + idle), 1e-12) << s;
      }
}

// Qi et al. 2024: no stage idles between its first work and its last. What is left is that the
// first microbatch takes (S-1) F to come down, of chunks of half a stage: no schedule of these
// chunks has less, where the step is over for all stages at once. At once, as many gradients wait
// for W.
TEST(Timeline, BubbleOfAFold) {
  for (int stages = 1; stages <= 8; ++stages)
    for (int microbatches = 2 * stages - 1; microbatches <= 32; ++microbatches) {
      const Schedule s({ScheduleKind::zbv, stages, 2}, microbatches, 0);
      const auto t = timeline(s, 1);
      for (const auto& spans : t.stages)
        ASSERT_EQ(spans.back().end - spans.front().begin, 6 * microbatches) << s;
      const double idle = stages - 1, work = 6.0 * microbatches;
      ASSERT_NEAR(bubble(t), idle / (work + idle), 1e-12) << s;
      const Schedule at_once({ScheduleKind::zbv, stages, 2, WeightGradients::at_once}, microbatches,
                             0);
      ASSERT_NEAR(bubble(timeline(at_once, 1)), 2 * idle / (work + 2 * idle), 1e-12) << at_once;
    }
}

// Eight stages and 32 microbatches, in percent.
TEST(Timeline, BubblesBesideEachOther) {
  const auto percent = [](const Pipeline& p) {
    return 100 * bubble(timeline(Schedule(p, 32, 0), 1.0 / p.chunks));
  };
  EXPECT_NEAR(percent({ScheduleKind::one_f_one_b, 8}), 17.9, 0.05);
  EXPECT_LE(percent({ScheduleKind::zero_bubble, 8}), 7);
  EXPECT_LE(percent({ScheduleKind::interleaved, 8, 4}), 6);
  EXPECT_LE(percent({ScheduleKind::zbv, 8, 2}), 4);
}

TEST(Timeline, ZeroBubbleByHand) {
  const Schedule s({ScheduleKind::zero_bubble, 2}, 3, 0);
  EXPECT_EQ(timeline_text(timeline(s.programs)),
            "stage 0 0>1>..0<<<2>1<<<2<<<\n"
            "stage 1 ..0>0<1>1<0w2>2<1w2w\n"
            "m> forward, m< backward, mw its weight gradients of microbatch m, . idle\n");
}

TEST(Timeline, InterleavedByHand) {
  const Schedule s({ScheduleKind::interleaved, 2, 2}, 2, 0);
  EXPECT_EQ(timeline_text(timeline(s, 1)),
            "stage 0 0>1>0>1>....0<<<..1<<<0<<<1<<<\n"
            "stage 1 ..0>1>0>0<<<1>1<<<0<<<1<<<....\n"
            "m> forward, m< backward of microbatch m, once per chunk, . idle\n");
}

TEST(Timeline, FoldByHand) {
  const Schedule s({ScheduleKind::zbv, 2, 2}, 3, 0);
  EXPECT_EQ(
      timeline_text(timeline(s, 1)),
      "stage 0 0>1>2>0>0<0w1>1<1w0<0w2>2<2w1<1w2<2w..\n"
      "stage 1 ..0>0>1>1>0<0w2>0<0w2>1<1w1<2<2<1w2w2w\n"
      "m> forward, m< backward, mw its weight gradients of microbatch m, once per chunk, . idle\n");
}

TEST(Timeline, SpansFollowEachOtherAndTheirMessages) {
  const std::vector<StageCost> costs = {{1, 2.5}, {1.5, 2}, {0.5, 3}, {1, 1}};
  const Timeline t = make_timeline({.stages = 4}, training_programs(4, 7), costs);
  const auto end_of = [&](std::size_t stage, Do what, int m) {
    for (const auto& span : t.stages.at(stage)) {
      if (span.what == Instruction{what, m}) return span.end;
    }
    return -1.0;
  };
  for (std::size_t s = 0; s < 4; ++s) {
    double now = 0;
    ASSERT_EQ(t.stages[s].size(), 14U);
    for (const auto& [what, begin, end] : t.stages[s]) {
      EXPECT_GE(begin, now);
      now = end;
      if (what.what == forward && s > 0) {
        EXPECT_GE(begin, end_of(s - 1, forward, what.microbatch));
      }
      if (what.what == backward && s < 3) {
        EXPECT_GE(begin, end_of(s + 1, backward, what.microbatch));
      }
    }
  }
}

TEST(Timeline, TextKeepsToItsColumns) {
  for (const int columns : {70, 100}) {
    const std::string text = timeline_text(timeline(training_programs(12, 24)), columns);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), static_cast<std::size_t>(columns)) << line;
    }
    EXPECT_THAT(text, HasSubstr("stage 11 ...."));
    EXPECT_THAT(text, HasSubstr("(its last digit)"));
  }
  // 35 forwards and backwards of 2 and 4 columns; 91 of 100 are left for them.
  EXPECT_THAT(timeline_text(timeline(training_programs(12, 24))),
              HasSubstr("cut after 43% of 24 microbatches\n"));
  EXPECT_THAT(timeline_text(timeline(training_programs(4, 8))), Not(HasSubstr("cut")));
}

TEST(Timeline, EmptyProgramsAndStuckOnes) {
  EXPECT_EQ(bubble(timeline(training_programs(2, 0))), 0);
  EXPECT_EQ(timeline_text(timeline(forward_programs(2, 0))),
            "stage 0 \nstage 1 \nm> forward of microbatch m, . idle\n");
  auto programs = training_programs(2, 1);
  programs[1].clear();
  EXPECT_THAT(message_of([&] { timeline(programs); }),
              HasSubstr("never finish: stage 0 waits for receive_gradient 0"));
}

}  // namespace trireme
