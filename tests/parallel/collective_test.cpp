// Every operation on Views, on every backend, with chunks that do not divide the views.
#include "tests/parallel/collective_test.hpp"

namespace trireme::test {
namespace {

class Collective : public CollectiveTest {};
INSTANTIATE_TEST_SUITE_P(
    Settings, Collective,
    testing::Values(
        Setting{"host", DType::f32, 1 << 20, false}, Setting{"host", DType::f32, 1000, true},
        Setting{"host", DType::f32, 7, false}, Setting{"host", DType::bf16, 1000, true},
        Setting{"fenced", DType::f32, 1 << 20, false}, Setting{"fenced", DType::f32, 1000, true},
        Setting{"fenced", DType::bf16, 7, false}, Setting{"ref", DType::f64, 1000, true},
        Setting{"host", DType::f32, 1000, true, TransportKind::device},
        Setting{"host", DType::f32, 7, false, TransportKind::device},
        Setting{"host", DType::bf16, 1000, true, TransportKind::device},
        Setting{"ref", DType::f64, 1000, false, TransportKind::device}),
    [](const auto& p) { return name_of(p.param); });

constexpr std::int64_t odd_count = 2503;  // three chunks of 1000, many of 7

std::vector<double> joined(std::int64_t n, DType t) {
  std::vector<double> all;
  for (int r = 0; r < world().size(); ++r)
    for (const double x : numbers(n, r, t)) all.push_back(x);
  return all;
}

TEST_P(Collective, GatherPutsPartsInOrderOfRank) {
  const auto src = tensor(odd_count, rank());
  const auto dst = blank(odd_count * ranks(), Queue::gather);

  auto pending = comm().all_gather(backend(), after_compute(Queue::gather), dst.view(), src.view(),
                                   {OperationKind::gather});
  EXPECT_TRUE(pending.in_flight());
  dst.used(pending.wait(Queue::compute));

  EXPECT_FALSE(pending.in_flight());
  EXPECT_EQ(values(dst), joined(odd_count, type()));
}

TEST_P(Collective, GatherTakesItsOwnPartFromItsPlace) {
  const auto dst = blank(odd_count * ranks());
  const auto own = dst.slice(odd_count * rank(), {odd_count});
  write(backend(), Queue::compute, own.view(), numbers(odd_count, rank(), type()));

  auto pending = comm().all_gather(backend(), after_compute(Queue::gather), dst.view(), own.view(),
                                   {OperationKind::gather});
  dst.used(pending.wait(Queue::compute));

  EXPECT_EQ(values(dst), joined(odd_count, type()));
}

// What routers gather of each rank: integers, of which no bit may be lost.
TEST_P(Collective, GathersCounts) {
  constexpr std::int64_t n = 1003;
  const auto counts = [](std::int64_t of_rank) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < n; ++i) all.push_back((of_rank + 1) * 0x0102030405060708 + i);
    return all;
  };
  const auto dst = Tensor::empty(backend(), {n * ranks()}, DType::i64, MemoryKind::transient);
  const auto own = dst.slice(n * rank(), {n});
  const auto mine = counts(rank());
  backend().upload(Queue::compute, own.view(), std::as_bytes(std::span(mine)));

  auto pending = comm().all_gather(backend(), after_compute(Queue::exchange), dst.view(),
                                   own.view(), {OperationKind::exchange});
  dst.used(pending.wait(Queue::compute));

  std::vector<std::int64_t> all(static_cast<std::size_t>(n * ranks())), want;
  backend().download(Queue::compute, std::as_writable_bytes(std::span(all)), dst.view());
  for (int r = 0; r < ranks(); ++r)
    for (const auto x : counts(r)) want.push_back(x);
  EXPECT_EQ(all, want);
}

// A transport between devices sums f32 before it is added, all else adds one contribution after the
// other.
bool summed_by_transport(const Setting& s) {
  return s.transport == TransportKind::device && s.type == DType::f32 && world().size() > 1;
}

std::vector<double> plus(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(a[i] + b[i]);
  return a;
}

