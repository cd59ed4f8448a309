// Several operations at once, and what happens when something goes wrong.
#include <chrono>

#include "kernels/immediate.hpp"
#include "tests/parallel/collective_test.hpp"
#include "tests/support/scratch.hpp"

namespace trireme::test {
namespace {

std::vector<double> part_sum(const std::vector<std::vector<double>>& by_rank, int me,
                             std::int64_t n) {
  const auto ranks = by_rank.size();
  std::vector<double> sum(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < ranks; ++k)
    for (std::int64_t i = 0; i < n; ++i)
      sum[static_cast<std::size_t>(i)] +=
          by_rank[(static_cast<std::size_t>(me) + k) % ranks][static_cast<std::size_t>(me * n + i)];
  return sum;
}

class InFlight : public CollectiveTest {};
INSTANTIATE_TEST_SUITE_P(Settings, InFlight,
                         testing::Values(Setting{"ref", DType::f64, 100, true},
                                         Setting{"ref", DType::f64, 1 << 20, false},
                                         Setting{"fenced", DType::f32, 100, false}),
                         [](const auto& p) { return name_of(p.param); });

// Of three communicators with other orders of ranks, waited for from the last to the first.
TEST_P(InFlight, OperationsOfSeveralCommunicators) {
  const int me = rank(), size = ranks();
  const Communicator reversed = world().split(0, size - me), halves = world().split(me % 2, me);
  ASSERT_EQ(reversed.rank(), size - 1 - me);
  ASSERT_EQ(halves.rank(), me / 2);
  const std::int64_t n = 333;
  std::vector<Tensor> gathered, sums, halved, inputs;
  std::vector<Pending> pending;

  for (int i = 0; i < 5; ++i) {
    const auto seed = static_cast<std::uint64_t>(10 + i);
    inputs.push_back(tensor(n, me, seed));
    gathered.push_back(blank(n * size));
    pending.push_back(world().all_gather(backend(), after_compute(Queue::gather),
                                         gathered.back().view(), inputs.back().view(),
                                         {OperationKind::gather, {}, i}));
    halved.push_back(blank(n * halves.size()));
    pending.push_back(halves.all_gather(backend(), after_compute(Queue::gather),
                                        halved.back().view(), inputs.back().view(),
                                        {OperationKind::gather, {}, i}));
    inputs.push_back(tensor(n * size, me, seed));
    sums.push_back(blank(n));
    pending.push_back(reversed.reduce_scatter(
        backend(), after_compute(Queue::scatter), sums.back().view(), inputs.back().view(),
        Accumulate::overwrite, type(), {OperationKind::scatter, {}, i}));
    world().progress();
  }
  while (!pending.empty()) {
    pending.back().wait(Queue::compute);
    pending.pop_back();
  }

  for (std::size_t i = 0; i < 5; ++i) {
    std::vector<double> all, half;
    std::vector<std::vector<double>> long_by_rank;
    for (int r = 0; r < size; ++r) {
      const auto theirs = numbers(n, r, type(), 10 + i);
      all.insert(all.end(), theirs.begin(), theirs.end());
      if (r % 2 == me % 2) half.insert(half.end(), theirs.begin(), theirs.end());
      long_by_rank.push_back(numbers(n * size, size - 1 - r, type(), 10 + i));
    }
    EXPECT_EQ(values(gathered[i]), all);
    EXPECT_EQ(values(halved[i]), half);
    const auto expected = part_sum(long_by_rank, reversed.rank(), n), got = values(sums[i]);
    for (std::size_t e = 0; e < expected.size(); ++e)
      EXPECT_NEAR(got[e], expected[e], type() == DType::f64 ? 0 : 1e-6 * size);
  }
}

// Longer than what is outstanding at a time, and received one by one.
TEST_P(InFlight, MessagesOfOneMicrobatchStayApart) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  const int next = (rank() + 1) % ranks(), previous = (rank() + ranks() - 1) % ranks();
  std::vector<Tensor> sent;
  std::vector<Pending> pending;
  for (std::uint64_t i = 0; i < 3; ++i) {
    sent.push_back(tensor(2000, rank(), i));
    pending.push_back(world().send(backend(), after_compute(Queue::down), sent.back().view(), next,
                                   {OperationKind::tie}));
  }
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto x = blank(2000);
    world()
        .receive(backend(), after_compute(Queue::up), x.view(), previous, {OperationKind::tie})
        .wait(Queue::compute);
    EXPECT_EQ(values(x), numbers(2000, previous, type(), i));
  }
  for (auto& p : pending) p.wait(Queue::compute);
}

