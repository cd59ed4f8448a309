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

}  // namespace
}  // namespace trireme
