// A wait for a device ends the process after its limit.
#include "kernels/cuda/runtime/waiting.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace trireme::cuda {
namespace {

TEST(WaitForDevice, EndsTheProcessAfterItsLimit) {
  const auto hang = [] {
    wait_for_device(
        0.05, [] { return false; }, [] { sleep(60); });
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(1), "");
}

TEST(WaitForDevice, ReturnsOnceTheWorkIsDone) {
  int asked = 0, blocked = 0;
  wait_for_device(
      60, [&] { return ++asked == 3; }, [&] { ++blocked; });
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(blocked, 0);
  for (const double limit : {0.0, 60.0})
    wait_for_device(
        limit, [] { return false; }, [&] { ++blocked; });
  EXPECT_EQ(blocked, 2);
}

}  // namespace
}  // namespace trireme::cuda
