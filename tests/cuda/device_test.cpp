// Without a GPU the program still starts and says why there is none, with the toolkit or without.
#include "kernels/cuda/device.hpp"

#include <gtest/gtest.h>

#include "lib/base/error.hpp"
#include "lib/comm/transport/nccl_transport.hpp"

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

TEST(CudaDevice, OpeningWithoutOneIsAnErrorWithTheSameReason) {
  std::string why;
  if (cuda_devices(&why) > 0) GTEST_SKIP() << "this machine has a device";
  try {
    open_cuda({});
    FAIL() << "a device that is not there was opened";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what() << "\n" << why;
  }
}

TEST(CudaLibraries, AnswerWithoutADevice) {
  std::string why;
  cuda_devices(&why);
  const bool built_with_cuda = why.find("built without CUDA") == std::string::npos;
  EXPECT_EQ(cuda_libraries().find("cuDNN") != std::string::npos, built_with_cuda);
  if (!built_with_cuda) {
    EXPECT_EQ(transport::nccl_library(), "");
  }
}

}  // namespace trireme