// The sum in the order of the contract, each step rounded to the type of dst.
std::vector<double> summed(std::int64_t n, DType type, DType wire, std::vector<double> sum) {
  const int size = world().size(), me = world().rank();
  for (int k = 0; k < size; ++k) {
    const auto theirs = numbers(n * size, (me + k) % size, type);
    for (std::int64_t i = 0; i < n; ++i) {
      double x = theirs[static_cast<std::size_t>(me * n + i)];
      if (k > 0 && wire == DType::bf16) x = static_cast<float>(bf16(static_cast<float>(x)));
      auto& s = sum[static_cast<std::size_t>(i)];
      s += x;
      if (type == DType::f32) s = static_cast<float>(s);
      if (type == DType::bf16) s = static_cast<float>(bf16(static_cast<float>(s)));
    }
  }
  return sum;
}

std::vector<double> zeros(std::int64_t n) {
  return std::vector<double>(static_cast<std::size_t>(n));
}

TEST_P(Collective, ScatterSumsInOrder) {
  const auto src = tensor(odd_count * ranks(), rank());
  const auto dst = blank(odd_count, Queue::scatter);

  auto pending =
      comm().reduce_scatter(backend(), after_compute(Queue::scatter), dst.view(), src.view(),
                            Accumulate::overwrite, type(), {OperationKind::scatter});
  dst.used(pending.wait(Queue::compute));

  EXPECT_EQ(values(dst), summed(odd_count, type(), type(), zeros(odd_count)));
}

TEST_P(Collective, ScattersIntoOneViewAddInOrder) {
  const auto src = tensor(odd_count * ranks(), rank());
  const auto dst = tensor(odd_count, rank(), 5);
  const auto start = [&] {
    return comm().reduce_scatter(backend(), after_compute(Queue::scatter), dst.view(), src.view(),
                                 Accumulate::add, type(), {OperationKind::scatter});
  };

  auto first = start(), second = start();
  second.wait(Queue::compute);
  first.wait(Queue::compute);

  if (summed_by_transport(GetParam())) {
    const auto sum = summed(odd_count, type(), type(), zeros(odd_count));
    EXPECT_EQ(values(dst), plus(plus(numbers(odd_count, rank(), type(), 5), sum), sum));
    return;
  }
  const auto once = summed(odd_count, type(), type(), numbers(odd_count, rank(), type(), 5));
  EXPECT_EQ(values(dst), summed(odd_count, type(), type(), once));
}

TEST_P(Collective, ScatterIntoItsOwnPart) {
  const auto src = tensor(odd_count * ranks(), rank());
  const auto own = src.slice(odd_count * rank(), {odd_count});

  auto pending =
      comm().reduce_scatter(backend(), after_compute(Queue::scatter), own.view(), src.view(),
                            Accumulate::overwrite, type(), {OperationKind::scatter});
  pending.wait(Queue::compute);

  EXPECT_EQ(values(own), summed(odd_count, type(), type(), zeros(odd_count)));
}

TEST_P(Collective, ContributionsTravelAsBf16RoundedOnce) {
  if (type() != DType::f32) GTEST_SKIP() << "only f32 travels as another type";
  const auto src = tensor(odd_count * ranks(), rank());
  const auto dst = blank(odd_count);
  const auto before = comm().bytes_sent();

  auto pending =
      comm().reduce_scatter(backend(), after_compute(Queue::scatter), dst.view(), src.view(),
                            Accumulate::overwrite, DType::bf16, {OperationKind::scatter});
  pending.wait(Queue::compute);

  EXPECT_EQ(values(dst), summed(odd_count, type(), DType::bf16, zeros(odd_count)));
  EXPECT_EQ(comm().bytes_sent() - before, 2 * odd_count * (ranks() - 1));
}

// What a passes to b: of uneven length, and now and then nothing.
std::int64_t sent_between(int a, int b) {
  return a == b || (a + 2 * b) % 5 == 4 ? 0 : 1200 * a + 17 * b + 1;
}

TEST_P(Collective, ExchangePassesWhatIsThere) {
  std::vector<Tensor> in, out;
  std::vector<View> dst;
  std::vector<ConstView> src;
  for (int r = 0; r < ranks(); ++r) {
    const auto to = sent_between(rank(), r), from = sent_between(r, rank());
    out.push_back(to ? tensor(to, rank(), static_cast<std::uint64_t>(2 + r)) : Tensor());
    in.push_back(from ? blank(from) : Tensor());
    dst.push_back(in.back().view());
    src.push_back(out.back().view());
  }

  auto pending = comm().exchange(backend(), after_compute(Queue::exchange), dst, src,
                                 {OperationKind::exchange});
  pending.wait(Queue::compute);

  for (int r = 0; r < ranks(); ++r)
    if (const auto n = sent_between(r, rank())) {
      EXPECT_EQ(values(in[static_cast<std::size_t>(r)]),
                numbers(n, r, type(), static_cast<std::uint64_t>(2 + rank())));
    }
}

