// f32 and bf16, on host or $TRIREME_TEST_BACKEND. The deck warms up: without it the first steps
// amplify rounding itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/open/open.hpp"
#include "lib/base/array_names.hpp"
#include "tests/parallel/parity.hpp"
#include "tests/parallel/world.hpp"
#include "tests/support/draw.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {

using test::ParityCase;

constexpr int steps = 20;

static ParityCase warm_case(Grid grid, const char* flavour, DType compute) {
  ParityCase p;
  p.grid = grid;
  p.flavour = flavour;
  p.microbatches = 4;
  p.dropout = 0.1;
  p.optimizer = OptimizerKind::adamw;
  p.backend = test::backend_or("host");
  p.compute = compute;
  p.reduce = DType::f32;
  return p;
}

static double warm_up(int step) {
  return 1e-3 * (step + 1) / 100;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<std::vector<float>> weights;  // by ParamId, what this rank holds
  std::vector<Range> own;
};

static std::vector<float> weights_of(Store& store, ParamId id) {
  std::vector<float> w(static_cast<std::size_t>(store.own(id).count()));
  if (!w.empty())
    store.read(id, weights_array, store.own(id).begin, std::as_writable_bytes(std::span(w)));
  return w;
}

// One flavour is wide enough that bf16 weights change in a few steps.
static TrainerSetup setup_of(const ParityCase& p) {
  auto s = test::parity_setup(p);
  if (p.flavour != "gqa") return s;
  s.model.width = 96;
  s.model.head_dim = s.model.width / s.model.heads;
  s.model.ffn_width = 384;
  s.model.layers = 4;
  return s;
}

// `order` of the microbatches of each step; empty: as they come.
static Trained train(const ParityCase& p, const Axes& axes, int count, double (*rate)(int),
                     const std::vector<int>& order = {}) {
  const auto backend = open_backend(test::backend_of(p, false));
  const Workspace workspace(*backend);
  Trainer trainer(*backend, axes, setup_of(p));
  trainer.store().initialize(3, 1);
  Trained t;
  for (int s = 0; s < count; ++s) {
    auto batches = test::parity_step(p, trainer, s);
    if (!order.empty()) {
      std::vector<Batch> permuted;
      for (const int m : order) permuted.push_back(batches[static_cast<std::size_t>(m)]);
      batches = permuted;
    }
    const auto r = trainer.step(s, rate(s), batches);
    t.losses.push_back(r.loss);
    t.norms.push_back(r.grad_norm);
  }
  for (std::size_t i = 0; i < trainer.store().spec().params.size(); ++i) {
    const auto id = ParamId::at(i);
    t.weights.push_back(weights_of(trainer.store(), id));
    t.own.push_back(trainer.store().own(id));
  }
  return t;
}

static Trained train_on_grid(const ParityCase& p, int count, double (*rate)(int)) {
  return train(p, test::parity_axes(p), count, rate);
}

static Trained train_alone(ParityCase p, int count, double (*rate)(int),
                           const std::vector<int>& order = {}) {
  p.grid = {};
  p.zero = {};
  return train(p, {}, count, rate, order);
}

static std::vector<float> part(const std::vector<float>& whole, Range r) {
  return {whole.begin() + r.begin, whole.begin() + r.end};
}

// A stage adds what one rank adds, in the same order.
TEST(Precision, PipelinesAreBitIdenticalInF32) {
  for (const char* flavour : {"gpt2", "llama"})
    for (const auto recompute : {Recompute::none, Recompute::block}) {
      auto p = warm_case({test::world().size(), 1, 1}, flavour, DType::f32);
      p.recompute = recompute;

      const auto grid = train_on_grid(p, steps, warm_up);
      const auto one = train_alone(p, steps, warm_up);

      EXPECT_EQ(grid.losses, one.losses) << flavour;
      EXPECT_EQ(grid.norms, one.norms) << flavour;
      for (std::size_t i = 0; i < grid.weights.size(); ++i)
        EXPECT_EQ(grid.weights[i], part(one.weights[i], grid.own[i])) << flavour << " " << i;
    }
}

TEST(Precision, PipelinesAreBitIdenticalInBf16) {
  const auto p = warm_case({test::world().size(), 1, 1}, "llama", DType::bf16);

  const auto grid = train_on_grid(p, steps, warm_up);
  const auto one = train_alone(p, steps, warm_up);

  EXPECT_EQ(grid.losses, one.losses);
  for (std::size_t i = 0; i < grid.weights.size(); ++i)
    EXPECT_EQ(grid.weights[i], part(one.weights[i], grid.own[i])) << i;
}

