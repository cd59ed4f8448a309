#include "lib/deck/microbatch.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace trireme {

TEST(Microbatch, OfPipelines) {
  EXPECT_EQ(default_microbatch(24, 24, 1), 24);
  EXPECT_EQ(default_microbatch(24, 24, 2), 6);   // 4 of them
  EXPECT_EQ(default_microbatch(24, 24, 4), 3);   // 8
  EXPECT_EQ(default_microbatch(24, 24, 16), 1);  // 32 would be wanted, 24 there are
  for (std::int64_t samples = 1; samples <= 60; ++samples) {
    for (std::int64_t pipe = 2; pipe <= 8; ++pipe) {
      const auto m = default_microbatch(samples, samples, pipe);
      ASSERT_EQ(samples % m, 0);
      const auto least = std::min(samples, 2 * pipe);
      ASSERT_GE(samples / m, least);
    }
  }
}

// Interleaved microbatches come in groups of as many as there are stages.
TEST(Microbatch, OfInterleavedPipelines) {
  EXPECT_EQ(default_microbatch(24, 24, 3, ScheduleKind::one_f_one_b), 4);  // 6 of them
  EXPECT_EQ(default_microbatch(20, 20, 4, ScheduleKind::one_f_one_b), 2);  // 10
  EXPECT_EQ(default_microbatch(20, 20, 4, ScheduleKind::interleaved), 1);  // 20
  EXPECT_EQ(default_microbatch(24, 24, 3, ScheduleKind::interleaved), 4);
}

// With train.batch_ramp, all batches must consist of whole micro-batches.
TEST(Microbatch, DividesTheBatchesOfARamp) {
  EXPECT_EQ(default_microbatch(24, 6, 1), 6);
  EXPECT_EQ(default_microbatch(24, 4, 2), 4);  // 6 of them, and 1 in the smallest batch
  EXPECT_EQ(default_microbatch(24, 6, 3, ScheduleKind::interleaved), 2);
}

}  // namespace trireme
