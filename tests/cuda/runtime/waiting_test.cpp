// Waiting for a device, with and without a limit.
#include "kernels/cuda/runtime/waiting.hpp"

#include <gtest/gtest.h>

namespace trireme::cuda {
namespace {

TEST(WaitForDevice, EndsAfterItsLimit) {
  EXPECT_FALSE(wait_for_device(0.01, [] { return false; }));
}

TEST(WaitForDevice, ReturnsOnceTheWorkIsDone) {
  for (const double limit : {0.0, 60.0}) {
    int asked = 0;
    EXPECT_TRUE(wait_for_device(limit, [&] { return ++asked == 300; }));
    EXPECT_EQ(asked, 300);
  }
}

}  // namespace
}  // namespace trireme::cuda