// Every way to use all ranks on the axes data and seq, the last one with a pipeline, too.
static std::vector<Grid> mixed_grids() {
  const int n = test::world().size();
  std::vector<Grid> grids{{1, n, 1}, {1, 1, n}};
  if (n % 4 == 0) {
    grids.push_back({1, 2, n / 2});
    grids.push_back({2, 1, n / 2});
    grids.push_back({2, n / 2, 1});
  }
  std::erase_if(grids, [](const Grid& g) { return 16 % (4 * g.data) != 0 || 16 % g.seq != 0; });
  return grids;
}

static ZeroConfig sharded() {
  ZeroConfig z;
  z.stage = 3;
  return z;
}

TEST(Precision, GridsAgreeInF32) {
  for (const char* flavour : drawn(std::vector{"gpt2", "llama"}, 2)) {
    const auto one = train_alone(warm_case({}, flavour, DType::f32), steps, warm_up);
    for (const auto& grid : drawn(mixed_grids(), 2)) {
      auto p = warm_case(grid, flavour, DType::f32);
      p.zero = sharded();

      const auto many = train_on_grid(p, steps, warm_up);

      for (std::size_t s = 0; s < one.losses.size(); ++s)
        EXPECT_NEAR(many.losses[s], one.losses[s], 2e-6 * one.losses[s])
            << test::name_of(p) << " step " << s;
    }
  }
}

// The largest difference of a step's loss between five orders of one rank's microbatches. Each is
// one rank's work.
static double spread_of_orders(const ParityCase& p, const Trained& one) {
  const std::vector<std::vector<int>> orders{
      {1, 0, 2, 3}, {3, 2, 1, 0}, {2, 3, 0, 1}, {1, 2, 3, 0}, {0, 3, 1, 2}};
  const auto mine = static_cast<std::size_t>(test::world().rank()),
             ranks = static_cast<std::size_t>(test::world().size());
  double spread = 0;
  for (auto i = mine; i < orders.size(); i += ranks) {
    const auto other = train_alone(p, steps, warm_up, orders[i]);
    for (std::size_t s = 0; s < one.losses.size(); ++s)
      spread = std::max(spread, std::fabs(other.losses[s] - one.losses[s]));
  }
  test::world().all_reduce_max({&spread, 1});
  return spread;
}

TEST(Precision, GridsAgreeInBf16AsFarAsOrdersDo) {
  const auto alone = warm_case({}, "gqa", DType::bf16);
  const auto one = train_alone(alone, steps, warm_up);
  const double spread = spread_of_orders(alone, one);
  ASSERT_GT(spread, 0);
  for (const auto& grid : drawn(mixed_grids(), 2)) {
    auto p = warm_case(grid, "gqa", DType::bf16);
    p.zero = sharded();

    const auto many = train_on_grid(p, steps, warm_up);

    for (std::size_t s = 0; s < one.losses.size(); ++s)
      EXPECT_NEAR(many.losses[s], one.losses[s], 3 * spread) << test::name_of(p) << " step " << s;
  }
}

// Thaws and freezes parts of units in the middle of the run.
static std::vector<FreezeRule> schedule() {
  return {{"embedding.*", 0, 6}, {"blocks.0.*", 0, 9, ThawMoments::keep}, {"*.qkv.*", 4, 12}};
}

TEST(Precision, FrozenPartsInBf16) {
  const int n = test::world().size();
  auto alone = warm_case({}, "gqa", DType::bf16);
  alone.freeze = schedule();
  const auto one = train_alone(alone, steps, warm_up);
  const double spread = spread_of_orders(alone, one);

  auto pipe = warm_case({std::min(n, 4), 1, n > 4 ? n / 4 : 1}, "gqa", DType::bf16);
  pipe.freeze = schedule();
  pipe.zero = sharded();
  const auto piped = train_on_grid(pipe, steps, warm_up);
  const auto grids = mixed_grids();
  auto spread_case = warm_case(grids.empty() ? pipe.grid : grids.back(), "gqa", DType::bf16);
  spread_case.freeze = schedule();
  spread_case.zero = sharded();
  const auto mixed = train_on_grid(spread_case, steps, warm_up);

  if (n <= 4) {
    EXPECT_EQ(piped.losses, one.losses);
  }
  for (std::size_t s = 0; s < one.losses.size(); ++s) {
    EXPECT_NEAR(piped.losses[s], one.losses[s], 3 * spread) << s;
    EXPECT_NEAR(mixed.losses[s], one.losses[s], 3 * spread) << s;
  }
}

