// Schedules decide when a stage computes what, and not a bit of what comes of it.
#include <gtest/gtest.h>

#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme {

using test::ParityCase;

namespace {

// Of all ranks as stages.
std::vector<ParityCase> pipelines(int stages) {
  std::vector<ParityCase> cases(8);
  for (auto& c : cases) {
    c.grid = {stages, 1, 1};
    c.size = 4 * stages;
    c.microbatches = 2 * stages;
    c.optimizer = OptimizerKind::adamw;
    c.backend = "host";
    c.compute = c.reduce = DType::f32;
    c.steps = 2;
  }
  cases[1].flavour = "qwen";
  cases[1].dropout = 0.1;
  cases[2].flavour = "llama";
  cases[2].recompute = Recompute::block;
  cases[3].flavour = "gqa";
  cases[3].documents = true;
  cases[3].freeze = {{"embedding.*", 0, 0}, {"blocks.0.*", 0, 1}, {"blocks.5.*", 1, 0}};
  cases[4].compute = DType::bf16;
  cases[5].exact_chunk = 2;
  cases[6].chunk_tokens = 3;
  cases[7].backend = "fenced";
  cases[7].chunk_tokens = 5;
  cases[7].recompute = Recompute::block;
  cases[7].offload = Offload::inputs;
  return cases;
}

// The same pipeline in every other schedule that it has.
std::vector<ParityCase> other_schedules(const ParityCase& p) {
  std::vector<ParityCase> cases(1, p);
  cases[0].schedule = ScheduleKind::zero_bubble;
  cases.push_back(p);
  cases[1].schedule = ScheduleKind::zbv;
  cases[1].chunks = 2;
  for (int chunks = 2; chunks * p.grid.pipe <= 8 && chunks <= 3; ++chunks) {
    cases.push_back(p);
    cases.back().schedule = ScheduleKind::interleaved;
    cases.back().chunks = chunks;
  }
  return cases;
}

void expect_same_bits(const ParityCase& p) {
  const auto bits = test::digest_of(test::grid_course(p));
  for (const auto& other : other_schedules(p)) {
    SCOPED_TRACE(test::name_of(other));
    EXPECT_EQ(test::digest_of(test::grid_course(other)), bits);
  }
}

}  // namespace

TEST(Schedules, HaveTheSameBitsOnPipelines) {
  if (test::world().size() > 4) GTEST_SKIP() << "8 layers have no chunks of 8 stages";
  test::world().configure({.chunk = 300, .random_delays = 4});
  for (const auto& p : drawn(pipelines(test::world().size()), 3)) {
    if (!test::next_case(test::name_of(p))) break;
    expect_same_bits(p);
  }
}

// Sums over ranks are those of the same numbers, too.
TEST(Schedules, HaveTheSameBitsWithShards) {
  const int n = test::world().size();
  if (n != 4) GTEST_SKIP() << "two stages of two ranks";
  for (auto& p : drawn(pipelines(2), 3)) {
    p.zero.stage = 3;
    p.grid = p.dropout > 0 ? Grid{2, 1, 2} : Grid{2, 2, 1};
    if (!test::next_case(test::name_of(p))) break;
    expect_same_bits(p);
  }
}

// A second computation of a step is found to be the same, in every schedule.
TEST(Schedules, ReplayTheSameBits) {
  const int n = test::world().size();
  if (n > 4) GTEST_SKIP() << "8 layers have no chunks of 8 stages";
  for (const auto& p : other_schedules(pipelines(n)[1])) {
    SCOPED_TRACE(test::name_of(p));
    const auto backend = open_backend(test::backend_of(p, true));
    const Workspace workspace(*backend);
    Trainer trainer(*backend, test::parity_axes(p), test::parity_setup(p));
    trainer.store().initialize(3, 1);
    const auto r = trainer.step(0, 1e-3, test::parity_step(p, trainer, 0), {}, Replay::yes);
    EXPECT_EQ(r.outcome, StepOutcome::updated);
    EXPECT_EQ(r.fault, "");
  }
}

// Given up after the first microbatches, on all stages and chunks; the next step is as good as any.
TEST(Schedules, StepsThatAreGivenUpLeaveNothing) {
  const int n = test::world().size();
  if (n > 4) GTEST_SKIP() << "8 layers have no chunks of 8 stages";
  for (auto& p : other_schedules(pipelines(n)[0])) {
    p.microbatches = 4 * n;
    p.size = 8 * n;
    if (n > 1) p.zero.stage = 3;
    SCOPED_TRACE(test::name_of(p));
    const auto backend = open_backend(test::backend_of(p, true));
    const Workspace workspace(*backend);
    Trainer trainer(*backend, test::parity_axes(p), test::parity_setup(p));
    trainer.store().initialize(3, 1);
    const auto batches = test::parity_step(p, trainer, 0);
    const auto last = n - 1;
    const ShouldAbandon should_abandon = [&](int done, int) {
      return done > 0 && test::world().rank() == last;
    };
    EXPECT_EQ(trainer.step(0, 1e-3, batches, should_abandon).outcome, StepOutcome::dropped);
    EXPECT_EQ(trainer.step(0, 1e-3, batches).outcome, StepOutcome::updated);
  }
}

}  // namespace trireme
