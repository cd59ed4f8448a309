// Digests of a model do not depend on the grid that trains it; a fault on one rank is found on all,
// named by its rank, and leaves nothing behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "lib/comm/transport/mpi_transport.hpp"
#include "lib/shard/digests.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/tampering.hpp"
#include "tests/support/tampering_transport.hpp"

namespace trireme {
namespace {

using test::ParityCase;
using testing::HasSubstr;

// Every axis and stage that this launch has; counted, so that all have the same bits.
std::vector<ParityCase> cases() {
  const int n = test::world().size();
  std::vector<ParityCase> all;
  const auto add = [&](const Grid& grid, int zero, int shard = 0) {
    auto& p = all.emplace_back();
    p.grid = grid;
    p.zero.stage = zero;
    p.zero.shard = shard;
    p.size = n == 3 ? 24 : 16;
    p.microbatches = grid.pipe == 1 ? 4 : 2 * grid.pipe;
    p.optimizer = OptimizerKind::adamw;
  };
  if (n == 4) {
    add({2, 2, 1}, 3);
    add({1, 4, 1}, 3, 2);
    add({1, 2, 2}, 2);
  } else {
    add({1, n, 1}, 3);
    add({1, n, 1}, 0);
    if (n > 1) add({n, 1, 1}, 1);
    if (n == 2) add({1, 1, n}, 2);
  }
  // Two grids with a rule for matrices, too.
  for (std::size_t i = 0; i < 2; ++i) {
    all.push_back(all[i]);
    all.back().optimizer = OptimizerKind::shampoo;
  }
  return test::exact_cases(all, "host", DType::f32);
}

struct Running {
  explicit Running(const ParityCase& c) : Running(c, test::parity_axes(c)) {}
  Running(const ParityCase& c, const Axes& over) : p(c), axes(over) {
    trainer->store().initialize(3, 1);
  }
  StepResult step(int s, Replay replay) {
    return trainer->step(s, test::learning_rate(p), test::parity_step(p, *trainer, s), {}, replay);
  }

  ParityCase p;
  Axes axes;
  std::unique_ptr<Backend> host = open_backend(test::backend_of(p, false));
  test::Tampering backend{*host};
  Workspace workspace{backend};
  std::unique_ptr<Trainer> trainer = [this] {
    auto setup = test::parity_setup(p);
    setup.check_memory = true;
    return std::make_unique<Trainer>(backend, axes, setup);
  }();
};

TEST(Replay, DigestsAreThoseOfAnyGrid) {
  std::map<std::tuple<std::int64_t, std::int64_t, OptimizerKind>, DigestTable> seen;
  std::size_t compared = 0;
  for (const auto& c : cases()) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    Running run(c);
    run.step(0, Replay::no);
    const auto first = run.trainer->digests();
    EXPECT_EQ(run.step(1, Replay::yes).fault, "");
    const auto second = run.trainer->digests();
    EXPECT_NE(first, second);
    const auto [it, fresh] = seen.try_emplace({c.size, c.microbatches, c.optimizer}, second);
    EXPECT_EQ(it->second, second);
    compared += !fresh;
  }
  EXPECT_TRUE(compared > 0);
}

// A norm's output in the forward of the rank's second microbatch.
TEST(Replay, AFaultIsNamedByItsRankAndLeavesNothing) {
  const int n = test::world().size(), culprit = n - 1;
  for (const auto& c : cases()) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    Running clean(c), faulty(c);
    clean.step(0, Replay::no);
    if (test::world().rank() == culprit)
      faulty.backend.after = test::flip_in(5, &kernel::ResidualNorm::y_BTC, 20);

    const auto fault = faulty.step(0, Replay::yes).fault;

    EXPECT_THAT(fault, HasSubstr("first in the forward pass of"));
    EXPECT_THAT(fault, HasSubstr(fmt::format("on rank {} (", culprit)));
    EXPECT_EQ(faulty.trainer->digests(), clean.trainer->digests());
    EXPECT_EQ(faulty.step(1, Replay::yes).fault, "");
  }
}

