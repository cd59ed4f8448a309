#include "kernels/cuda/runtime/queues.hpp"

#include <gmock/gmock.h>

#include "tests/cuda/runtime/recording_runtime.hpp"

namespace trireme::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class CudaQueues : public testing::Test {
 protected:
  std::vector<std::string> asked() { return std::exchange(runtime_.calls, {}); }

  RecordingRuntime runtime_;
  Queues queues_{runtime_};
};

TEST_F(CudaQueues, HaveAStreamEach) {
  EXPECT_EQ(runtime_.streams(), queue_count);
  std::set<void*> streams;
  for (int q = 0; q < queue_count; ++q) streams.insert(queues_.stream(static_cast<Queue>(q)));
  EXPECT_EQ(streams.size(), queue_count);
}

TEST_F(CudaQueues, WaitForTheMarkOfTheEvent) {
  const auto first = queues_.record(Queue::compute);
  queues_.record(Queue::compute);
  asked();

  queues_.wait(Queue::gather, first);

  EXPECT_THAT(asked(), ElementsAre("wait 1 for 0"));
}

TEST_F(CudaQueues, WaitOnceForWhatIsOrderedAlready) {
  const auto first = queues_.record(Queue::compute), second = queues_.record(Queue::compute);
  queues_.wait(Queue::gather, second);
  asked();

  queues_.wait(Queue::gather, second);
  queues_.wait(Queue::gather, first);                // before it
  queues_.wait(Queue::compute, second);              // its own queue
  queues_.wait(Queue::gather, {Queue::scatter, 0});  // the past

  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(CudaQueues, EachQueueWaitsForItself) {
  const auto e = queues_.record(Queue::compute);
  asked();

  queues_.wait(Queue::gather, e);
  queues_.wait(Queue::down, e);

  EXPECT_THAT(asked(), ElementsAre("wait 1 for 0", "wait 4 for 0"));
}

TEST_F(CudaQueues, AreDoneWhenTheStreamCameThere) {
  const auto e = queues_.record(Queue::up);
  EXPECT_FALSE(queues_.done(e));

  runtime_.finish(queues_.stream(Queue::up));

  EXPECT_TRUE(queues_.done(e));
  EXPECT_TRUE(queues_.done({Queue::down, 0}));
}

TEST_F(CudaQueues, UseAMarkAgainWhenItPassed) {
  for (int i = 0; i < 1000; ++i) {
    queues_.record(Queue::compute);
    runtime_.finish(queues_.stream(Queue::compute));
  }
  EXPECT_EQ(queues_.marks(), 1U);
}

TEST_F(CudaQueues, KeepMarksThatArePending) {
  std::vector<Event> events;
  for (int i = 0; i < 20; ++i) events.push_back(queues_.record(Queue::compute));
  EXPECT_EQ(queues_.marks(), 20U);
  asked();

  queues_.wait(Queue::gather, events[7]);

  EXPECT_THAT(asked(), ElementsAre("wait 1 for 7"));
}

TEST_F(CudaQueues, DoNotMistakeARecycledMarkForAnOldEvent) {
  const auto old = queues_.record(Queue::compute);
  runtime_.finish(queues_.stream(Queue::compute));
  queues_.record(Queue::scatter);  // takes a mark
  queues_.record(Queue::compute);  // retires `old` and may take its mark
  asked();

  queues_.wait(Queue::gather, old);

  EXPECT_THAT(asked(), IsEmpty());
}

TEST_F(CudaQueues, OrderWorkAsEventsSay) {
  std::byte a{}, b{}, one{1}, two{2};
  auto* const compute = queues_.stream(Queue::compute);
  auto* const gather = queues_.stream(Queue::gather);
  runtime_.copy_to_device(&a, &one, 1, compute);
  queues_.wait(Queue::gather, queues_.record(Queue::compute));
  runtime_.copy_to_device(&b, &a, 1, gather);  // reads what compute wrote
  queues_.wait(Queue::compute, queues_.record(Queue::gather));
  runtime_.copy_to_device(&a, &two, 1, compute);  // and only then is it overwritten

  queues_.synchronize(Queue::compute);

  EXPECT_EQ(b, std::byte{1});
  EXPECT_EQ(a, std::byte{2});
}

TEST(CudaQueuesEnd, GiveBackStreamsAndMarks) {
  RecordingRuntime runtime;
  {
    Queues queues(runtime);
    for (int i = 0; i < 5; ++i) queues.record(Queue::compute);
    runtime.finish(queues.stream(Queue::compute));
    queues.record(Queue::compute);
  }
  EXPECT_EQ(runtime.streams(), 0);
  EXPECT_EQ(runtime.live_marks(), 0);
}

}  // namespace
}  // namespace trireme::cuda