// Plain SGD with rate 1 subtracts the gradient.
static double one_rate(int) {
  return 1;
}

static ParityCase first_step(Grid grid, DType compute) {
  auto p = warm_case(grid, "gqa", compute);
  p.optimizer = OptimizerKind::sgd;
  p.dropout = 0;
  p.zero = sharded();
  return p;
}

static double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::fabs(static_cast<double>(a[i]) - b[i]));
  return most;
}

static double largest(const std::vector<float>& a, const std::vector<float>& b) {
  return largest_difference(a, b);
}

// Both the grid's and one rank's gradient are bf16's rounding of the same sums, so they lie apart
// by at most twice what one rank's is off the gradient in f32, parameter by parameter. On a bf16
// wire each of N contributions is rounded once more, by 2^-9 of a number that is about as large as
// the gradient.
static void expect_first_gradients(const ParityCase& p, double wire) {
  auto exact_case = p;
  exact_case.compute = DType::f32;
  auto still = [](int) { return 0.0; };
  const auto start = train_alone(exact_case, 1, still);
  const auto exact = train_alone(exact_case, 1, one_rate);
  const auto one = train_alone(p, 1, one_rate);

  const auto many = train_on_grid(p, 1, one_rate);

  for (std::size_t i = 0; i < many.weights.size(); ++i) {
    const double off = largest_difference(one.weights[i], exact.weights[i]);
    const double gradient = largest(exact.weights[i], start.weights[i]);
    const double bound = 2 * off + wire * gradient;
    EXPECT_LE(largest_difference(many.weights[i], part(one.weights[i], many.own[i])), bound)
        << test::name_of(p) << " " << i;
    // The bound is worth something: a wrong factor would break it.
    EXPECT_LT(bound, 0.25 * gradient) << i;
  }
}

TEST(Precision, FirstGradientsInBf16) {
  for (const auto& grid : mixed_grids()) expect_first_gradients(first_step(grid, DType::bf16), 0);
}

TEST(Precision, FirstGradientsOverABf16Wire) {
  for (const auto& grid : mixed_grids()) {
    auto p = first_step(grid, DType::bf16);
    p.reduce = DType::bf16;
    const double contributions = grid.places() * p.microbatches;
    expect_first_gradients(p, 2 * contributions * 0x1p-9);
  }
}

// Sums over replicas are the sums that stage 1 makes over its shards: of the same contributions,
// rounded alike, in the same order. Half of what they send is contributions, half sums in f32.
TEST(Precision, ReplicasSumWhatTravelsAsBf16) {
  const int n = test::world().size();
  if (n == 1 || 16 % n != 0) return;
  auto p = first_step({1, n, 1}, DType::f32);
  p.microbatches = 1;
  p.flavour = "llama";  // a tied table's two uses are added before or after they are rounded
  const auto course = [&](int stage, DType reduce) {
    p.zero = {};
    p.zero.stage = stage;
    p.reduce = reduce;
    const auto before = test::parity_axes(p).replicas.bytes_sent();
    auto trained = train_on_grid(p, 2, one_rate);
    return std::pair(trained, test::parity_axes(p).replicas.bytes_sent() - before);
  };

  const auto [narrow, narrow_sent] = course(0, DType::bf16);
  const auto [wide, wide_sent] = course(0, DType::f32);
  const auto [sharded_alike, none_sent] = course(1, DType::bf16);

  EXPECT_EQ(4 * narrow_sent, 3 * wide_sent);
  EXPECT_EQ(none_sent, 0);
  EXPECT_EQ(narrow.losses, sharded_alike.losses);
  EXPECT_NE(narrow.losses, wide.losses);
  for (std::size_t i = 0; i < narrow.weights.size(); ++i)
    EXPECT_EQ(part(narrow.weights[i], sharded_alike.own[i]), sharded_alike.weights[i]) << i;
}

// Shards that are replicated: what their ranks sum is rounded once, and those sums once more.
TEST(Precision, FirstGradientsOfReplicatedShardsOverABf16Wire) {
  for (const auto& grid : mixed_grids()) {
    if (grid.places() % 2 != 0) continue;
    for (const int stage : {0, 2}) {
      auto p = first_step(grid, DType::bf16);
      p.reduce = DType::bf16;
      p.zero.stage = stage;
      p.zero.shard = stage == 0 ? 0 : grid.places() / 2;
      const double contributions = grid.places() * p.microbatches + 2;
      expect_first_gradients(p, 2 * contributions * 0x1p-9);
    }
  }
}

}  // namespace trireme
