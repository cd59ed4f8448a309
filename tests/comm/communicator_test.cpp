// One rank, and ranks that are pretended: nothing here starts MPI.
#include "lib/comm/communicator.hpp"

#include <gtest/gtest.h>

#include "kernels/host/host.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/scratch.hpp"

namespace trireme {
namespace {

Tensor tensor(Backend& b, const std::vector<float>& values) {
  auto t = Tensor::empty(b, {static_cast<std::int64_t>(values.size())}, DType::f32,
                         MemoryKind::transient);
  b.upload(Queue::compute, t.view(), std::as_bytes(std::span(values)));
  return t;
}

std::vector<float> read(Backend& b, const Tensor& t) {
  std::vector<float> values(static_cast<std::size_t>(t.shape().count()));
  b.download(Queue::compute, std::as_writable_bytes(std::span(values)), t.view());
  return values;
}

TEST(OneRank, CollectivesCopy) {
  Host host(1);
  const Communicator alone;
  const auto x = tensor(host, {1, 2}), y = tensor(host, {0, 0}), sum = tensor(host, {10, 10});

  auto gather = alone.all_gather(host, Queue::gather, y.view(), x.view(), {OperationKind::gather});
  auto scatter = alone.reduce_scatter(host, Queue::scatter, sum.view(), x.view(), Accumulate::add,
                                      DType::f32, {OperationKind::scatter});
  auto exchange = alone.exchange(host, Queue::exchange, std::vector<View>(1),
                                 std::vector<ConstView>(1), {OperationKind::exchange});
  EXPECT_TRUE(gather.in_flight() && scatter.in_flight() && exchange.in_flight());
  gather.wait(Queue::compute);
  scatter.wait(Queue::compute);
  exchange.wait(Queue::compute);

  EXPECT_EQ(alone.rank(), 0);
  EXPECT_EQ(alone.size(), 1);
  EXPECT_EQ(read(host, y), (std::vector<float>{1, 2}));
  EXPECT_EQ(read(host, sum), (std::vector<float>{11, 12}));
  EXPECT_EQ(alone.bytes_sent(), 0);
  EXPECT_EQ(host.account().peak[static_cast<int>(MemoryKind::staging)], 0U);
}

TEST(OneRank, HostMemoryStaysAsItIs) {
  const Communicator alone;
  std::string text = "text";
  std::vector<double> values{1, 2};

  alone.broadcast(text);
  alone.all_reduce(values);
  alone.all_reduce_max(values);

  EXPECT_EQ(text, "text");
  EXPECT_EQ(values, (std::vector<double>{1, 2}));
  EXPECT_EQ(alone.all_gather("mine"), (std::vector<std::string>{"mine"}));
  EXPECT_EQ(alone.split(3, 1).size(), 1);
  EXPECT_EQ(alone.node().size(), 1);
}

TEST(OneRank, WhatIsDroppedIsNamed) {
  Host host(1);
  const auto live = host.account().live_all;
  std::string unit = "blocks.3";
  const Communicator alone;
  {
    const auto x = tensor(host, {1, 2}), y = tensor(host, {0, 0});
    auto p =
        alone.all_gather(host, Queue::gather, y.view(), x.view(), {OperationKind::gather, unit, 2});
    p.keep(x);
  }
  unit = "is gone.";  // as the model may be

  EXPECT_EQ(alone.abandoned(), (std::vector<std::string>{"gather of blocks.3, microbatch 2"}));
  EXPECT_GT(host.account().live_all, live);
  alone.drain();
  EXPECT_TRUE(alone.abandoned().empty());
  EXPECT_EQ(host.account().live_all, live);
}

// A plan beside a run sees neither the run's settings nor what it has in flight.
TEST(Jobs, ShareSettingsAndProgressWithWhatIsSplitOff) {
  Host host(1);
  const auto job = Communicator::pretend(0, 2), other = Communicator::pretend(0, 2);
  const auto split = job.pretend_split(1, 3);
  job.configure({.chunk = 7});
  EXPECT_EQ(split.settings().chunk, 7);
  EXPECT_EQ(other.settings().chunk, CommSettings().chunk);
  EXPECT_EQ(Communicator::pretend(0, 2, split.settings()).settings().chunk, 7);
  {
    const auto x = tensor(host, {1, 2});
    const auto dropped = split.send(host, Queue::down, x.view(), 0, {OperationKind::send});
  }
  EXPECT_EQ(job.abandoned(), std::vector<std::string>{"send"});
  EXPECT_TRUE(other.abandoned().empty());
  job.drain();
  EXPECT_TRUE(split.abandoned().empty());
}

TEST(Labels, SayWhatIsKnown) {
  EXPECT_EQ(to_string(Label{OperationKind::tie}), "tie");
  EXPECT_EQ(to_string(Label{OperationKind::scatter, "head"}), "scatter of head");
  EXPECT_EQ(to_string(Label{OperationKind::receive, {}, 0}), "receive, microbatch 0");
}

TEST(Pretended, HostOperationsChangeNothing) {
  const auto world = Communicator::pretend(2, 3);
  std::vector<double> values{1, 2};

  world.all_reduce(values);

  EXPECT_EQ(world.rank(), 2);
  EXPECT_EQ(world.size(), 3);
  EXPECT_EQ(values, (std::vector<double>{1, 2}));
  EXPECT_EQ(world.all_gather("x"), (std::vector<std::string>{"x", "x", "x"}));
}

TEST(Pretended, MistakesAreNamed) {
  EXPECT_EQ(message_of<Error>([] { Communicator::pretend(3, 3); }),
            "rank 3 does not exist: the ranks of a job with 3 ranks are numbered from 0");
  EXPECT_NE(message_of<Error>([] { Communicator::pretend(0, 2).split(0, 0); }).find("pretend each"),
            std::string::npos);
  EXPECT_NE(message_of<Error>([] { Communicator().configure({.chunk = 0}); }).find("use 1 to"),
            std::string::npos);
}

// Operations of rank 1 of 3 on the backend that only keeps the account and looks for races.
class OnDry : public testing::TestWithParam<bool> {
 protected:
  Tensor blank(std::int64_t n, Queue first = Queue::compute) {
    return Tensor::empty(dry, {n}, DType::f32, MemoryKind::transient, first);
  }
  void order(Queue later, Queue earlier) { dry.wait(later, dry.record(earlier)); }

