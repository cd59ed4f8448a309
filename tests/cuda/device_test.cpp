// Without a GPU the program still starts and says why there is none, with the toolkit or without.
#include "kernels/cuda/device.hpp"

#include <gtest/gtest.h>

#include "kernels/cuda/cast.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/nccl.hpp"

namespace trireme {

TEST(CudaDevice, IsThereOrSaysWhyNot) {
  std::string why;
  const int n = cuda_devices(&why);
  ASSERT_GE(n, 0);
  EXPECT_EQ(n == 0, why.size() > 10) << why;

  std::string again;
  EXPECT_EQ(cuda_devices(&again), n);
  EXPECT_EQ(again, why);
}

TEST(CudaDevice, LaunchWithoutOneIsAnErrorWithTheSameReason) {
  std::string why;
  if (cuda_devices(&why) > 0) GTEST_SKIP() << "this machine has a device";
  float x = 0;
  try {
    cuda::fill(nullptr, &x, 1, 1);
    FAIL() << "a launch without a device went through";
  } catch (const Error& e) {
    const std::string reason = why.substr(0, why.find(" ("));
    EXPECT_NE(std::string(e.what()).find(reason), std::string::npos) << e.what() << "\n" << why;
  }
}

TEST(CudaLibraries, AnswerWithoutADevice) {
  std::string why;
  cuda_devices(&why);
  const bool built_with_cuda = why.find("built without CUDA") == std::string::npos;
  EXPECT_EQ(cuda_libraries().find("cuDNN") != std::string::npos, built_with_cuda);
  if (!built_with_cuda) {
    EXPECT_EQ(nccl_library(), "");
  }
}

}  // namespace trireme
