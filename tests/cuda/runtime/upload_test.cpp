#include "kernels/cuda/runtime/upload.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cuda/runtime/recording_runtime.hpp"

namespace trireme::cuda {
namespace {

std::vector<std::byte> pattern(std::size_t n, int seed) {
  std::vector<std::byte> v(n);
  for (std::size_t i = 0; i < n; ++i)
    v[i] = static_cast<std::byte>(i * 31 + i / 251 + static_cast<std::size_t>(seed) * 97);
  return v;
}

TEST(CudaUpload, HasCopiedItsSpanWhenItReturns) {
  RecordingRuntime runtime;
  auto* const stream = runtime.create_stream();
  UploadRing ring(runtime);
  auto from = pattern(1000, 1);
  const auto expected = from;
  std::vector<std::byte> to(from.size());

  ring.upload(to.data(), from, stream);
  std::ranges::fill(from, std::byte{0});
  runtime.finish(stream);

  EXPECT_EQ(to, expected);
}

TEST(CudaUpload, DoesNotWaitWhileThereIsRoom) {
  RecordingRuntime runtime;
  auto* const stream = runtime.create_stream();
  UploadRing ring(runtime);
  const auto from = pattern(UploadRing::most, 2);
  std::vector<std::byte> to(from.size());

  for (int i = 0; i < 3; ++i) ring.upload(to.data(), from, stream);

  EXPECT_EQ(to[1], std::byte{0});  // nothing has run
  runtime.finish(stream);
  EXPECT_EQ(to, from);
}

// Far more than the ring holds, in sizes that meet its end everywhere, on two streams in turns.
TEST(CudaUpload, OverwritesNothingThatIsInFlight) {
  RecordingRuntime runtime;
  void* const streams[] = {runtime.create_stream(), runtime.create_stream()};
  UploadRing ring(runtime);
  std::vector<std::vector<std::byte>> expected, got;
  std::size_t total = 0;
  for (int i = 0; total < 3 * UploadRing::size; ++i) {
    const auto n = static_cast<std::size_t>(i) * 7919 % (UploadRing::size / 3) + 1;
    expected.push_back(pattern(n, i));
    got.emplace_back(n);
    total += n;
  }
  for (std::size_t i = 0; i < expected.size(); ++i)
    ring.upload(got[i].data(), expected[i], streams[i % 2]);
  for (auto* s : streams) runtime.finish(s);

  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(got[i], expected[i]) << i;
}

TEST(CudaUpload, GivesBackMarksAndPages) {
  RecordingRuntime runtime;
  auto* const stream = runtime.create_stream();
  {
    UploadRing ring(runtime);
    std::vector<std::byte> to(10);
    ring.upload(to.data(), to, stream);
    runtime.finish(stream);
  }
  EXPECT_EQ(runtime.live_marks(), 0);
  EXPECT_TRUE(runtime.pinned.empty());
}

}  // namespace
}  // namespace trireme::cuda
