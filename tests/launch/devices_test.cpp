#include "lib/launch/devices.hpp"

#include <gmock/gmock.h>

#include "kernels/cuda/device.hpp"
#include "lib/base/error.hpp"
#include "tests/support/message_of.hpp"

namespace trireme::launch {

TEST(GpuOfRank, NamesTheFirstTwoRanksOfOneDevice) {
  const std::string none, a = "H200 01", b = "H200 02";
  EXPECT_EQ(ranks_sharing(std::vector{a, b}), "");
  EXPECT_EQ(ranks_sharing(std::vector{a, b, b, a}), "ranks 0 and 3");
  EXPECT_EQ(ranks_sharing(std::vector{b, none, a, none, a}), "ranks 2 and 4");
}

TEST(Backends, MayNotDifferBetweenRanks) {
  const std::string gpu = "cuda", cpu = "host";
  EXPECT_NO_THROW(require_one_backend(std::vector{gpu}));
  EXPECT_NO_THROW(require_one_backend(std::vector{cpu, cpu, cpu}));
  EXPECT_THAT(message_of([&] {
                require_one_backend(std::vector{gpu, gpu, cpu});
              }),
              testing::HasSubstr("cuda on rank 0 and host on rank 2"));
}

TEST(GpuOfRank, IsNotAskedForWhereNoneIsWanted) {
  EXPECT_EQ(gpu_of_rank(false, false, {}), 0);
}

TEST(GpuOfRank, IsAnErrorWithTheReasonWhereThereIsNone) {
  std::string why;
  if (cuda_devices(&why) > 0) GTEST_SKIP() << "this machine has a device";
  const auto said = message_of([] { gpu_of_rank(true, true, {}); });
  EXPECT_FALSE(said.empty());
  EXPECT_THAT(said, testing::HasSubstr(why));
}

}  // namespace trireme::launch
