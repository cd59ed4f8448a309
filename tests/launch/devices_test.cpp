#include "lib/launch/devices.hpp"

#include <gmock/gmock.h>

#include "kernels/cuda/device.hpp"
#include "lib/base/error.hpp"

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
  try {
    require_one_backend(std::vector{gpu, gpu, cpu});
    FAIL() << "two kinds of ranks would train together";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("cuda on rank 0 and host on rank 2"));
  }
}

TEST(GpuOfRank, IsNotAskedForWhereNoneIsWanted) {
  EXPECT_EQ(gpu_of_rank(false, false, {}), 0);
}

TEST(GpuOfRank, IsAnErrorWithTheReasonWhereThereIsNone) {
  std::string why;
  if (cuda_devices(&why) > 0) GTEST_SKIP() << "this machine has a device";
  try {
    gpu_of_rank(true, true, {});
    FAIL() << "a device that is not there was given out";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(why));
  }
}

}  // namespace trireme::launch
