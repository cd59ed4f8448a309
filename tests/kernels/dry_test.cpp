#include "kernels/dry/dry.hpp"

#include <gtest/gtest.h>

#include "lib/tensor/tensor.hpp"

namespace trireme {

static DryTarget nothing() {
  return {"none", std::size_t{1} << 40, 256,
          [](const AttentionShape&, DType, Direction) { return std::size_t{0}; }};
}

class DryOrder : public testing::Test {
 protected:
  Tensor tensor(Queue first = Queue::compute) {
    return Tensor::empty(dry, {100}, DType::f32, Kind::transient, first);
  }
  Dry dry{nothing()};
};

TEST_F(DryOrder, WorkOnOneQueueIsOrdered) {
  const auto x = tensor(), y = tensor();

  dry.fill(Queue::compute, x.view(), 0);
  dry.copy(Queue::compute, y.view(), x.view(), Accumulate::overwrite);
  dry.fill(Queue::compute, x.view(), 1);

  EXPECT_EQ(dry.race_count(), 0);
}

TEST_F(DryOrder, AReadOnAnotherQueueNeedsAnEvent) {
  const auto x = tensor(), y = tensor(Queue::gather);
  dry.fill(Queue::compute, x.view(), 0);

  dry.copy(Queue::gather, y.view(), x.view(), Accumulate::overwrite);
  EXPECT_EQ(dry.race_count(), 1);
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.copy(Queue::gather, y.view(), x.view(), Accumulate::overwrite);

  EXPECT_EQ(dry.race_count(), 1);
  EXPECT_NE(dry.races()[0].find("copy on queue gather"), std::string::npos) << dry.races()[0];
}

TEST_F(DryOrder, AWriteAfterAnotherQueuesReadNeedsAnEvent) {
  const auto x = tensor(), y = tensor(Queue::gather);
  dry.fill(Queue::compute, x.view(), 0);
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.copy(Queue::gather, y.view(), x.view(), Accumulate::overwrite);

  dry.fill(Queue::compute, x.view().slice(0, 50, 10), 0);

  EXPECT_EQ(dry.race_count(), 1);
}

TEST_F(DryOrder, EventsArePassedOn) {
  const auto x = tensor();
  dry.fill(Queue::compute, x.view(), 0);
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.wait(Queue::exchange, dry.record(Queue::gather));

  dry.fill(Queue::exchange, x.view(), 0);

  EXPECT_EQ(dry.race_count(), 0);
}

TEST_F(DryOrder, DisjointBytesNeedNoOrder) {
  const auto x = tensor();

  dry.fill(Queue::compute, x.view().slice(0, 0, 50), 0);
  dry.fill(Queue::gather, x.view().slice(0, 50, 50), 0);

  EXPECT_EQ(dry.race_count(), 0);
}

// A block used by another queue is handed on only after that use.
TEST_F(DryOrder, MemoryIsReusedInOrder) {
  {
    const auto x = tensor(Queue::gather);
    dry.fill(Queue::gather, x.view(), 0);
    x.used(dry.record(Queue::gather));
  }
  {
    const auto y = tensor();
    dry.fill(Queue::compute, y.view(), 0);
  }
  EXPECT_EQ(dry.race_count(), 0);

  {
    const auto x = tensor();  // its use on gather is kept secret
    dry.wait(Queue::gather, dry.record(Queue::compute));
    dry.fill(Queue::gather, x.view(), 0);
  }
  const auto y = tensor();
  dry.fill(Queue::compute, y.view(), 0);
  EXPECT_EQ(dry.race_count(), 1);
}

TEST_F(DryOrder, GraphsHoldComputesWorkAlone) {
  const auto x = tensor(), y = tensor(Queue::gather);
  const auto before = dry.record(Queue::gather);
  std::byte bytes[400];
  dry.begin_graph(0);

  dry.fill(Queue::compute, x.view(), 0);
  dry.wait(Queue::compute, before);
  EXPECT_THROW(dry.fill(Queue::gather, y.view(), 0), Error);
  EXPECT_THROW(dry.upload(Queue::compute, x.view(), bytes), Error);
  EXPECT_THROW(dry.download(Queue::compute, bytes, x.view()), Error);
  EXPECT_THROW(dry.wait(Queue::gather, dry.record(Queue::compute)), Error);
  EXPECT_THROW(dry.wait(Queue::compute, dry.record(Queue::gather)), Error);
  EXPECT_THROW(dry.begin_graph(1), Error);

  dry.end_graph();
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.fill(Queue::gather, y.view(), 0);
}

TEST_F(DryOrder, ScalarsReadBackAsOne) {
  const auto x = Tensor::empty(dry, {3}, DType::f64, Kind::transient);
  std::vector<double> values(3);

  dry.download(Queue::compute, std::as_writable_bytes(std::span(values)), x.view());

  EXPECT_EQ(values, (std::vector<double>{1, 1, 1}));
}

}  // namespace trireme