  Dry dry{roomy_target(GetParam())};
  Communicator world = Communicator::pretend(1, 3);
};
INSTANTIATE_TEST_SUITE_P(Memory, OnDry, testing::Bool(),
                         [](const auto& p) { return p.param ? "readable" : "staged"; });

TEST_P(OnDry, BytesAreCounted) {
  const auto x = blank(10), y = blank(30);

  world.all_gather(dry, Queue::compute, y.view(), x.view(), {}).wait(Queue::compute);
  EXPECT_EQ(world.bytes_sent(), 2 * 40);
  world.reduce_scatter(dry, Queue::compute, x.view(), y.view(), Accumulate::add, DType::bf16, {})
      .wait(Queue::compute);
  EXPECT_EQ(world.bytes_sent(), 2 * 40 + 2 * 20);
  world.send(dry, Queue::compute, x.view(), 0, {}).wait(Queue::compute);
  EXPECT_EQ(world.bytes_sent(), 2 * 40 + 2 * 20 + 40);
  world.receive(dry, Queue::compute, x.view(), 0, {}).wait(Queue::compute);
  EXPECT_EQ(world.bytes_sent(), 2 * 40 + 2 * 20 + 40);
}

TEST_P(OnDry, OrderedOperationsHaveNoRace) {
  const auto x = blank(10), y = blank(30, Queue::gather);
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});
  order(Queue::gather, Queue::compute);

  auto p = world.all_gather(dry, Queue::gather, y.view(), x.view(), {OperationKind::gather});
  y.used(p.wait(Queue::compute));
  dry.put(Queue::compute, kernel::Copy{.dst = x.view(), .src = y.slice(0, {10}).view()});

  EXPECT_EQ(dry.races(), std::vector<std::string>{});
}

TEST_P(OnDry, AnOperationThatDoesNotWaitForItsInputIsARace) {
  const auto x = blank(10), y = blank(30, Queue::gather);
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});

  auto p = world.all_gather(dry, Queue::gather, y.view(), x.view(), {OperationKind::gather});

  EXPECT_GT(dry.race_count(), 0);
  p.wait(Queue::compute);
}

TEST_P(OnDry, AResultThatIsReadTooEarlyIsARace) {
  const auto x = blank(30), y = blank(10, Queue::scatter);
  order(Queue::scatter, Queue::compute);

  auto p = world.reduce_scatter(dry, Queue::scatter, y.view(), x.view(), Accumulate::overwrite,
                                DType::f32, {OperationKind::scatter});
  EXPECT_EQ(dry.race_count(), 0);
  dry.put(Queue::compute, kernel::Copy{.dst = x.slice(0, {10}).view(), .src = y.view()});

  EXPECT_GT(dry.race_count(), 0);
  p.wait(Queue::compute);
}

