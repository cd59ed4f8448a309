// Without a GPU the program still starts and says why there is none, with the toolkit or without.
#include "kernels/cuda/device.hpp"

#include <gtest/gtest.h>

#include "kernels/cuda/library.hpp"
#include "lib/base/error.hpp"
#include "lib/comm/transport/nccl_transport.hpp"
#include "tests/support/process.hpp"
#include "tests/support/scratch.hpp"

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
  const auto said = message_of([] { open_cuda({}); });
  EXPECT_FALSE(said.empty());
  EXPECT_NE(said.find(why), std::string::npos) << said << "\n" << why;
}

// Where the build has them: opened without a device, of this build alone.
TEST(CudaLibraries, AnswerWithoutADevice) {
  EXPECT_EQ(cuda_libraries().find("cuDNN") != std::string::npos, built_with_cuda());
  EXPECT_TRUE(built_with_cuda() || transport::nccl_library().empty());
}

TEST(CudaLibraries, OfAnotherBuildMissingOrUnreadableAreASentence) {
  std::string why;
  EXPECT_EQ(cuda::open_library("/nowhere/libtrireme_cuda.so", "1.0", &why), nullptr);
  EXPECT_NE(why.find("/nowhere/libtrireme_cuda.so does not load"), std::string::npos) << why;

  const ScratchFolder folder;
  EXPECT_EQ(cuda::open_library(folder.write("text.so", "not a shared object"), "1.0", &why),
            nullptr);
  EXPECT_NE(why.find("text.so does not load"), std::string::npos) << why;

  // A shared object that is nobody's.
  EXPECT_EQ(cuda::open_library("libm.so.6", "1.0", &why), nullptr);
  EXPECT_NE(why.find("libm.so.6 comes from an unknown build, but this program from 1.0"),
            std::string::npos)
      << why;

  if (!built_with_cuda()) return;
  const auto* const ours = cuda::library(&why);
  ASSERT_TRUE(ours) << why;
  // As a copy into a full disk leaves it.
  const auto part = folder.write("part.so", contents_of(cuda::library_file()).substr(0, 100000));
  EXPECT_EQ(cuda::open_library(part, "1.0", &why), nullptr);
  EXPECT_NE(why.find("part.so is truncated: install it again"), std::string::npos) << why;
  EXPECT_EQ(cuda::open_library(cuda::library_file(), "1.0", &why), nullptr);
  EXPECT_NE(why.find(fmt::format(
                "comes from {}, but this program from 1.0: install both from the same build",
                ours->build)),
            std::string::npos)
      << why;
}

// Nothing of CUDA's is loaded by a process that finds no device.
TEST(CudaLibraries, AreNotLoadedWhereNoDeviceAnswers) {
  if (std::string why; cuda_driver_answers(&why)) GTEST_SKIP() << "this machine has a device";
  const ScratchFolder folder;
  const auto ran = test::run(folder.path(), "LD_DEBUG=files $TRIREME version");
  ASSERT_EQ(ran.code, 0) << ran.err;
  ASSERT_NE(ran.err.find("libmpi"), std::string::npos) << "the loader says nothing";
  for (const char* name : {"libcudart", "libcublas", "libcudnn", "libnccl", "libtrireme_cuda"})
    EXPECT_EQ(ran.err.find(name), std::string::npos) << name;
}

}  // namespace trireme