// Rank 1 gets much, rank 0 nothing, and rank 2 sends nothing.
std::int64_t load_between(int a, int b) {
  return a == b || a == 2 || b == 0 ? 0 : b == 1 ? odd_count : 3 * a + 1;
}

// Memory for staging is that of the largest load, whatever this rank sends or receives.
TEST_P(Collective, ExchangeOfUnevenLoadsTakesTheSameStagingOnEveryRank) {
  constexpr std::int64_t most = odd_count + 100;
  const auto size = static_cast<std::size_t>(ranks());
  std::vector<Tensor> in(size), out(size);
  std::vector<View> dst;
  std::vector<ConstView> src;
  for (std::size_t r = 0; r < size; ++r) {
    const int peer = static_cast<int>(r);
    if (const auto n = load_between(rank(), peer)) out[r] = tensor(n, rank(), 2 + r);
    if (const auto n = load_between(peer, rank())) in[r] = blank(n);
    dst.push_back(in[r].view());
    src.push_back(out[r].view());
  }
  const auto staging = [&] {
    return backend().account().live[static_cast<std::size_t>(MemoryKind::staging)];
  };
  const auto before = staging();

  auto pending = comm().exchange(backend(), after_compute(Queue::exchange), dst, src,
                                 {OperationKind::exchange}, ExchangeLimit{most, type()});
  const auto taken = staging() - before;
  pending.wait(Queue::compute);

  EXPECT_EQ(staging(), before);
  for (int r = 0; r < ranks(); ++r)
    if (const auto n = load_between(r, rank())) {
      EXPECT_EQ(values(in[static_cast<std::size_t>(r)]),
                numbers(n, r, type(), static_cast<std::uint64_t>(2 + rank())));
    }
  // Two buffers for each direction, in the arena's granules of 256 bytes.
  const bool staged = !backend().host_readable() && ranks() > 1;
  const auto buffers =
      2 * bytes_of(type()) * static_cast<std::size_t>(std::min(most, GetParam().chunk));
  EXPECT_EQ(taken, staged ? 2 * ((buffers + 255) / 256 * 256) : 0);
}

// Everybody sends all microbatches before anybody receives one.
TEST_P(Collective, SendsPostAndReturn) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has nobody to send to";
  if (GetParam().transport == TransportKind::device)
    GTEST_SKIP() << "on a stream a send waits for its receive";
  const int next = (rank() + 1) % ranks(), previous = (rank() + ranks() - 1) % ranks();
  std::vector<Tensor> sent, received;
  std::vector<Pending> pending;

  for (int m = 0; m < 6; ++m) {
    sent.push_back(tensor(odd_count + m, rank(), static_cast<std::uint64_t>(m)));
    pending.push_back(comm().send(backend(), after_compute(Queue::down), sent.back().view(), next,
                                  {OperationKind::send, {}, m}));
  }
  for (const int m : {3, 0, 1, 5, 2, 4}) {
    received.push_back(blank(odd_count + m));
    auto p = comm().receive(backend(), after_compute(Queue::up), received.back().view(), previous,
                            {OperationKind::receive, {}, m});
    received.back().used(p.wait(Queue::compute));
    EXPECT_EQ(values(received.back()),
              numbers(odd_count + m, previous, type(), static_cast<std::uint64_t>(m)));
  }
  for (auto& p : pending) p.wait(Queue::compute);
}

TEST_P(Collective, EmptyViewsMove) {
  const auto src = blank(0), dst = blank(0);

  auto gather =
      comm().all_gather(backend(), Queue::gather, dst.view(), src.view(), {OperationKind::gather});
  auto scatter = comm().reduce_scatter(backend(), Queue::scatter, dst.view(), src.view(),
                                       Accumulate::add, type(), {OperationKind::scatter});

  scatter.wait(Queue::compute);
  gather.wait(Queue::compute);
}

}  // namespace
}  // namespace trireme::test
