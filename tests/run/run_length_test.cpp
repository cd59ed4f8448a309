#include "lib/run/run_length.hpp"

#include <gmock/gmock.h>

#include "lib/base/limits.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

// A checkpoint of more could be written, and would be refused when it is read.
TEST(RunLength, CountsNoMoreThanACheckpointMayHold) {
  TrainConfig t;
  t.batch = 4;
  const auto refusal = [&t](std::int64_t steps, const CheckpointMeta& meta) {
    t.steps = steps;
    return message_of<Error>([&] { require_countable(t, 8, meta); });
  };
  constexpr auto most = most_counted / (4 * 8);
  EXPECT_EQ(refusal(most, {}), "");
  EXPECT_THAT(refusal(most + 1, {}), testing::HasSubstr("more than 2^53 samples or tokens"));
  EXPECT_THAT(refusal(most_counted, {}), testing::HasSubstr("more than 2^53"));
  CheckpointMeta meta;
  meta.step = 10;
  meta.samples = most_counted - 4;
  meta.tokens = most_counted - 32;
  EXPECT_EQ(refusal(11, meta), "");
  EXPECT_THAT(refusal(12, meta), testing::HasSubstr("more than 2^53"));
  ++meta.tokens;
  EXPECT_THAT(refusal(11, meta), testing::HasSubstr("more than 2^53"));
  --meta.tokens;
  ++meta.samples;
  EXPECT_THAT(refusal(11, meta), testing::HasSubstr("more than 2^53"));
  EXPECT_EQ(refusal(10, meta), "");
}

TEST(RunLength, PhasesThatTheRunReads) {
  DataConfig data;
  data.context = 10;
  data.phases = {{3, 0, {}, {}}, {6, 0, {}, {}}, {12, 0, {}, {}}};
  TrainConfig t;
  t.batch = 8;
  t.batch_ramp = {"2 until 5 steps"};
  t.steps = 12;
  // Steps 0 to 4 have 2 samples, and steps 5 to 11 have 8.
  EXPECT_THAT(extents_of_phases(data, t, {}),
              testing::ElementsAre(PhaseExtent{0, 6, 0, 2}, PhaseExtent{6, 18, 3, 8},
                                   PhaseExtent{18, 66, 6, 8}));
  // In tokens, phases begin within steps.
  data.phases = {{0, 55, {}, {}}};
  EXPECT_THAT(extents_of_phases(data, t, {}),
              testing::ElementsAre(PhaseExtent{0, 6, 0, 2}, PhaseExtent{6, 66, 3, 8}));
  data.phases = {{0, 65, {}, {}}};
  EXPECT_THAT(extents_of_phases(data, t, {}),
              testing::ElementsAre(PhaseExtent{0, 7, 0, 2}, PhaseExtent{7, 66, 3, 8}));
  // After step 7, the first phase is over.
  CheckpointMeta meta;
  meta.step = 7;
  meta.samples = 26;
  meta.tokens = 260;
  EXPECT_THAT(extents_of_phases(data, t, meta), testing::ElementsAre(PhaseExtent{26, 66, 7, 8}));
  data.phases.clear();
  EXPECT_THAT(extents_of_phases(data, t, {}), testing::ElementsAre(PhaseExtent{0, 66, 0, 8}));
}

TEST(RunLength, StepsWithWhichPhasesBegin) {
  DataConfig data;
  data.context = 10;
  data.phases = {{0, 55, {}, {}}, {0, 250, {}, {}}};
  TrainConfig t;
  t.batch = 8;
  t.steps = 12;
  EXPECT_THAT(borders_of_phases(data, t, {}),
              testing::ElementsAre(PhaseBorder{0, 0}, PhaseBorder{1, 3}));
  // Earlier steps had 2 samples, so the second section begins later.
  CheckpointMeta meta;
  meta.step = 5;
  meta.samples = 10;
  meta.tokens = 100;
  EXPECT_THAT(borders_of_phases(data, t, meta), testing::ElementsAre(PhaseBorder{1, 6}));
  EXPECT_EQ(step_of_sample(ramp_after(meta, t, 10), meta, 10), 5);
  EXPECT_EQ(step_of_sample(ramp_after(meta, t, 10), meta, 18), 6);
}

}  // namespace
}  // namespace trireme
