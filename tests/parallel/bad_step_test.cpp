// A step that one rank alone spoils is skipped by all, and leaves nothing behind.
#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <optional>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"

namespace trireme {

using test::ParityCase;

namespace {

std::vector<ParityCase> cases() {
  const int n = test::world().size();
  std::vector<ParityCase> all;
  const auto add = [&](const Grid& grid, int zero) {
    auto& p = all.emplace_back();
    p.grid = grid;
    p.zero.stage = zero;
    p.size = n == 3 ? 12 : 16;
    p.microbatches = grid.pipe == 1 ? 4 : 2 * grid.pipe;
    p.optimizer = OptimizerKind::adamw;
    p.ema = 0.6;
    p.freeze = {{"blocks.0.*", 2, 0}};  // right behind the bad step: its sums must be gone
  };
  add({1, n, 1}, 0);
  add({1, n, 1}, 3);
  add({n, 1, 1}, 1);
  if (n != 3) add({1, 1, n}, 2);
  auto counted = test::exact_cases({all[1]}, "host", DType::f32);
  all.push_back(counted[0]);
  for (const auto optimizer : {OptimizerKind::muon, OptimizerKind::shampoo}) {
    all.push_back(all[optimizer == OptimizerKind::muon ? 1 : 2]);
    all.back().optimizer = optimizer;
  }
  return all;
}

struct Running {
  explicit Running(const ParityCase& c) : p(c) { trainer->store().initialize(3, 1); }
  StepResult step(int s, const ShouldAbandon& should_abandon = {}) {
    return trainer->step(s, test::learning_rate(p), test::parity_step(p, *trainer, s),
                         should_abandon);
  }
  // All weights and averages that are here.
  std::vector<std::vector<double>> weights() {
    std::vector<std::vector<double>> all;
    for (std::size_t i = 0; i < trainer->store().spec().params.size(); ++i) {
      all.push_back(test::weights_here(trainer->store(), ParamId::at(i)));
      all.push_back(test::averages_here(trainer->store(), ParamId::at(i)));
    }
    return all;
  }

  ParityCase p;
  std::unique_ptr<Backend> backend = open_backend(test::backend_of(p, true));
  Workspace workspace{*backend};
  std::unique_ptr<Trainer> trainer =
      std::make_unique<Trainer>(*backend, test::parity_axes(p), test::parity_setup(p));
};

// One weight of the last block, on the last rank alone; returns what it was.
template <class T>
double put_as(Store& store, T x) {
  const auto id = store.spec().blocks.back().ffn_out;
  const auto begin = store.own(id).begin;
  T before = 0;
  store.read(id, weights_array, begin, std::as_writable_bytes(std::span(&before, 1)));
  store.write(id, weights_array, begin, std::as_bytes(std::span(&x, 1)));
  return before;
}
double put(Store& store, double x) {
  return store.master() == DType::f64 ? put_as(store, x) : put_as(store, static_cast<float>(x));
}

void expect_equal(Running& one, Running& other) {
  for (int s = 2; s < 4; ++s) {
    const auto a = one.step(s), b = other.step(s);
    EXPECT_EQ(a.outcome, StepOutcome::updated);
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.grad_norm, b.grad_norm);
  }
  EXPECT_EQ(one.weights(), other.weights());
  const auto& store = one.trainer->store();
  for (std::size_t i = 0; i < store.spec().params.size(); ++i) {
    const auto id = ParamId::at(i);
    if (store.holds(id)) {
      EXPECT_EQ(store.count(id), other.trainer->store().count(id)) << i;
    }
  }
}

}  // namespace

TEST(BadStep, OfOneRankIsSkippedByAllAndLeavesNothing) {
  const bool last = test::world().rank() == test::world().size() - 1;
  for (const auto& c : cases()) {
    const auto name = test::name_of(c);
    SCOPED_TRACE(name);
    if (!test::next_case(name)) return;
    Running spoiled(c), spared(c);
    auto& store = spoiled.trainer->store();
    for (auto* run : {&spoiled, &spared}) ASSERT_EQ(run->step(0).outcome, StepOutcome::updated);
    double before = 0;
    if (last) before = put(store, std::numeric_limits<double>::infinity());
    store.refresh();

    const auto bad = spoiled.step(1);

    if (last) put(store, before);
    store.refresh();
    EXPECT_EQ(bad.outcome, StepOutcome::not_finite);
    EXPECT_NE(bad.culprit, "");
    expect_equal(spoiled, spared);
  }
}

// By the last rank, early enough for the last microbatch to be left out; those before it were
// computed and sent.
TEST(BadStep, ThatOneRankGivesUpIsDroppedByAllAndLeavesNothing) {
  const bool last = test::world().rank() == test::world().size() - 1;
  for (const auto& c : cases()) {
    const auto name = test::name_of(c);
    SCOPED_TRACE(name);
    if (!test::next_case(name)) return;
    Running dropping(c), spared(c);
    for (auto* run : {&dropping, &spared}) ASSERT_EQ(run->step(0).outcome, StepOutcome::updated);
    int asked = 0;

    const auto dropped = dropping.step(1, [&](int done, int of) {
      EXPECT_EQ(done, ++asked);
      return last && done == of - 1 - c.grid.pipe;
    });

    EXPECT_EQ(asked, c.microbatches - 1);
    EXPECT_EQ(dropped.outcome, StepOutcome::dropped);
    expect_equal(dropping, spared);
  }
}

}  // namespace trireme
