// A pretended communicator on `dry` reports what a real one does: bytes sent, every mark of the
// account, and that no access is out of order.
#include "lib/comm/transport/pretended_transport.hpp"
#include "tests/parallel/collective_test.hpp"

namespace trireme::test {
namespace {

// A step of everything, with blocks taken and given while operations are in flight.
void everything(Backend& b, const Communicator& c, DType type) {
  const int me = c.rank(), size = c.size();
  const auto blank = [&](std::int64_t n, Queue first = Queue::compute) {
    return Tensor::empty(b, {n}, type, MemoryKind::transient, first);
  };
  const auto after_compute = [&](Queue q) {
    b.wait(q, b.record(Queue::compute));
    return q;
  };
  std::vector<Pending> leaving;
  for (int m = 0; m < 3; ++m) {
    const std::int64_t n = 700 + 31 * m;
    const auto shard = blank(n);
    b.put(Queue::compute, kernel::Fill{.dst = shard.view(), .value = 1});
    auto whole = blank(n * size, Queue::gather);
    auto gather = c.all_gather(b, after_compute(Queue::gather), whole.view(), shard.view(),
                               {OperationKind::gather, "u", m});
    auto work = blank(5000);
    b.put(Queue::compute, kernel::Fill{.dst = work.view(), .value = 2});
    c.progress();
    whole.used(gather.wait(Queue::compute));
    auto gradient = blank(n * size);
    b.put(Queue::compute, kernel::Copy{.dst = gradient.view(), .src = whole.view()});
    whole = {};
    auto scatter = c.reduce_scatter(
        b, after_compute(Queue::scatter), shard.view(), gradient.view(), Accumulate::overwrite,
        m == 1 && type == DType::f32 ? DType::bf16 : type, {OperationKind::scatter, "u", m});
    scatter.keep(std::move(gradient));
    scatter.keep(shard);
    leaving.push_back(std::move(scatter));

    std::vector<Tensor> in, out;
    std::vector<View> dst;
    std::vector<ConstView> src;
    for (int r = 0; r < size; ++r) {
      out.push_back(r != me ? blank(100 * (me + 1) + r) : Tensor());
      in.push_back(r != me ? blank(100 * (r + 1) + me) : Tensor());
      if (out.back()) b.put(Queue::compute, kernel::Fill{.dst = out.back().view(), .value = 1});
      dst.push_back(in.back().view());
      src.push_back(out.back().view());
    }
    auto exchange =
        c.exchange(b, after_compute(Queue::exchange), dst, src, {OperationKind::exchange});
    for (const auto& t : in)
      if (t) exchange.keep(t);
    for (auto& t : out)
      if (t) exchange.keep(std::move(t));
    exchange.wait(Queue::compute);
    if (size > 1) {
      auto to = blank(n), from = blank(n, Queue::up);
      b.put(Queue::compute, kernel::Fill{.dst = to.view(), .value = 3});
      Pending send, receive;
      // Between devices a send ends when it is received, so in a ring some receive first.
      for (const bool sends : {me % 2 == 0, me % 2 != 0})
        if (sends)
          send = c.send(b, after_compute(Queue::down), to.view(), (me + 1) % size,
                        {OperationKind::send, {}, m});
        else
          receive = c.receive(b, after_compute(Queue::up), from.view(), (me + size - 1) % size,
                              {OperationKind::receive, {}, m});
      from.used(receive.wait(Queue::compute));
      send.keep(std::move(to));
      leaving.push_back(std::move(send));
    }
  }
  for (auto& p : leaving) p.wait(Queue::compute);
}

class Pretend : public testing::TestWithParam<Setting> {};
INSTANTIATE_TEST_SUITE_P(
    Settings, Pretend,
    testing::Values(Setting{"host", DType::f32, 1 << 20, false},
                    Setting{"host", DType::f32, 300, true},
                    Setting{"host", DType::f32, 300, true, TransportKind::device},
                    Setting{"ref", DType::f64, 300, false, TransportKind::device},
                    Setting{"fenced", DType::f32, 300, false},
                    Setting{"fenced", DType::f32, 1 << 20, true},
                    Setting{"ref", DType::f64, 300, false}),
    [](const auto& p) { return name_of(p.param); });

TEST_P(Pretend, TellsBytesSentAndTheAccount) {
  const auto& s = GetParam();
  const BackendChoice choice{s.backend, 1, true};
  world().configure({.chunk = s.chunk, .random_delays = s.delays ? 3U : 0U});
  const auto backend = open_backend(choice);
  Dry dry(dry_target(choice));
  const auto real = connected_world(s.transport);
  const auto pretended = Communicator::pretend(world().rank(), world().size(), world().settings());
  if (s.transport == TransportKind::device) pretended.connect(transport::pretended_device);

  everything(*backend, real, s.type);
  everything(dry, pretended, s.type);

  EXPECT_EQ(pretended.bytes_sent(), real.bytes_sent());
  EXPECT_EQ(dry.races(), std::vector<std::string>{});
  const auto &a = dry.account(), &b = backend->account();
  EXPECT_EQ(a.live, b.live);
  EXPECT_EQ(a.peak, b.peak);
  EXPECT_EQ(a.live_all, b.live_all);
  EXPECT_EQ(a.peak_all, b.peak_all);
  EXPECT_EQ(a.reserved, b.reserved);
  EXPECT_EQ(a.pinned_reserved, b.pinned_reserved);
  EXPECT_EQ(a.live_all, 0U);
}

}  // namespace
}  // namespace trireme::test
