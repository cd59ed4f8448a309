#include "lib/train/batch_ramp.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lib/base/error.hpp"
#include "lib/base/limits.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

TrainConfig with_ramp(std::vector<std::string> ramp) {
  TrainConfig t;
  t.batch = 12;
  t.batch_ramp = std::move(ramp);
  return t;
}

// Counts one step after the other.
struct Counter {
  bool in_tokens;
  std::int64_t steps = 0, samples = 0, tokens = 0;
  std::int64_t batch(std::int64_t context, std::int64_t first, std::int64_t second) {
    const auto done = in_tokens ? tokens : steps;
    const std::int64_t b = done < first ? 2 : done < second ? 5 : 12;
    ++steps;
    samples += b;
    tokens += b * context;
    return b;
  }
};

constexpr std::int64_t context = 8;

TEST(BatchRamp, HasTheBatchesThatACounterFinds) {
  for (const bool in_tokens : {false, true}) {
    const std::int64_t first = in_tokens ? 100 : 7, second = in_tokens ? 701 : 19;
    const auto unit = in_tokens ? "tokens" : "steps";
    const auto t = with_ramp(
        {fmt::format("2 until {} {}", first, unit), fmt::format("5 until {} {}", second, unit)});
    const BatchRamp ramp(t, context);
    Counter counter{in_tokens};
    for (std::int64_t step = 0; step < 60; ++step) {
      ASSERT_EQ(ramp.samples(0, step), counter.samples) << step;
      ASSERT_EQ(ramp.point(step), (RunPoint{step, counter.tokens})) << step;
      const auto samples = counter.samples;
      const auto batch = counter.batch(context, first, second);
      ASSERT_EQ(ramp.batch(step), batch) << step;
      ASSERT_EQ(ramp.samples(step, step + 1), batch);
      for (const auto more : {std::int64_t{1}, batch})
        ASSERT_EQ(ramp.steps_for(samples + more), step + 1) << step;
    }
    EXPECT_EQ(ramp.steps_for(0), 0);
  }
}

// A restart at any step goes on with the same batches.
TEST(BatchRamp, ContinuesFromEachPoint) {
  for (const auto& texts : {std::vector<std::string>{"2 until 7 steps", "5 until 19 steps"},
                            {"2 until 100 tokens", "5 until 701 tokens"}}) {
    const BatchRamp whole(with_ramp(texts), context);
    for (std::int64_t begin = 0; begin < 40; ++begin) {
      const BatchRamp rest(with_ramp(texts), context, whole.point(begin));
      for (std::int64_t step = begin; step < 50; ++step) {
        ASSERT_EQ(rest.batch(step), whole.batch(step));
        ASSERT_EQ(rest.point(step), whole.point(step));
        ASSERT_EQ(rest.next_change(step), whole.next_change(step));
      }
      ASSERT_EQ(rest.samples(begin, 50), whole.samples(begin, 50));
    }
  }
}

TEST(BatchRamp, OfAnotherDeckChangesTheFutureOnly) {
  auto t = with_ramp({"2 until 30 steps"});
  const BatchRamp rest(t, context, {10, 12345});
  EXPECT_EQ(rest.point(10), (RunPoint{10, 12345}));
  EXPECT_EQ(rest.point(8), (RunPoint{8, 12345 - 2 * 2 * context}));
  EXPECT_EQ(rest.point(31), (RunPoint{31, 12345 + 20 * 2 * context + 12 * context}));
  EXPECT_EQ(rest.next_change(10), 30);
  EXPECT_EQ(rest.next_change(30), std::numeric_limits<std::int64_t>::max());
}

TEST(BatchRamp, DecidesTheLengthOfARun) {
  auto t = with_ramp({"2 until 7 steps", "5 until 19 steps"});
  t.steps = 25;
  EXPECT_EQ(total_steps(t, context), 25);
  EXPECT_EQ(end_of_run(t, context), (RunPoint{25, (7 * 2 + 12 * 5 + 6 * 12) * context}));
  t.steps = 0;
  for (std::int64_t tokens = 1; tokens < 1500; ++tokens) {
    t.tokens = tokens;
    std::int64_t steps = 0;
    for (std::int64_t there = 0; there < tokens; ++steps)
      there += context * (steps < 7 ? 2 : steps < 19 ? 5 : 12);
    ASSERT_EQ(total_steps(t, context), steps) << tokens;
    ASSERT_EQ(total_steps(t, context, BatchRamp(t, context).point(3)),
              std::max<std::int64_t>(3, steps));
  }
}

TEST(BatchRamp, CountsOfEndlessRunsAreTheLargestNumber) {
  TrainConfig t;
  t.batch = 1 << 24;
  const BatchRamp ramp(t, 1 << 20);
  EXPECT_EQ(ramp.samples(0, most_counted), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(ramp.point(most_counted).tokens, std::numeric_limits<std::int64_t>::max());
}

TEST(BatchRamp, TextsAreParsed) {
  const std::vector<std::string> texts{"16 until 1000 steps", "32 until 3e3 steps"};
  EXPECT_EQ(parse_batch_ramp(texts),
            (std::vector<RampLevel>{{16, 1000, RampUnit::steps}, {32, 3000, RampUnit::steps}}));
  EXPECT_EQ(batches_of(with_ramp({"2 until 5e9 tokens"})), (std::vector<std::int64_t>{2, 12}));
  EXPECT_EQ(common_batch(with_ramp({"4 until 5e9 tokens", "6 until 6e9 tokens"})), 2);
  for (const auto* wrong :
       {"", "16", "16 until 1000", "0 until 9 steps", "16 until 0 steps", "1.5 until 9 steps",
        "16 till 9 steps", "16 until 9 samples", "16  until 9 steps", "-2 until 9 steps",
        "nan until 9 steps", "16 until 1e17 tokens"})
    EXPECT_THAT(message_of<Error>([&] { parse_batch_ramp(std::vector<std::string>{wrong}); }),
                testing::HasSubstr("is not a batch with the end of its steps"))
        << wrong;
  const auto refusal = [](std::vector<std::string> two) {
    return message_of<Error>([&] { parse_batch_ramp(two); });
  };
  EXPECT_THAT(refusal({"16 until 9 steps", "16 until 19 steps"}),
              testing::HasSubstr("larger batch"));
  EXPECT_THAT(refusal({"16 until 9 steps", "32 until 9 steps"}), testing::HasSubstr("later end"));
  EXPECT_THAT(refusal({"16 until 9 steps", "32 until 19 tokens"}),
              testing::HasSubstr("different units: use steps"));
}

}  // namespace
}  // namespace trireme