// Nobody waits: polls alone bring the numbers.
TEST_P(InFlight, ProgressMovesWhatIsInFlight) {
  if (!backend().host_readable()) GTEST_SKIP() << "arrivals are not seen";
  const auto src = tensor(500, rank()), dst = tensor(500 * ranks(), 99);
  const auto last = numbers(500, ranks() - 1, type());
  auto pending = world().all_gather(backend(), Queue::gather, dst.view(), src.view(), {});

  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  const auto arrived = [&] { return values(dst).back() == last.back(); };
  while (!arrived() && std::chrono::steady_clock::now() < limit) world().progress();

  EXPECT_TRUE(arrived());
  pending.wait(Queue::compute);
}

TEST_P(InFlight, WhatIsDroppedIsNamedAndDrained) {
  const auto live = backend().account().live_all;
  const auto dst = blank(500 * ranks());
  std::string unit = "blocks.3";
  try {
    const auto src = tensor(500, rank());
    auto pending = world().all_gather(backend(), after_compute(Queue::gather), dst.view(),
                                      src.view(), {OperationKind::gather, unit, 2});
    pending.keep(src);
    fail("on every rank");
  } catch (const Error&) {
    unit = "is gone.";  // as the model may be
  }

  EXPECT_EQ(world().abandoned(), std::vector<std::string>{"gather of blocks.3, microbatch 2"});
  world().drain();

  EXPECT_TRUE(world().abandoned().empty());
  std::vector<double> all;
  for (int r = 0; r < ranks(); ++r)
    for (const double x : numbers(500, r, type())) all.push_back(x);
  EXPECT_EQ(values(dst), all);
  const auto bytes = static_cast<std::size_t>(dst.shape().count()) * bytes_of(type());
  EXPECT_EQ(backend().account().live_all - live, (bytes + 255) / 256 * 256);
}

TEST_P(InFlight, AWaitThatIsTooLongNamesTheOperation) {
  if (ranks() == 1) GTEST_SKIP() << "nobody to wait for";
  world().configure({.chunk = 100, .hang_timeout = 0.05});
  const auto src = tensor(500, rank()), dst = blank(500 * ranks());
  const auto gather = [&] {
    return world().all_gather(backend(), after_compute(Queue::gather), dst.view(), src.view(),
                              {OperationKind::gather, "head", 1});
  };

  Pending pending;
  if (rank() == 0) {
    pending = gather();
    const auto message = message_of<Error>([&] { pending.wait(Queue::compute); });
    EXPECT_NE(message.find("gather of head, microbatch 1 is not finished after 0.05 s (call "),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("receives from rank"), std::string::npos) << message;
  }
  world().configure({.chunk = 100});
  double late = 1;
  world().all_reduce({&late, 1});  // the others come now
  if (rank() != 0) pending = gather();
  pending.wait(Queue::compute);

  EXPECT_EQ(values(dst).back(), numbers(500, ranks() - 1, type()).back());
}

TEST_P(InFlight, OperationsOutOfStepAreFound) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  world().configure({.check_labels = true});
  const auto src = tensor(8, rank()), dst = blank(8 * ranks());
  const auto gather = [&](std::string_view unit) {
    world()
        .all_gather(backend(), after_compute(Queue::gather), dst.view(), src.view(),
                    {OperationKind::gather, unit, 4})
        .wait(Queue::compute);
  };

  gather("head");
  const auto message =
      message_of<Error>([&] { gather(rank() == ranks() - 1 ? "blocks.1" : "blocks.0"); });

  EXPECT_NE(message.find("gather of blocks.0, microbatch 4"), std::string::npos) << message;
  EXPECT_NE(message.find(fmt::format("rank {} calls operation", ranks() - 1)), std::string::npos)
      << message;
  EXPECT_NE(message.find("gather of blocks.1, microbatch 4"), std::string::npos) << message;
  double x = 1;
  const auto other = message_of<Error>([&] {
    if (rank() == 0) return gather("head");
    world().all_reduce({&x, 1});
  });
  EXPECT_NE(other.find("sum of 1 numbers"), std::string::npos) << other;
}

// Lengths that differ are an Error on the receiving side, and nothing behind it is waited for.
TEST_P(InFlight, AFailureNamesTheOperationAndThoseBehindIt) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto part = world().split(0, rank());
  world().configure({});
  const auto x = tensor(200, rank());
  if (rank() == 0) {
    part.send(backend(), after_compute(Queue::down), x.slice(0, {100}).view(), 1,
              {OperationKind::send, {}, 100})
        .wait(Queue::compute);
  } else if (rank() == 1) {
    {
      auto less = part.receive(backend(), after_compute(Queue::down), x.view(), 0,
                               {OperationKind::receive, {}, 100});
      const auto message = message_of<Error>([&] { less.wait(Queue::compute); });
      EXPECT_NE(message.find("receive, microbatch 100: "), std::string::npos) << message;
      EXPECT_NE(message.find("bytes arrived from rank 0"), std::string::npos) << message;
      auto more = part.receive(backend(), after_compute(Queue::down), x.slice(0, {100}).view(), 0,
                               {OperationKind::receive, {}, 200});
      const auto second = message_of<Error>([&] { more.wait(Queue::compute); });
      EXPECT_NE(second.find("200: this communication is not possible after an earlier failure "
                            "(receive, microbatch 100: "),
                std::string::npos)
          << second;
    }
    EXPECT_EQ(world().abandoned().size(), 2U);
    EXPECT_NE(message_of<Error>([] { world().drain(); }).find("; "), std::string::npos);
    EXPECT_TRUE(world().abandoned().empty());
  }
  world().all_gather("in step again");
}

