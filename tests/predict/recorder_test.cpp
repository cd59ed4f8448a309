// A recording has the work and the messages that the plan counts, in the run's order.
#include "lib/predict/recorder.hpp"
#include "lib/plan/rank_kinds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "lib/pipe/executor.hpp"
#include "tests/support/dry.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

static PlanInput input(Grid grid, int stage = 3) {
  PlanInput in;
  in.setup.model = test::tiny_llama();
  in.setup.model.max_context = 8;
  in.setup.zero.stage = stage;
  in.train = {.batch = 8, .microbatch = 2, .steps = 1};
  in.grid = grid;
  in.evaluation = PlanEvaluation::left_out;
  return in;
}

struct Sums {
  double flops = 0, sent = 0;
};

static Sums sums(const Recording& r) {
  Sums s;
  for (const auto& a : r.actions)
    if (a.what == Action::What::compute)
      s.flops += r.workloads[static_cast<std::size_t>(a.index)].flops;
  for (const auto& t : r.transfers) s.sent += t.bytes_out();
  return s;
}

TEST(Recorder, CountsWhatThePlanCounts) {
  for (const auto& [host, reduce] :
       {std::pair{true, DType::f32}, {true, DType::bf16}, {false, DType::f32}})
    for (const auto grid : {Grid{1, 1, 1}, Grid{1, 4, 1}, Grid{1, 2, 2}, Grid{2, 2, 1}}) {
      auto in = input(grid);
      in.setup.reduce = reduce;
      const auto target = roomy_target(host);
      if (!host) in.transport = TransportKind::device;
      const auto kinds = RankKinds(in).ranks();
      for (std::size_t k = 0; k < kinds.size(); ++k) {
        const auto plan = plan_rank(in, target, kinds[k]);
        const auto s = sums(record_step(in, target, {2}, kinds[k]));

        EXPECT_EQ(s.flops, plan.step_flops) << describe(grid) << " rank " << kinds[k];
        EXPECT_EQ(s.sent, static_cast<double>(plan.step_traffic.all()));
      }
    }
}

// Copies are summed as soon as a unit's gradient is complete, not after backward.
TEST(Recorder, SumsOfReplicasOverlapBackward) {
  for (const int shard : {1, 2}) {
    auto in = input({1, 4, 1}, shard == 1 ? 0 : 3);
    in.setup.zero.shard = shard == 1 ? 0 : shard;
    in.train.batch = 16;  // two microbatches
    const auto r = record_step(in, roomy_target(), {4}, 0);
    std::int64_t end = 0;
    for (const auto& s : r.scopes)
      if (s.name == backward_span) end = std::max(end, s.end);
    std::int64_t before = 0, all = 0;
    for (std::int64_t i = 0; i < std::ssize(r.actions); ++i) {
      const auto& a = r.actions[static_cast<std::size_t>(i)];
      if (a.what != Action::What::call) continue;
      if (r.transfers[static_cast<std::size_t>(a.index)].comm != Comm::replicas) continue;
      ++all;
      before += i < end;
    }
    // A reduce-scatter and a gather for each segment; what is last, the embedding's, comes after.
    EXPECT_GT(all, 8);
    EXPECT_GE(before, all - 4) << "shards of " << shard;
  }
}

TEST(Recorder, TellsNearFromFar) {
  const auto in = input({1, 4, 1});
  const auto near = record_step(in, roomy_target(), {4}, 0);
  const auto far = record_step(in, roomy_target(), {2}, 0);

  for (const auto& t : near.transfers) EXPECT_EQ(t.out_far.messages, 0);
  double close = 0, distant = 0;
  for (const auto& t : far.transfers) close += t.out_near.bytes, distant += t.out_far.bytes;
  EXPECT_GT(close, 0);
  EXPECT_EQ(distant, 2 * close);  // one rank of the node, two of the other
}

// The second of two stages begins within a node: three of its six ranks stand on that one.
TEST(Recorder, KnowsTheNodesOfAGroupThatBeginsWithinOne) {
  auto in = input({2, 6, 1});
  in.train.batch = 12;
  const auto kinds = RankKinds(in).ranks();
  const auto spreads = [&](std::size_t kind) {
    const auto r = record_step(in, roomy_target(), {9}, kinds[kind]);
    const auto gather = std::ranges::find(r.transfers, Comm::gather, &Transfer::comm);
    EXPECT_EQ(gather->ranks, 6);
    return gather->spread;
  };
  EXPECT_EQ(spreads(0), (NodeSpread{1, 6}));
  EXPECT_EQ(spreads(1), (NodeSpread{2, 3}));
}

TEST(Recorder, NamesTheScopesOfATrace) {
  const auto r = record_step(input({1, 1, 1}), roomy_target(), {1}, 0);

  const auto forwards = std::ranges::count(r.scopes, "forward", &Scope::name);
  EXPECT_EQ(forwards, 4);
  for (const auto& s : r.scopes) {
    EXPECT_LE(s.begin, s.end);
    EXPECT_LE(s.end, std::ssize(r.actions));
  }
}

// What computes waits for its own weights; those of the next unit may still be on their way.
TEST(Recorder, AUnitIsNotWaitedForTogetherWithTheNext) {
  auto in = input({1, 4, 1});
  in.setup.model.layers = 4;
  in.transport = TransportKind::device;
  const auto r = record_step(in, roomy_target(false), {4}, 0);
  std::map<std::uint64_t, int> called_before;  // gathers, by ticket
  int called = 0, waited_for = 0, ahead = 0;
  for (const auto& a : r.actions) {
    if (a.what == Action::What::call) called += a.queue == Queue::gather;
    if (a.what == Action::What::finish) waited_for += a.queue == Queue::gather;
    if (a.event.queue != Queue::gather) continue;
    if (a.what == Action::What::record) called_before[a.event.ticket] = called;
    if (a.what != Action::What::wait || a.queue != Queue::compute) continue;
    EXPECT_LE(called_before[a.event.ticket], waited_for);
    ahead += called > waited_for;
  }
  EXPECT_GT(ahead, 8);
}

// Each wait is for an event that was recorded before, so a simulation is never stuck on one.
TEST(Recorder, EventsComeBeforeTheirWaits) {
  auto in = input({2, 2, 1});
  in.transport = TransportKind::device;
  const auto r = record_step(in, roomy_target(false), {2}, 0);
  std::array<std::uint64_t, queue_count> last{};
  int waits = 0;
  for (const auto& a : r.actions) {
    auto& ticket = last[static_cast<std::size_t>(a.event.queue)];
    if (a.what == Action::What::record) ticket = a.event.ticket;
    if (a.what != Action::What::wait || ticket == 0) continue;
    EXPECT_LE(a.event.ticket, ticket);
    ++waits;
  }
  EXPECT_GT(waits, 10);
}

}  // namespace trireme
