#include "kernels/cuda/runtime/graphs.hpp"

#include <gmock/gmock.h>

#include "tests/cuda/runtime/recording_runtime.hpp"

namespace trireme::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CudaGraphs : public testing::Test {
 protected:
  std::vector<std::string> asked() { return std::exchange(runtime_.calls, {}); }
  // A byte goes from one place to the next on a queue.
  void move(Queue q, std::byte& to, const std::byte& from) {
    runtime_.copy_to_device(&to, &from, 1, queues_.stream(q));
  }
  void run(int which, int moves) {
    graphs_.begin(which);
    for (int i = 0; i < moves; ++i) move(Queue::compute, to_, from_);
    graphs_.end();
  }
  void warm_up(int which, int moves = 1) {
    for (int i = 0; i < Graphs::as_they_are; ++i) run(which, moves);
    runtime_.finish(queues_.stream(Queue::compute));
    asked();
  }

  RecordingRuntime runtime_;
  Queues queues_{runtime_};
  Graphs graphs_{runtime_, queues_};
  std::byte from_{1}, to_{};
};

TEST_F(CudaGraphs, TheFirstTimesAreNotRecorded) {
  for (int i = 0; i < Graphs::as_they_are; ++i) {
    graphs_.begin(0);
    EXPECT_FALSE(graphs_.recording());
    graphs_.end();
  }
  EXPECT_THAT(asked(), IsEmpty());

  graphs_.begin(0);

  EXPECT_TRUE(graphs_.recording());
  graphs_.end();
  EXPECT_FALSE(graphs_.recording());
}

TEST_F(CudaGraphs, AreLaunchedOnComputeWithOneMark) {
  warm_up(0);

  graphs_.begin(0);
  move(Queue::compute, to_, from_);
  queues_.record(Queue::compute);
  queues_.record(Queue::compute);
  graphs_.end();

  EXPECT_THAT(asked(), ElementsAre("begin recording 7", "new graph 0 of 1", "launch 0 on 0",
                                   "record 0 on 0"));
}

TEST_F(CudaGraphs, AreDoneInTheOrderOfTheirQueue) {
  warm_up(0);
  std::byte a{}, b{}, c{}, one{1}, two{2};

  move(Queue::compute, a, one);
  graphs_.begin(0);
  move(Queue::compute, b, a);
  const auto inside = queues_.record(Queue::compute);
  graphs_.end();
  queues_.wait(Queue::gather, inside);
  move(Queue::gather, c, b);
  queues_.wait(Queue::compute, queues_.record(Queue::gather));
  move(Queue::compute, b, two);
  EXPECT_EQ(b, std::byte{0}) << "nothing is done while it is recorded";
  queues_.synchronize(Queue::compute);

  EXPECT_EQ(c, std::byte{1});
  EXPECT_EQ(b, std::byte{2});
  EXPECT_TRUE(queues_.done(inside));
}

// The whole graph does.
TEST_F(CudaGraphs, WaitForWhatTheyWaitForInside) {
  warm_up(0);
  std::byte a{}, one{1};
  move(Queue::gather, a, one);
  const auto there = queues_.record(Queue::gather);

  graphs_.begin(0);
  queues_.wait(Queue::compute, there);
  move(Queue::compute, to_, a);
  graphs_.end();
  queues_.synchronize(Queue::compute);

  EXPECT_EQ(to_, std::byte{1});
}

TEST_F(CudaGraphs, NobodyWaitsForTheirInside) {
  warm_up(0);
  graphs_.begin(0);
  const auto inside = queues_.record(Queue::compute);

  EXPECT_THROW(queues_.wait(Queue::gather, inside), Error);
  EXPECT_THROW(queues_.synchronize(Queue::compute), Error);

  graphs_.end();
  queues_.wait(Queue::gather, inside);
}

TEST_F(CudaGraphs, AreChangedWhereTheyAreAlikeAndMadeAnewOtherwise) {
  warm_up(0, 2);
  warm_up(1, 2);
  run(0, 2);
  run(1, 2);
  asked();

  run(0, 2);
  EXPECT_THAT(asked(), ElementsAre("begin recording 7", "graph 0 changed", "launch 0 on 0",
                                   testing::StartsWith("record")));
  run(0, 3);
  EXPECT_THAT(asked(), ElementsAre("begin recording 7", "new graph 2 of 3", "launch 2 on 0",
                                   testing::StartsWith("record")));
  run(1, 2);
  EXPECT_THAT(asked(), ElementsAre("begin recording 7", "graph 1 changed", "launch 1 on 0",
                                   testing::StartsWith("record")));
}

TEST_F(CudaGraphs, ThatAreReplacedAreGone) {
  warm_up(0);
  for (int i = 0; i < 10; ++i) run(0, 2 + i % 2);
  EXPECT_EQ(runtime_.live_graphs(), 1);
}

TEST_F(CudaGraphs, WhatIsDroppedIsNotDone) {
  warm_up(0);
  to_ = {};
  graphs_.begin(0);
  move(Queue::compute, to_, from_);
  const auto inside = queues_.record(Queue::compute);

  graphs_.drop();
  queues_.synchronize(Queue::compute);

  EXPECT_EQ(to_, std::byte{0});
  EXPECT_TRUE(queues_.done(inside));
  run(0, 1);
  queues_.synchronize(Queue::compute);
  EXPECT_EQ(to_, std::byte{1});
}

TEST(CudaGraphsEnd, GiveBackAll) {
  RecordingRuntime runtime;
  {
    Queues queues(runtime);
    Graphs graphs(runtime, queues);
    std::byte from{}, to{};
    for (int i = 0; i < Graphs::as_they_are + 3; ++i) {
      graphs.begin(0);
      for (int n = 0; n <= i; ++n)
        runtime.copy_to_device(&to, &from, 1, queues.stream(Queue::compute));
      graphs.end();
    }
    runtime.finish(queues.stream(Queue::compute));
    EXPECT_EQ(runtime.live_graphs(), 1);
  }
  EXPECT_EQ(runtime.live_graphs(), 0);
  EXPECT_EQ(runtime.streams(), 0);
  EXPECT_EQ(runtime.live_marks(), 0);
}

}  // namespace
}  // namespace trireme::cuda