TEST_P(OnDry, AnInputThatIsChangedTooEarlyIsARace) {
  const auto x = blank(10);
  order(Queue::down, Queue::compute);

  auto p = world.send(dry, Queue::down, x.view(), 2, {OperationKind::send});
  dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});

  EXPECT_GT(dry.race_count(), 0);
  p.wait(Queue::compute);
}

// What an operation keeps is handed on to the next owner in order.
TEST_P(OnDry, KeptMemoryIsReusedInOrder) {
  for (int i = 0; i < 3; ++i) {
    auto x = blank(10), y = blank(30, Queue::gather);
    dry.put(Queue::compute, kernel::Fill{.dst = x.view(), .value = 1});
    order(Queue::gather, Queue::compute);
    auto p = world.all_gather(dry, Queue::gather, y.view(), x.view(), {OperationKind::gather});
    p.keep(std::move(x));
    p.keep(std::move(y));
    p.wait(Queue::exchange);
  }

  EXPECT_EQ(dry.races(), std::vector<std::string>{});
  EXPECT_EQ(dry.account().live_all, 0U);
}

TEST_P(OnDry, StagingIsReusedInOrder) {
  const auto x = blank(1000), y = blank(3000);
  for (const auto wire : {DType::f32, DType::bf16}) {
    order(Queue::scatter, Queue::compute);
    world
        .reduce_scatter(dry, Queue::scatter, x.view(), y.view(), Accumulate::add, wire,
                        {OperationKind::scatter})
        .wait(Queue::host);  // compute learns nothing
    const auto next = blank(2000), other = blank(1000);
    dry.put(Queue::compute, kernel::Fill{.dst = next.view(), .value = 1});
    dry.put(Queue::compute, kernel::Fill{.dst = other.view(), .value = 1});
  }
  EXPECT_EQ(dry.races(), std::vector<std::string>{});
}

TEST_P(OnDry, StagingIsTakenWhereItIsNeeded) {
  const bool readable = GetParam();
  const auto staging = [&] { return dry.account().live[static_cast<int>(MemoryKind::staging)]; };
  const auto x = blank(1000), y = blank(3000);
  world.configure({.chunk = 600});
  const std::size_t one = 2560, two = 4864;           // buffers of 600 f32, in the arena's granules
  const std::size_t half = 1280, both_halves = 2560;  // of 600 bf16

  auto gather = world.all_gather(dry, Queue::compute, y.view(), x.view(), {});
  EXPECT_EQ(staging(), readable ? 0 : 2 * two);
  gather.wait(Queue::compute);
  EXPECT_EQ(staging(), 0U);
  auto scatter = world.reduce_scatter(dry, Queue::compute, x.view(), y.view(), Accumulate::add,
                                      DType::f32, {});
  EXPECT_EQ(staging(), readable ? two : 2 * two + one);
  scatter.wait(Queue::compute);
  auto narrow = world.reduce_scatter(dry, Queue::compute, x.view(), y.view(), Accumulate::add,
                                     DType::bf16, {});
  EXPECT_EQ(staging(), 2 * both_halves + (readable ? 0 : 2 * half));
  narrow.wait(Queue::compute);
}

// Whatever an exchange sends, its staging is that of the limit: here two buffers of 600 f32 for
// each direction, because longer parts are sent in several messages.
TEST_P(OnDry, StagingOfALimitedExchangeDoesNotDependOnItsLoad) {
  world.configure({.chunk = 600});
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto x = blank(5000), y = blank(5000);
  for (const std::int64_t load : {0, 1, 599, 600, 601, 5000}) {
    std::vector<View> dst(ranks);
    std::vector<ConstView> src(ranks);
    const auto peer = static_cast<std::size_t>(world.rank() == 0 ? 1 : 0);
    if (load > 0) {
      src[peer] = x.view().slice(0, 0, load);
      dst[peer] = y.view().slice(0, 0, load);
    }
    order(Queue::exchange, Queue::compute);
    auto pending = world.exchange(dry, Queue::exchange, dst, src, {OperationKind::exchange},
                                  ExchangeLimit{5000, DType::f32});
    EXPECT_EQ(dry.account().live[static_cast<int>(MemoryKind::staging)], GetParam() ? 0 : 2 * 4864)
        << load;
    pending.wait(Queue::compute);
  }
  EXPECT_EQ(dry.account().live[static_cast<int>(MemoryKind::staging)], 0U);
  EXPECT_EQ(dry.races(), std::vector<std::string>{});
}

}  // namespace
}  // namespace trireme
