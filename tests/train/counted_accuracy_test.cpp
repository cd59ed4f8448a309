// How near sums of counts (run.exactness = "invariant") come to exact sums: gradients and losses
// against a training in f64 that adds in double, beside sums of floats against the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <numeric>

#include "kernels/host/host.hpp"
#include "kernels/ref/ref.hpp"
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
  c.context = 32;
  c.dropout = 0.1;
  if (name == "llama") {
    c.norm = NormKind::rms;
    c.bias = false;
    c.activation = ActivationKind::swiglu;
    c.positions = Positions::rotary;
    c.tied = false;
    c.ffn_width = 72;
  }
  return resolved(c);
}

using Weights = std::vector<std::vector<double>>;  // by ParamId

struct Running {
  Running(Backend& backend, const ModelConfig& model, const OptimizerConfig& optimizer,
          DType compute, std::int64_t exact_chunk)
      : trainer(backend, {}, [&] {
          auto s = test::setup_of(model, optimizer, compute);
          s.exact_chunk = exact_chunk;
          return s;
        }()) {
    trainer.store().initialize(3, 1);
  }
  Weights read(std::string_view what) {
    Weights all;
    for (std::size_t i = 0; i < trainer.store().spec().params.size(); ++i) {
      const ParamId p{static_cast<std::int32_t>(i)};
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
      test::write<double>(trainer.store(), {static_cast<std::int32_t>(i)}, all[i]);
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

double norm(const std::vector<double>& x) {
  return std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0));
}
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d(a.size());
  std::ranges::transform(a, b, d.begin(), std::minus());
  return norm(d);
}

TEST_P(CountedAccuracy, Look) {
  OptimizerConfig o;
  o.name = OptimizerKind::sgd;
  o.momentum = 0.9;
  o.clip = 0;
  for (const double valid : {0.0, 0x1p22}) {
    Running fast(host, model, o, DType::f32, 0), counted(host, model, o, DType::f32, chunk),
        exact(ref, model, o, DType::f64, 0);
    exact.start_from(fast.read(weights_array));
    const auto w0 = fast.read(weights_array);
    std::vector<double> f, c, q;
    for (int k = 0; k < 8; ++k) {
      Running fast(host, model, o, DType::f32, 0), counted(host, model, o, DType::f32, chunk),
          exact(ref, model, o, DType::f64, 0);
      exact.start_from(w0);
      auto b = in_order(model, k, 0);
      if (valid > 0)
        for (auto& x : b) x.valid = static_cast<std::int64_t>(valid / 4);
      fast.trainer.step(k, 0, b);
      counted.trainer.step(k, 0, b);
      exact.trainer.step(k, 0, b);
      const auto gf = fast.read("momentum"), gc = counted.read("momentum"),
                 ge = exact.read("momentum");
      f.resize(gf.size());
      c.resize(gf.size());
      q.resize(gf.size());
      for (std::size_t i = 0; i < gf.size(); ++i) {
        f[i] += std::pow(distance(gf[i], ge[i]), 2);
        c[i] += std::pow(distance(gc[i], ge[i]), 2);
        q[i] += std::pow(norm(ge[i]), 2);
      }
    }
    for (std::size_t i = 0; i < f.size(); ++i)
      std::cout << fmt::format("{:30} fast {:.3g} counted {:.3g} ratio {:.3f} norm {:.3g}\n",
                               fast.trainer.store().spec().params[i].name, std::sqrt(f[i] / q[i]),
                               std::sqrt(c[i] / q[i]), std::sqrt(c[i] / f[i]), std::sqrt(q[i] / 8));
  }
  OptimizerConfig a;
  constexpr int orders = 16, steps = 40;
  Running exact(ref, model, a, DType::f64, 0);
  Running first(host, model, a, DType::f32, 0);
  exact.start_from(first.read(weights_array));
  std::vector<double> le;
  for (int s = 0; s < steps; ++s)
    le.push_back(exact.trainer.step(s, 3e-3, in_order(model, s, 0)).loss);
  std::vector<std::vector<double>> lf;
  for (int o = 0; o < orders; ++o) {
    Running fast(host, model, a, DType::f32, 0);
    auto& l = lf.emplace_back();
    for (int s = 0; s < steps; ++s)
      l.push_back(fast.trainer.step(s, 3e-3, in_order(model, s, o)).loss);
  }
  Running counted(host, model, a, DType::f32, chunk);
  for (int s = 0; s < steps; ++s) {
    const double l = counted.trainer.step(s, 3e-3, in_order(model, s, 0)).loss;
    double lo = 1e9, hi = -1e9;
    for (auto& x : lf) lo = std::min(lo, x[s] - le[s]), hi = std::max(hi, x[s] - le[s]);
    std::cout << fmt::format("step {} loss {:.5f} counted {:+.3g} fast {:+.3g} to {:+.3g}\n", s, l,
                             l - le[s], lo, hi);
  }
}

}  // namespace
}  // namespace trireme