// What a scatter brought: the gradients are right until they leave.
TEST(Replay, AFaultOnTheWayIsFoundInTheSum) {
  const int n = test::world().size();
  if (n == 1) GTEST_SKIP() << "one rank sends nothing";
  ParityCase c = cases()[0];
  Running faulty(c);
  auto& store = faulty.trainer->store();
  if (test::world().rank() == 0)
    faulty.backend.after = [&, done = false](const kernel::Operation& o) mutable {
      if (done || !std::holds_alternative<kernel::SumSquares>(o)) return;
      done = true;
      test::flip(store.gradients().sum(1).view(), 2, 33);
    };

  const auto fault = faulty.step(0, Replay::yes).fault;

  EXPECT_THAT(fault, HasSubstr("in the sum of the gradient of"));
  EXPECT_THAT(fault, HasSubstr("on rank 0 ("));
}

// A message's bit, of weights, gradients, heads or activations: it is found, or changes nothing, as
// what lies between the parameters of a segment.
TEST(Replay, ABitOfAMessageIsFound) {
  const int n = test::world().size();
  if (n == 1) GTEST_SKIP() << "one rank sends nothing";
  const auto fault = std::make_shared<test::MessageFault>();
  const Communicator spoiled(
      std::make_unique<test::TamperingTransport>(transport::mpi_world(), fault));
  for (const auto& c : cases()) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    const auto axes = make_axes(spoiled, c.grid, shard_ranks(c.zero, c.grid));
    Running clean(c, axes);
    *fault = {};
    EXPECT_EQ(clean.step(0, Replay::no).fault, "");
    const auto messages = fault->received;
    int found = 0;
    for (const int part : {1, 4}) {
      Running run(c, axes);
      fault->received = 0;
      fault->spoiled = test::world().rank() == n - 1 ? messages * part / 5 : -1;

      const auto r = run.step(0, Replay::yes);

      found += !r.fault.empty();
      EXPECT_TRUE(run.trainer->digests() == clean.trainer->digests()) << r.fault;
    }
    EXPECT_GT(found, 0);
  }
}

// The sums that a replica is sent back, of whose weights another rank speaks; in the second
// execution, as the third is the one that stays. Without a second one the replicas would part.
TEST(Replay, ABitOfASumThatAReplicaGetsIsFound) {
  const int n = test::world().size();
  if (n == 1) GTEST_SKIP() << "one rank sends nothing";
  const auto fault = std::make_shared<test::MessageFault>();
  const Communicator spoiled(
      std::make_unique<test::TamperingTransport>(transport::mpi_world(), fault));
  auto c = cases()[0];
  c.grid = {1, n, 1};
  c.zero = {};
  c.zero.stage = 0;
  const auto axes = make_axes(spoiled, c.grid, shard_ranks(c.zero, c.grid));
  Running clean(c, axes), faulty(c, axes);
  *fault = {};
  clean.step(0, Replay::no);
  const auto messages = fault->received;
  fault->received = 0;
  if (test::world().rank() == n - 1) fault->spoiled = 2 * messages - 1;

  EXPECT_THAT(faulty.step(0, Replay::yes).fault, HasSubstr("in the sum of the gradient of"));
  EXPECT_EQ(digests_of_memory(faulty.trainer->store()), digests_of_memory(clean.trainer->store()));
}

// Whose sum it is, is not who spoiled it.
TEST(Replay, AFaultInASumThatRanksShareIsLaidAtNoOnesDoor) {
  const int n = test::world().size();
  if (n == 1) GTEST_SKIP() << "one rank shares nothing";
  Running faulty(cases()[0]);
  if (test::world().rank() == n - 1)
    faulty.backend.after = test::flip_in(5, &kernel::AddFixed::sum_N, 40);

  EXPECT_THAT(faulty.step(0, Replay::yes).fault,
              HasSubstr("any rank that shares it may have added a wrong value"));
}

TEST(Replay, AChangedWeightOfOneRankEndsTheStepOnAll) {
  const int n = test::world().size();
  for (const auto& c : cases()) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    Running run(c);
    run.step(0, Replay::no);
    auto& store = run.trainer->store();
    if (test::world().rank() == n - 1) {
      const auto id = store.spec().blocks.back().ffn_out;
      const auto segment = store.layout().of_param[id.index()]->segment;
      test::flip(store.shards()
                     .views(segment, store.sharding().own(store.layout().segments[segment]))
                     .master,
                 3, 1);
    }
    try {
      run.step(1, Replay::no);
      ADD_FAILURE() << "no fault";
    } catch (const MemoryFault& e) {
      EXPECT_THAT(e.what(), HasSubstr(fmt::format("on rank {} (", n - 1)));
    }
  }
}

}  // namespace
}  // namespace trireme
