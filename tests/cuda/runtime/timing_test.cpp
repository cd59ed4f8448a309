#include "kernels/cuda/runtime/timing.hpp"

#include <gmock/gmock.h>

#include "tests/cuda/runtime/recording_runtime.hpp"

namespace trireme::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CudaTiming : public testing::Test {
 protected:
  void time(const char* name, double milliseconds, const Work& work = {}) {
    timing_.around(stream_, name, work, [&] { runtime_.run(stream_, milliseconds); });
  }

  RecordingRuntime runtime_;
  Runtime::Stream stream_ = runtime_.create_stream();
  Timing timing_{runtime_};
};

TEST_F(CudaTiming, AddsUpByName) {
  timing_.start();
  time("matmul", 2, {.bytes = 10, .flops = 100});
  runtime_.run(stream_, 40);  // of nobody
  time("gelu", 0.25, {.bytes = 7});
  time("matmul", 3, {.bytes = 20, .flops = 300});

  const auto times = timing_.stop();

  ASSERT_EQ(times.size(), 2U);
  EXPECT_EQ(times[0].name, "gelu");
  EXPECT_EQ(times[0].calls, 1);
  EXPECT_EQ(times[0].milliseconds, 0.25);
  EXPECT_EQ(times[0].work.bytes, 7);
  EXPECT_EQ(times[1].name, "matmul");
  EXPECT_EQ(times[1].calls, 2);
  EXPECT_EQ(times[1].milliseconds, 5);
  EXPECT_EQ(times[1].work.bytes, 30);
  EXPECT_EQ(times[1].work.flops, 400);
}

TEST_F(CudaTiming, MarksStandOnTheStreamOfTheOperation) {
  timing_.start();
  time("copy", 1);
  auto* const other = runtime_.create_stream();
  timing_.around(other, "copy", {}, [&] { runtime_.run(other, 1); });

  EXPECT_THAT(runtime_.calls,
              ElementsAre("record 0 on 0", "record 1 on 0", "record 2 on 1", "record 3 on 1"));
}

TEST_F(CudaTiming, WaitsForNothingBeforeItIsRead) {
  timing_.start();
  time("copy", 1);
  EXPECT_EQ(runtime_.clock, 0);
  timing_.stop();
  EXPECT_EQ(runtime_.clock, 1);
}

TEST_F(CudaTiming, UsesItsMarksAgain) {
  for (int step = 0; step < 5; ++step) {
    timing_.start();
    for (int i = 0; i < 3; ++i) time("copy", 1);
    EXPECT_EQ(timing_.stop()[0].milliseconds, 3);
  }
  EXPECT_EQ(timing_.marks(), 6U);
}

TEST_F(CudaTiming, AnOperationThatFailedIsNotListed) {
  timing_.start();
  EXPECT_THROW(timing_.around(stream_, "matmul", {}, [] { fail("no algorithm"); }), Error);
  time("copy", 1);

  const auto times = timing_.stop();

  ASSERT_EQ(times.size(), 1U);
  EXPECT_EQ(times[0].name, "copy");
  timing_.start();
  EXPECT_THAT(timing_.stop(), IsEmpty());
}

TEST(CudaTimingEnd, GivesBackMarks) {
  RecordingRuntime runtime;
  auto* const stream = runtime.create_stream();
  {
    Timing timing(runtime);
    timing.start();
    timing.around(stream, "copy", {}, [] {});
    timing.stop();
  }
  EXPECT_EQ(runtime.live_marks(), 0);
}

}  // namespace
}  // namespace trireme::cuda
