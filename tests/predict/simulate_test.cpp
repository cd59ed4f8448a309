// Steps written by hand, whose times can be counted on fingers.
#include "lib/predict/simulate.hpp"

#include <gtest/gtest.h>

#include "tests/support/machine.hpp"

namespace trireme {

using What = Action::What;
using Pattern = Transfer::Pattern;

// A step under construction: operations are fills, of a byte a nanosecond.
class Writer {
 public:
  explicit Writer(int stage = 0) { r.at.pipe = stage; }

  Writer& compute(double seconds, Queue q = Queue::compute) {
    Workload a;
    a.name = "fill";
    a.bytes = seconds * 1e9;
    r.workloads.push_back(a);
    return act(What::compute, q, static_cast<std::int32_t>(r.workloads.size()) - 1);
  }
  // `bytes` out, in, or both.
  Writer& call(Pattern p, Comm comm, Queue q, double bytes, int peer = -1) {
    Transfer t;
    t.pattern = p;
    t.comm = comm;
    t.queue = q;
    t.peer = peer;
    t.ranks = 2;
    t.spread = {1, 2};
    t.microbatch = 0;
    if (p != Pattern::receive) t.out_near = {bytes, 1};
    if (p != Pattern::send) t.in_near = {bytes, 1};
    r.transfers.push_back(t);
    return act(What::call, q, static_cast<std::int32_t>(r.transfers.size()) - 1);
  }
  Writer& finish(std::int32_t transfer) {
    return act(What::finish, r.transfers[static_cast<std::size_t>(transfer)].queue, transfer);
  }
  Writer& poll() { return act(What::poll); }
  Writer& agree() { return act(What::agree); }
  // `later` waits for what is on `earlier` so far.
  Writer& order(Queue later, Queue earlier) {
    const Event e{earlier, ++tickets_};
    r.actions.push_back({.what = What::record, .queue = earlier, .event = e});
    r.actions.push_back({.what = What::wait, .queue = later, .event = e});
    return *this;
  }

  Recording r;

