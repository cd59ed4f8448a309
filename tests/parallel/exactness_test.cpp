// run.exactness = "invariant": losses, norms and weights are those of one rank, bit for bit, and
// what a step sends and takes is what its plan says. Drawn of a selection in which every grid of up
// to 8 ranks and every pair of other settings meet; exactness_full_test.cpp has every pair on each
// number of ranks.
#include <gtest/gtest.h>

#include <iostream>

#include "kernels/host/kernels.hpp"
#include "lib/base/array_names.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"

namespace trireme {

static void expect_bits_of_one_rank(DType compute) {
  for (const auto& c : drawn(test::exact_selection(test::world().size(), "host", compute), 5)) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, 0);
  }
}

TEST(Exactness, InvariantHasTheBitsOfOneRankInF32) {
  expect_bits_of_one_rank(DType::f32);
}

TEST(Exactness, InvariantHasTheBitsOfOneRankInBf16) {
  if (!host::bf16_products()) GTEST_SKIP() << "this processor cannot multiply bf16";
  expect_bits_of_one_rank(DType::bf16);
}

// Matrices of several tiles, which shards cut anywhere: each tile has the scale that it has on one
// rank, which sends nothing.
TEST(Exactness, WeightsThatAreSentInFp8HaveTheBitsOfOneRank) {
  const int n = test::world().size();
  int number = 0;
  for (const Grid& grid : test::parity_grids({n})) {
    test::ParityCase c;
    c.grid = grid;
    c.size = 16 % n == 0 ? 16 : 4 * n;
    c.layers = std::max(2, grid.pipe);
    c.width = 144;
    c.flavour = "llama";
    c.steps = 2;
    c.zero.stage = 1 + number % 3;
    if (number % 2 == 0) c.zero.stage = 3;
    if (number % 4 == 3 && grid.places() % 2 == 0) c.zero.shard = grid.places() / 2;
    c.zero.gather_type = GatherType::fp8;
    c.products = ProductType::fp8;
    c.fp8.head = ++number % 2 == 0;
    c.recompute = number % 2 == 0 ? Recompute::block : Recompute::none;
    c = test::exact_cases({c}, "host", DType::f32)[0];
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    test::expect_parity(c, 0);
  }
}

// The same weights arrive, whatever they are sent as. Two ranks add gradients in one order, whoever
// holds their sum; more do not.
TEST(Exactness, FastHasTheSameLossWhenWeightsAreSentInFp8) {
  const int n = test::world().size();
  test::ParityCase c;
  c.grid = {1, n, 1};
  c.size = 8 * n;
  c.layers = 2;
  c.width = 144;
  c.flavour = "llama";
  c.zero.stage = 3;
  c.products = ProductType::fp8;
  c = test::exact_cases({c}, "host", DType::f32)[0];
  c.exact_chunk = 0;
  const auto as_they_are = test::grid_course(c);
  c.zero.gather_type = GatherType::fp8;
  const auto in_fp8 = test::grid_course(c);
  EXPECT_EQ(in_fp8.losses[0], as_they_are.losses[0]);
  if (n <= 2) {
    EXPECT_EQ(in_fp8.losses, as_they_are.losses);
    EXPECT_EQ(in_fp8.weights, as_they_are.weights);
  }
}

// Whether a step overflows depends on them. Learned positions are shared out over seq.
TEST(Exactness, LeavesAreCountedAlikeOnEveryGrid) {
  const int n = test::world().size();
  std::vector<std::vector<double>> leaves;
  for (const Grid& grid : {Grid{1, 1, n}, Grid{1, n, 1}}) {
    test::ParityCase c;
    c.grid = grid;
    c.size = 16 % n == 0 ? 16 : 8 * n;
    c = test::exact_cases({c}, "host", DType::f32)[0];
    const auto backend = open_backend(test::backend_of(c, false));
    const Workspace workspace(*backend);
    Trainer trainer(*backend, test::parity_axes(c), test::parity_setup(c));
    trainer.store().initialize(3, 1);
    trainer.step(0, test::learning_rate(c), test::parity_step(c, trainer, 0));
    leaves.push_back(trainer.store().finish_gradients().leaves);
    test::world().all_reduce(leaves.back());
  }
  EXPECT_EQ(leaves[0], leaves[1]);
}

// A rank's share of the losses is small or large, the largest loss is one.
TEST(Exactness, EvaluationsAreRefusedAlikeOnEveryGrid) {
  const int n = test::world().size();
  const auto evaluated = [&](const Grid& grid, float scale) {
    test::ParityCase c;
    c.grid = grid;
    c.size = n == 3 ? 12 : 16;
    c = test::exact_cases({c}, "host", DType::f32)[0];
    const auto backend = open_backend(test::backend_of(c, false));
    const Workspace workspace(*backend);
    Trainer trainer(*backend, test::parity_axes(c), test::parity_setup(c));
    trainer.store().initialize(3, 1);
    const auto norm = trainer.store().spec().final_norm;
    const auto mine = trainer.store().own(norm);
    const std::vector<float> w(static_cast<std::size_t>(mine.count()), scale);
    if (!w.empty())
      trainer.store().write(norm, weights_array, mine.begin, std::as_bytes(std::span(w)));
    trainer.store().refresh();
    try {
      return fmt::format("{}", trainer.evaluate(test::parity_step(c, trainer, 0)).sum);
    } catch (const CountOverflow& e) {
      return std::string(e.what());
    }
  };
  int refused = 0, counted = 0;
  for (float scale = 1; scale < 1e9F; scale *= 64) {
    const auto whole = evaluated({1, 1, n}, scale);
    EXPECT_EQ(evaluated({1, n, 1}, scale), whole) << scale;
    EXPECT_EQ(evaluated({n, 1, 1}, scale), whole) << scale;
    (whole.find("may reach") == std::string::npos ? counted : refused) += 1;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(counted, 0);
}

// What comes of a few settings, for a suite of mutants that knows it from before.
static std::string printed_course(const test::ParityCase& c) {
  const auto digest = test::digest_of(test::grid_course(c));
  if (test::world().rank() == 0) std::cout << fmt::format("bits {} {}\n", test::name_of(c), digest);
  return digest;
}

static std::vector<test::ParityCase> few_cases() {
  return drawn(test::exact_cases(test::few_cases(test::world().size()), "host", DType::f32), 4);
}

TEST(Exactness, OfAFewSettings) {
  if (16 % test::world().size() != 0) GTEST_SKIP() << "their grids are of powers of two";
  for (const auto& c : few_cases()) {
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    EXPECT_EQ(printed_course(c), test::digest_of(test::one_rank_course(c)));
  }
}

TEST(Exactness, FastRepeatsItsBits) {
  if (16 % test::world().size() != 0) GTEST_SKIP() << "their grids are of powers of two";
  for (auto& c : few_cases()) {
    c.exact_chunk = 0;
    SCOPED_TRACE(test::name_of(c));
    if (!test::next_case(test::name_of(c))) break;
    EXPECT_EQ(printed_course(c), test::digest_of(test::grid_course(c)));
  }
}

// Elsewhere the grid shows: the comparison can fail.
TEST(Exactness, FastHasOtherBits) {
  const int n = test::world().size();
  if (n == 1) GTEST_SKIP() << "one rank has the bits of one rank";
  test::ParityCase c;
  c.grid = {1, n, 1};
  c.size = 8 * n;
  c = test::exact_cases({c}, "host", DType::f32)[0];
  c.exact_chunk = 0;
  EXPECT_NE(test::grid_course(c).norms, test::one_rank_course(c).norms);
}

}  // namespace trireme
