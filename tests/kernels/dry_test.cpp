#include "kernels/dry/dry.hpp"

#include <gtest/gtest.h>

#include "lib/tensor/tensor.hpp"
#include "tests/support/dry.hpp"

namespace trireme {

class DryOrder : public testing::Test {
 protected:
  Tensor tensor(Queue first = Queue::compute) {
    return Tensor::empty(dry, {100}, DType::f32, Kind::transient, first);
  }
  Dry dry{roomy_target()};
};

TEST_F(DryOrder, WorkOnOneQueueIsOrdered) {
  const auto x = tensor(), y = tensor();

  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.put(Queue::compute, kernel::Copy{.dst = y.view(), .src = x.view()});
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});

  EXPECT_EQ(dry.race_count(), 0);
}

TEST_F(DryOrder, AReadOnAnotherQueueNeedsAnEvent) {
  const auto x = tensor(), y = tensor(Queue::gather);
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});

  dry.put(Queue::gather, kernel::Copy{.dst = y.view(), .src = x.view()});
  EXPECT_EQ(dry.race_count(), 1);
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.put(Queue::gather, kernel::Copy{.dst = y.view(), .src = x.view()});

  EXPECT_EQ(dry.race_count(), 1);
  EXPECT_NE(dry.races()[0].find("copy on queue gather"), std::string::npos) << dry.races()[0];
}

TEST_F(DryOrder, AWriteAfterAnotherQueuesReadNeedsAnEvent) {
  const auto x = tensor(), y = tensor(Queue::gather);
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.put(Queue::gather, kernel::Copy{.dst = y.view(), .src = x.view()});

  dry.put(Queue::compute, kernel::Fill{.dst = x.view().slice(0, 50, 10), .value = 0});

  EXPECT_EQ(dry.race_count(), 1);
}

TEST_F(DryOrder, EventsArePassedOn) {
  const auto x = tensor();
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.wait(Queue::exchange, dry.record(Queue::gather));

  dry.put(Queue::exchange, kernel::Fill{.dst = x.view(), .value = 0});

  EXPECT_EQ(dry.race_count(), 0);
}

TEST_F(DryOrder, DisjointBytesNeedNoOrder) {
  const auto x = tensor();

  dry.put(Queue::compute, kernel::Fill{.dst = x.view().slice(0, 0, 50), .value = 0});
  dry.put(Queue::gather, kernel::Fill{.dst = x.view().slice(0, 50, 50), .value = 0});

  EXPECT_EQ(dry.race_count(), 0);
}

// A block used by another queue is handed on only after that use.
TEST_F(DryOrder, MemoryIsReusedInOrder) {
  {
    const auto x = tensor(Queue::gather);
    dry.put(Queue::gather, kernel::Fill{.dst = x.view(), .value = 0});
    x.used(dry.record(Queue::gather));
  }
  {
    const auto y = tensor();
    dry.put(Queue::compute, kernel::Fill{.dst = y.view(), .value = 0});
  }
  EXPECT_EQ(dry.race_count(), 0);

  {
    const auto x = tensor();  // its use on gather is kept secret
    dry.wait(Queue::gather, dry.record(Queue::compute));
    dry.put(Queue::gather, kernel::Fill{.dst = x.view(), .value = 0});
  }
  const auto y = tensor();
  dry.put(Queue::compute, kernel::Fill{.dst = y.view(), .value = 0});
  EXPECT_EQ(dry.race_count(), 1);
}

TEST_F(DryOrder, GraphsHoldComputesWorkAlone) {
  const auto x = tensor(), y = tensor(Queue::gather);
  const auto before = dry.record(Queue::gather);
  std::byte bytes[400];
  dry.begin_graph(0);

  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 0});
  dry.wait(Queue::compute, before);
  EXPECT_THROW(dry.put(Queue::gather, kernel::Fill{.dst = y.view(), .value = 0}), Error);
  EXPECT_THROW(dry.upload(Queue::compute, x.view(), bytes), Error);
  EXPECT_THROW(dry.download(Queue::compute, bytes, x.view()), Error);
  EXPECT_THROW(dry.wait(Queue::gather, dry.record(Queue::compute)), Error);
  EXPECT_THROW(dry.wait(Queue::compute, dry.record(Queue::gather)), Error);
  EXPECT_THROW(dry.begin_graph(1), Error);

  dry.end_graph();
  dry.wait(Queue::gather, dry.record(Queue::compute));
  dry.put(Queue::gather, kernel::Fill{.dst = y.view(), .value = 0});
}

TEST_F(DryOrder, ScalarsReadBackAsOne) {
  const auto x = Tensor::empty(dry, {3}, DType::f64, Kind::transient);
  std::vector<double> values(3);

  dry.download(Queue::compute, std::as_writable_bytes(std::span(values)), x.view());

  EXPECT_EQ(values, (std::vector<double>{1, 1, 1}));
}

}  // namespace trireme