 private:
  Writer& act(What what, Queue q = Queue::compute, std::int32_t index = -1) {
    r.actions.push_back({.what = what, .queue = q, .index = index});
    return *this;
  }
  std::uint64_t tickets_ = 0;
};

constexpr double shard(const KindTimes& k) {
  return k.exposed[static_cast<std::size_t>(Axis::shard)];
}

TEST(SimulateHost, OperationsRunOneAfterTheOther) {
  const Writer w = Writer().compute(1).compute(2);
  const auto s = simulate(test::plain_machine("host"), {&w.r, 1});

  EXPECT_NEAR(s.seconds, 3, 1e-9);
  EXPECT_EQ(s.kinds[0].bubble, 0);
}

// The receiver's processor copies: a gather of a second costs a second, wherever it is waited for.
TEST(SimulateHost, MessagesOfANodeTakeTheProcessorsTime) {
  const Writer w = Writer()
                       .call(Pattern::gather, Comm::gather, Queue::gather, 1e9)
                       .compute(1)
                       .poll()
                       .compute(1)
                       .finish(0);
  const auto s = simulate(test::plain_machine("host"), {&w.r, 1});

  EXPECT_NEAR(s.seconds, 3, 1e-4);
  EXPECT_NEAR(shard(s.kinds[0]), 1, 1e-4);
}

TEST(SimulateHost, AStageWaitsForTheOneBeforeIt) {
  const Writer first =
      Writer(0).compute(2).call(Pattern::send, Comm::down, Queue::down, 1e9, 1).finish(0).agree();
  const Writer second = Writer(1)
                            .call(Pattern::receive, Comm::down, Queue::down, 1e9, 0)
                            .finish(0)
                            .compute(1)
                            .agree();
  const std::vector<Recording> both{first.r, second.r};
  const auto s = simulate(test::plain_machine("host"), both);

  EXPECT_NEAR(s.seconds, 4, 1e-4);
  EXPECT_NEAR(s.kinds[1].bubble, 2, 1e-4);
  EXPECT_NEAR(s.kinds[1].exposed[static_cast<std::size_t>(Axis::pipe)], 1, 1e-4);
  EXPECT_NEAR(s.kinds[0].bubble, 1, 1e-4);  // the second still computes
}

TEST(SimulateHost, RanksThatNeverMeetAreAnError) {
  const Writer first = Writer(0).agree();
  const Writer second = Writer(1).compute(1);
  const std::vector<Recording> both{first.r, second.r};

  EXPECT_THROW(simulate(test::plain_machine("host"), both), Error);
}

// A gather on a queue of its own runs beside computing.
TEST(SimulateDevice, QueuesOverlapUntilAnEventOrdersThem) {
  const Writer hidden = Writer()
                            .call(Pattern::gather, Comm::gather, Queue::gather, 1e9)
                            .compute(3)
                            .order(Queue::compute, Queue::gather)
                            .compute(1);
  const Writer shown = Writer()
                           .call(Pattern::gather, Comm::gather, Queue::gather, 2e9)
                           .compute(0.5)
                           .order(Queue::compute, Queue::gather)
                           .compute(1);
  const auto a = simulate(test::plain_machine("cuda"), {&hidden.r, 1});
  const auto b = simulate(test::plain_machine("cuda"), {&shown.r, 1});

  EXPECT_NEAR(a.seconds, 4, 1e-4);
  EXPECT_NEAR(shard(a.kinds[0]), 0, 1e-4);
  EXPECT_NEAR(b.seconds, 3, 1e-4);
  EXPECT_NEAR(shard(b.kinds[0]), 1.5, 1e-4);
}

// Ten gathers and ten scatters of a second each have one link.
TEST(SimulateDevice, QueuesShareLinks) {
  Writer both;
  for (int i = 0; i < 10; ++i)
    both.call(Pattern::gather, Comm::gather, Queue::gather, 1e9)
        .call(Pattern::scatter, Comm::scatter, Queue::scatter, 1e9);
  both.order(Queue::compute, Queue::gather).order(Queue::compute, Queue::scatter).compute(1);
  const auto s = simulate(test::plain_machine("cuda"), {&both.r, 1});

  EXPECT_NEAR(s.seconds, 20 + 1, 1);
}

// Stage 0 posts its second send before stage 1 has received the first: nobody is stuck.
TEST(SimulateDevice, SendsMeetReceivesOnTheirQueues) {
  const Writer first = Writer(0)
                           .compute(1)
                           .order(Queue::down, Queue::compute)
                           .call(Pattern::send, Comm::down, Queue::down, 1e9, 1)
                           .compute(1)
                           .order(Queue::down, Queue::compute)
                           .call(Pattern::send, Comm::down, Queue::down, 1e9, 1)
                           .call(Pattern::receive, Comm::up, Queue::up, 1e9, 1)
                           .order(Queue::compute, Queue::up)
                           .compute(1);
  const Writer second = Writer(1)
                            .call(Pattern::receive, Comm::down, Queue::down, 1e9, 0)
                            .order(Queue::compute, Queue::down)
                            .compute(2)
                            .order(Queue::up, Queue::compute)
                            .call(Pattern::send, Comm::up, Queue::up, 1e9, 0)
                            .call(Pattern::receive, Comm::down, Queue::down, 1e9, 0);
  const std::vector<Recording> both{first.r, second.r};
  const auto s = simulate(test::plain_machine("cuda"), both);

  // 1 to compute, 1 down, 2 to compute, 1 up, 1 to compute.
  EXPECT_NEAR(s.seconds, 6, 1e-4);
  EXPECT_NEAR(s.kinds[1].bubble, 1, 1e-4);
  EXPECT_NEAR(s.kinds[0].bubble, 2, 1e-4);
}

// A host that is ahead of its device agrees while that computes: only then nothing is lost.
TEST(SimulateDevice, AHostThatAgreesEarlyLosesNothing) {
  const Writer ahead = Writer(0).compute(4).agree();
  Writer behind = Writer(1).compute(3);
  behind.r.actions.push_back({.what = What::download, .queue = Queue::compute});
  behind.agree();
  const std::vector<Recording> both{ahead.r, behind.r};
  const auto s = simulate(test::plain_machine("cuda"), both);

  EXPECT_NEAR(s.seconds, 4, 1e-4);
  EXPECT_NEAR(s.kinds[0].bubble, 0, 1e-9);
  EXPECT_NEAR(s.kinds[1].bubble, 0, 1e-9);
}

TEST(SimulateDevice, SmallOperationsWaitForTheirHost) {
  MachineModel m = test::plain_machine("cuda");
  m.launch = 1;
  const Writer w = Writer().compute(0.25).compute(0.25);
  const auto s = simulate(m, {&w.r, 1});

  EXPECT_NEAR(s.seconds, 2.25, 1e-9);
  EXPECT_NEAR(s.kinds[0].starved, 1.75, 1e-9);
}

TEST(TransferSeconds, ARingGoesThroughItsSlowestLink) {
  const MachineModel m = test::plain_machine("cuda");
  Transfer t;
  t.pattern = Pattern::gather;
  t.ranks = 8;
  t.spread = {2, 4};
  t.in_near = {3e8, 3};
  t.in_far = {4e8, 4};
  t.out_near = t.in_near;
  t.out_far = t.in_far;

  // 7e8 bytes at four ports of 1e8 bytes/s; 7 hops, of which one between the nodes.
  EXPECT_NEAR(transfer_seconds(m, t), 7e8 / 4e8 + 6e-6 + 1e-5, 1e-9);
  // Of six ranks, two are alone on their node, with two ports.
  t.ranks = 6;
  t.spread = {2, 2};
  EXPECT_NEAR(transfer_seconds(m, t), 7e8 / 2e8 + 4e-6 + 1e-5, 1e-9);
  // One alone, which has no neighbour of its own node: the ring goes through the others', too.
  t.ranks = 5;
  t.spread = {2, 1};
  t.in_near = t.out_near = {};
  EXPECT_NEAR(transfer_seconds(m, t), 4e8 / 1e8 + 3e-6 + 1e-5, 1e-9);
}

TEST(AgreementSeconds, GrowWithTheLogarithmOfTheNodes) {
  const MachineModel m = test::plain_machine("host");
  const auto seconds = [&](int ranks) {
    Recording r;
    r.ranks = ranks;
    r.ranks_of_node = 4;
    return agreement_seconds(m, r);
  };
  EXPECT_DOUBLE_EQ(seconds(4), 1e-6);
  EXPECT_DOUBLE_EQ(seconds(5), 1e-6 + 1e-5);
  EXPECT_DOUBLE_EQ(seconds(12), 1e-6 + 2e-5);  // three nodes: two rounds
  EXPECT_DOUBLE_EQ(seconds(4096), 1e-6 + 10e-5);
}

}  // namespace trireme
