#include "tests/support/deadlock.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipe/programs.hpp"

namespace trireme {
namespace {

using enum Do;

std::vector<int> exact_sets(const Schedule& s) {
  std::vector<int> sets;
  for (int stage = 0; stage < s.pipe.stages; ++stage) sets.push_back(s.inputs(stage));
  return sets;
}

// Stages in a row, of one chunk each.
std::vector<Wait> stuck(const std::vector<Program>& programs, const Execution& e) {
  return stuck(ring_of(static_cast<int>(programs.size())), programs, e);
}

bool finishes(const Schedule& s, const Execution& e) {
  return stuck(s.route(), s.programs, e).empty();
}

}  // namespace

TEST(Deadlock, PostedSendsFinishInTheirBuffers) {
  for_each_schedule([](const Schedule& s) {
    for (const Sends sends : {Sends::posted, Sends::one_outstanding}) {
      ASSERT_TRUE(finishes(s, {.sends = sends})) << s;
      ASSERT_TRUE(finishes(s, {.sends = sends, .sets = exact_sets(s)})) << s;
    }
  });
}

TEST(Deadlock, BlockingSendsStickWhereMessagesCross) {
  for_each_schedule([](const Schedule& s) {
    if (s.pipe.chunks > 1) return;
    ASSERT_EQ(finishes(s, {.sends = Sends::blocking}), !s.alternates()) << s;
  });
}

TEST(Deadlock, OneSetFewerAnywhereSticks) {
  for_each_schedule([](const Schedule& s) {
    for (std::size_t stage = 0; stage < s.programs.size(); ++stage) {
      Execution e{.sets = exact_sets(s)};
      --e.sets[stage];
      ASSERT_FALSE(finishes(s, e)) << s << ", one fewer on stage " << stage;
    }
  });
}

// Device queues block on their messages: down and up need one each. Around a ring of chunks they
// would wait for each other, not where chunks are folded.
TEST(Deadlock, DeviceQueuesFinishWithOneADirection) {
  for_each_schedule([](const Schedule& s) {
    if (s.pipe.through_host() && s.pipe.schedule == ScheduleKind::interleaved) return;
    for (const Sends sends : {Sends::blocking, Sends::one_outstanding, Sends::posted}) {
      const Execution split{.sends = sends, .queues = Queues::split, .sets = exact_sets(s)};
      ASSERT_TRUE(finishes(s, split)) << s;
    }
    if (s.pipe.chunks > 1) return;
    const Execution joint{.sends = Sends::blocking, .queues = Queues::joint};
    ASSERT_EQ(finishes(s, joint), !s.alternates()) << s;
  });
}

TEST(Deadlock, DeviceQueuesOfARingOfChunksStick) {
  const Schedule s({ScheduleKind::interleaved, 2, 2}, 2, 0);
  EXPECT_FALSE(finishes(s, {.sends = Sends::blocking, .queues = Queues::split}));
}

TEST(Deadlock, AReceiveBeforeTheGradientHasLeftFindsNoRoom) {
  const auto programs = gradients_sent_late(training_programs(4, 8));
  EXPECT_EQ(stuck(programs, {.sets = {4, 4, 3, 2}}).size(), 0U);
  for (const std::size_t stage : {1U, 2U, 3U}) {
    Execution e{.sets = {4, 4, 3, 2}};
    --e.sets[stage];
    EXPECT_THAT(describe(stuck(programs, e)),
                testing::HasSubstr(fmt::format("stage {}: receive_activation {} waits for room",
                                               stage, 4 - stage)));
  }
}

TEST(Deadlock, SaysWhoWaitsForWhat) {
  const auto programs = training_programs(2, 2);
  EXPECT_EQ(describe(stuck(programs, {.sends = Sends::blocking})),
            "stage 0: send_activation 1 waits for stage 1 to receive it, which stands at "
            "send_gradient 0\n"
            "stage 1: send_gradient 0 waits for stage 0 to receive it, which stands at "
            "send_activation 1");
  EXPECT_EQ(describe(stuck(programs, {.sets = {1, 1}})),
            "stage 0: forward 1 waits for room for one more input\n"
            "stage 1: receive_activation 1 waits for stage 0 to send it, which stands at "
            "forward 1");
  EXPECT_EQ(describe(stuck(programs, {.sends = Sends::posted})), "");
}

TEST(Deadlock, SaysWhatUnsoundProgramsWaitFor) {
  EXPECT_EQ(describe(stuck(std::vector<Program>{{{receive_activation, 0}}}, {})),
            "stage 0: receive_activation 0 waits for a stage that does not exist");
  EXPECT_EQ(describe(stuck(std::vector<Program>{{}, {{receive_activation, 0}}}, {})),
            "stage 1: receive_activation 0 waits for stage 0 to send it, which has ended");
  EXPECT_EQ(describe(stuck(std::vector<Program>{{{send_activation, 0}, {forward, 0}}, {}}, {})),
            "stage 0: send_activation 0 waits for its own forward 0");
  const std::vector<Program> unread = {{{send_activation, 0}, {send_activation, 1}}, {}};
  EXPECT_EQ(describe(stuck(unread, {.sends = Sends::posted})), "");
  EXPECT_EQ(describe(stuck(unread, {.sends = Sends::one_outstanding})),
            "stage 0: send_activation 1 waits for stage 1 to receive the one before, which has "
            "ended");
}

TEST(Deadlock, BlockingSendsWaitForRoomAtTheirReceiver) {
  const auto programs = forward_programs(2, 1);
  EXPECT_EQ(describe(stuck(programs, {.sends = Sends::blocking, .sets = {1, 1}})), "");
  EXPECT_EQ(describe(stuck(programs, {.sends = Sends::blocking, .sets = {1, 0}})),
            "stage 0: send_activation 0 waits for stage 1 to receive it, which stands at "
            "receive_activation 0\n"
            "stage 1: receive_activation 0 waits for room for one more input");
}

// In-order device queues: what does not wait for a message overtakes what does.
TEST(Deadlock, QueuesRunPastEachOther) {
  const std::vector<Program> programs = {{{receive_gradient, 0}, {forward, 0}, {backward, 0}}, {}};
  EXPECT_EQ(stuck(programs, {.queues = Queues::host}).size(), 1U);
  EXPECT_EQ(describe(stuck(programs, {.queues = Queues::split})),
            "stage 0: backward 0 waits for its own receive_gradient 0\n"
            "stage 0: receive_gradient 0 waits for stage 1 to send it, which has ended");
}

}  // namespace trireme