// An operation that found no memory for its staging was never called: the next one begins.
TEST(NoMemory, ForAnOperationLeavesThoseBehindItInStep) {
  world().configure({.hang_timeout = 10});
  const auto part = world().split(0, world().rank());
  const auto ref = open_backend({"ref", 1, false});
  const auto ranks = part.size();
  const auto src = Tensor::empty(*ref, {100 * ranks}, DType::f64, MemoryKind::transient),
             dst = Tensor::empty(*ref, {100}, DType::f64, MemoryKind::transient);
  write(*ref, Queue::compute, src.view(), numbers(100 * ranks, part.rank(), DType::f64));
  const auto scatter = [&] {
    part.reduce_scatter(*ref, Queue::compute, dst.view(), src.view(), Accumulate::overwrite,
                        DType::f64, {OperationKind::scatter})
        .wait(Queue::compute);
  };
  if (ranks > 1) {
    const auto left = physical_memory() / Arena::granule * Arena::granule - ref->account().reserved;
    const auto all = Tensor::empty(*ref, {static_cast<std::int64_t>(left / 8)}, DType::f64,
                                   MemoryKind::transient);
    EXPECT_THROW(scatter(), Error);
  }
  scatter();

  std::vector<std::vector<double>> by_rank;
  for (int r = 0; r < ranks; ++r) by_rank.push_back(numbers(100 * ranks, r, DType::f64));
  EXPECT_EQ(read(*ref, Queue::compute, dst.view()), part_sum(by_rank, part.rank(), 100));
  world().configure({});
}

TEST(MpiErrors, NameCallPeerAndOperation) {
  if (world().size() == 1) GTEST_SKIP() << "one rank sends nothing";
  const auto part = world().split(0, world().rank());
  const auto ref = open_backend({"ref", 1, true});
  const auto x = Tensor::empty(*ref, {200}, DType::f64, MemoryKind::transient);
  if (part.rank() == 0) {
    part.send(*ref, Queue::down, x.view(), 1, {OperationKind::send}).wait(Queue::compute);
  } else if (part.rank() == 1) {
    {
      auto p = part.receive(*ref, Queue::down, x.slice(0, {10}).view(), 0,
                            {OperationKind::receive, "tie"});
      const auto message = message_of<Error>([&] { p.wait(Queue::compute); });
      EXPECT_EQ(message.find("receive of tie: MPI_Irecv with rank 0 failed: "), 0U) << message;
    }
    EXPECT_THROW(world().drain(), Error);
  }
}

TEST(HostMemory, OperationsOfAllRanks) {
  for (const bool checked : {false, true}) {
    world().configure({.check_labels = checked});
    const int me = world().rank(), size = world().size();
    std::string text = me == size - 1 ? std::string(70000, 'x') : "other";
    std::vector<double> sum{1.0 * me, 2}, most{1.0 * me, -1.0 * me};

    world().broadcast(text, size - 1);
    world().all_reduce(sum);
    world().all_reduce_max(most);
    const auto texts = world().all_gather(std::string(static_cast<std::size_t>(me), 'y'));

    EXPECT_EQ(text, std::string(70000, 'x'));
    EXPECT_EQ(sum, (std::vector<double>{size * (size - 1) / 2.0, 2.0 * size}));
    EXPECT_EQ(most, (std::vector<double>{size - 1.0, 0}));
    ASSERT_EQ(texts.size(), static_cast<std::size_t>(size));
    for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r, 'y'));
  }
}

TEST(Split, GroupsByColorAndOrdersByKey) {
  const int me = world().rank(), size = world().size();
  const auto part = world().split(me % 2, -me);

  EXPECT_EQ(part.size(), (size + 1 - me % 2) / 2);
  EXPECT_EQ(part.rank(), part.size() - 1 - me / 2);
  EXPECT_EQ(world().node().size(), size);
  EXPECT_EQ(part.bytes_sent(), 0);
}

}  // namespace
}  // namespace trireme::test
