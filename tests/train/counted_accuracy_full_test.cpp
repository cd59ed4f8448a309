// How near sums of counts (run.exactness = "invariant") come to exact ones: gradients beside f64,
// which adds in double, and losses beside those of sums of floats in other orders.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "kernels/host/host.hpp"
#include "kernels/ref/ref.hpp"
#include "lib/base/array_names.hpp"
#include "tests/support/tiny.hpp"

namespace trireme {
namespace {

constexpr std::int64_t samples = 16, chunk = 8;

ModelConfig model_named(std::string_view name) {
  ModelConfig c;
  c.layers = 2;
  c.width = 48;
  c.heads = 6;
  c.kv_heads = 2;
  c.vocab = 61;
  c.max_context = 32;
  if (name == "llama") {
    c.norm = NormKind::rms;
    c.bias = false;
    c.activation = ActivationKind::swiglu;
    c.positions = Positions::rotary;
    c.tied = false;
    c.ffn_width = 72;
  }
  return completed(c);
}

using Weights = std::vector<std::vector<double>>;  // by ParamId

struct Running {
  Running(Backend& backend, const ModelConfig& model, const OptimizerConfig& optimizer,
          DType compute, std::int64_t exact_chunk)
      : trainer(backend, {}, [&] {
          auto s = test::setup_of(model, optimizer, compute);
          s.dropout = 0.1;
          s.exact_chunk = exact_chunk;
          return s;
        }()) {
    trainer.store().initialize(3, 1);
  }
  Weights read(std::string_view what) {
    Weights all;
    for (std::size_t i = 0; i < trainer.store().spec().params.size(); ++i) {
      const auto p = ParamId::at(i);
      auto& w = all.emplace_back();
      if (trainer.store().master() == DType::f64)
        w = test::read<double>(trainer.store(), p, what);
      else
        for (const float x : test::read<float>(trainer.store(), p, what)) w.push_back(x);
    }
    return all;
  }
  void start_from(const Weights& all) {  // f64
    for (std::size_t i = 0; i < all.size(); ++i)
      test::write<double>(trainer.store(), ParamId::at(i), all[i]);
  }
  Trainer trainer;
};

// A step's samples in another order, in four microbatches.
std::vector<Batch> in_order(const ModelConfig& model, std::int64_t step, std::uint64_t order) {
  std::vector<std::int64_t> numbers(samples);
  std::iota(numbers.begin(), numbers.end(), step * samples);
  if (order > 0)
    for (std::size_t i = numbers.size() - 1; i > 0; --i)
      std::swap(
          numbers[i],
          numbers[mix64(mix64(order) + static_cast<std::uint64_t>(step) * 1000 + i) % (i + 1)]);
  std::vector<Batch> all(4);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto one = test::random_batch(model, 1, numbers[i]);
    auto& to = all[i / 4];
    to.sample_B.push_back(numbers[i]);
    to.ids_BT.insert(to.ids_BT.end(), one.ids_BT.begin(), one.ids_BT.end());
    to.targets_BT.insert(to.targets_BT.end(), one.targets_BT.begin(), one.targets_BT.end());
    to.valid += one.valid;
  }
  return all;
}

class CountedAccuracy : public testing::TestWithParam<const char*> {
 protected:
  ModelConfig model = model_named(GetParam());
  Host host{1};
  Ref ref;
  Workspace of_host{host}, of_ref{ref};
};
INSTANTIATE_TEST_SUITE_P(Flavours, CountedAccuracy, testing::Values("gpt2", "llama"),
                         [](const auto& info) { return std::string(info.param); });

double square_distance(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Gradients of a few steps, by step: momentum's array after a first step is the gradient.
struct Gradients {
  Gradients(Backend& b, const ModelConfig& m, DType compute, std::int64_t exact_chunk)
      : backend(b), model(m), compute(compute), exact_chunk(exact_chunk) {}
  Weights of(std::int64_t step, std::vector<Batch> microbatches, const Weights& from) {
    OptimizerConfig o;
    o.name = OptimizerKind::sgd;
    o.momentum = 0.9;
    o.clip = 0;
    Running run(backend, model, o, compute, exact_chunk);
    if (compute == DType::f64) run.start_from(from);
    EXPECT_EQ(run.trainer.step(step, 0, microbatches).outcome, StepOutcome::updated);
    return run.read("momentum");
  }
  Backend& backend;
  const ModelConfig& model;
  DType compute;
  std::int64_t exact_chunk;
};

// Leaves that are added to a parameter, over all its elements: one a chunk of tokens, and one a
// token to each row of a table; the tied one has both.
double leaf_elements(const ModelSpec& spec, ParamId p) {
  const auto tokens = static_cast<double>(samples * spec.config.max_context);
  const auto chunks = tokens / static_cast<double>(chunk) *
                      static_cast<double>(spec.params[p.index()].shape.count());
  const auto rows = tokens * static_cast<double>(spec.config.width);
  if (p == spec.positions) return rows;
  if (p != spec.table) return chunks;
  return rows + (spec.config.tied ? chunks : 0);
}

// Beside f64 a parameter's gradient of counts is as near as that of floats in their worst order,
// but for the counting: a leaf is rounded to a quantum of 2^-50, which is an error of variance
// 2^-100 / 12. The length of a normal vector of n components varies by 1 / sqrt(2 n) of itself;
// four of these are allowed.
TEST_P(CountedAccuracy, GradientsAreNoWorseThanThoseOfFloats) {
  constexpr int steps = 8, orders = 4;
  Running start(host, model, {}, DType::f32, 0);
  const auto from = start.read(weights_array);
  const auto& spec = start.trainer.store().spec();
  Gradients exact(ref, model, DType::f64, 0), floats(host, model, DType::f32, 0),
      counts(host, model, DType::f32, chunk);
  for (const std::int64_t valid : {std::int64_t{0}, std::int64_t{1} << 22}) {  // 0: as it is
    const auto batches = [&](int step, std::uint64_t order) {
      auto b = in_order(model, step, order);
      if (valid > 0)  // as if they were the few of a large step that are not masked
        for (auto& m : b) m.valid = valid / 4;
      return b;
    };
    std::vector<double> of_counts(spec.params.size(), 0);
    std::vector<std::vector<double>> of_floats(orders, of_counts);
    for (int s = 0; s < steps; ++s) {
      const auto g = exact.of(s, batches(s, 0), from), c = counts.of(s, batches(s, 0), from);
      for (std::size_t i = 0; i < g.size(); ++i) of_counts[i] += square_distance(c[i], g[i]);
      for (std::size_t o = 0; o < orders; ++o) {
        const auto f = floats.of(s, batches(s, o), from);
        for (std::size_t i = 0; i < g.size(); ++i) of_floats[o][i] += square_distance(f[i], g[i]);
      }
    }
    for (std::size_t i = 0; i < of_counts.size(); ++i) {
      double worst = 0;
      for (const auto& f : of_floats) worst = std::max(worst, f[i]);
      const auto p = ParamId::at(i);
      const double counting = steps * leaf_elements(spec, p) * 0x1p-100 / 12;
      const auto n = static_cast<double>(steps * spec.params[i].shape.count());
      EXPECT_LE(std::sqrt(of_counts[i]), std::sqrt(worst + counting) * (1 + 4 / std::sqrt(2 * n)))
          << spec.params[i].name << ", valid " << valid;
      EXPECT_GT(of_counts[i], 0);
    }
  }
}

using Curve = std::vector<double>;

// Losses of a course of AdamW that learns two steps' samples by heart, each step's in some order.
Curve curve(Running& run, const ModelConfig& model, std::uint64_t order) {
  Curve losses;
  for (int s = 0; s < 40; ++s)
    losses.push_back(run.trainer.step(s, 3e-3, in_order(model, s % 2, order)).loss);
  return losses;
}

// Courses as points: that of counts is no further from the middle of those of floats than the
// furthest two of these are from each other.
TEST_P(CountedAccuracy, LossesLieWithinTheSpreadOfFloatsInOtherOrders) {
  constexpr std::size_t orders = 16;
  Running counts(host, model, {}, DType::f32, chunk);
  const auto mine = curve(counts, model, 0);
  std::vector<Curve> floats;
  Curve middle(mine.size(), 0);
  for (std::size_t o = 0; o < orders; ++o) {
    Running run(host, model, {}, DType::f32, 0);
    floats.push_back(curve(run, model, o));
    for (std::size_t s = 0; s < middle.size(); ++s) middle[s] += floats[o][s] / orders;
  }
  double apart = 0;
  for (const auto& f : floats)
    for (const auto& g : floats) apart = std::max(apart, square_distance(f, g));
  EXPECT_LT(mine.back(), mine.front() - 0.5) << "nothing is learnt";
  EXPECT_GT(square_distance(mine, middle), 0);
  EXPECT_LE(square_distance(mine, middle), apart);
}

}  // namespace
}  // namespace trireme
