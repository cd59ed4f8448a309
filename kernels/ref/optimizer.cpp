// Optimizer rules, computed in double from the stored numbers. Each result is rounded once. `copy`
// is the rounded master weight.
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::ref {
namespace {

// A rule with its coefficients for one shard. step(g, arrays...) updates the arrays and returns the
// step, where w -= lr * (step + decay * w).
template <class Rule>
struct RuleStep;

template <>
struct RuleStep<rule::Sgd> {
  RuleStep(const rule::Sgd&, const UpdateFactors&) {}
  double step(double g) const { return g; }
};

template <>
struct RuleStep<rule::Momentum> {
  rule::Momentum r;
  RuleStep(const rule::Momentum& of, const UpdateFactors&) : r(of) {}
  double step(double g, double& m) const {
    m = r.momentum * m + g;
    return r.nesterov ? g + r.momentum * m : m;
  }
};

template <>
struct RuleStep<rule::AdamW> {
  rule::AdamW r;
  double correct1, correct2;
  RuleStep(const rule::AdamW& of, const UpdateFactors& u)
      : r(of),
        correct1(1 - std::pow(r.beta1, static_cast<double>(u.count))),
        correct2(1 - std::pow(r.beta2, static_cast<double>(u.count))) {}
  double step(double g, double& m, double& v) const {
    m = r.beta1 * m + (1 - r.beta1) * g;
    v = r.beta2 * v + (1 - r.beta2) * g * g;
    return m / correct1 / (std::sqrt(v / correct2) + r.eps);
  }
};

template <>
struct RuleStep<rule::Lion> {
  rule::Lion r;
  RuleStep(const rule::Lion& of, const UpdateFactors&) : r(of) {}
  double step(double g, double& m) const {
    const double c = r.beta1 * m + (1 - r.beta1) * g;
    m = r.beta2 * m + (1 - r.beta2) * g;
    return c > 0 ? 1 : c < 0 ? -1 : 0;
  }
};

template <class W, class Rule, std::size_t... k>
void update(const RuleStep<Rule>& rule, const kernel::Update::Shard& s, std::index_sequence<k...>) {
  const auto& o = s.factors;
  const Elements<W> master(s.master_N);
  const bool quanta = s.grad_N.dtype == DType::i64;
  const auto* counts = reinterpret_cast<const std::int64_t*>(s.grad_N.data);
  const Elements<const W> grads(quanta ? ConstView{} : s.grad_N);
  const auto grad = [&](std::int64_t i) {
    return quanta ? double{fixed::to_gradient(counts[i])} : grads(i);
  };
  const std::tuple state{Elements<W>(s.state_N[k])...};
  for (std::int64_t i = 0; i < s.master_N.count(); ++i) {
    const double w = master(i);
    std::array<double, sizeof...(k)> kept{std::get<k>(state)(i)...};
    const double step = rule.step(o.scale * grad(i), kept[k]...);
    (std::get<k>(state).put(kept[k], i), ...);
    master.put(w - o.lr * (step + o.decay * w), i);
  }
}

template <class Rule>
void update_all(const Rule& rule, const std::vector<kernel::Update::Shard>& shards) {
  constexpr auto arrays = std::make_index_sequence<Rule::arrays.size()>();
  for (const auto& s : shards) {
    expect(s.state_N.size() == Rule::arrays.size(), "a shard has its rule's arrays");
    const RuleStep<Rule> at_work(rule, s.factors);
    if (s.master_N.dtype == DType::f64) {
      update<double>(at_work, s, arrays);
    } else {
      expect(s.master_N.dtype == DType::f32, "master weights are f32 or f64");
      update<float>(at_work, s, arrays);
    }
    if (s.copy_N) run(kernel::Copy{.dst = s.copy_N, .src = s.master_N});
  }
}

template <class W>
void average(double share, const kernel::Average::Shard& s) {
  const Elements<W> to(s.average_N);
  const Elements<const W> from(s.x_N);
  for (std::int64_t i = 0; i < s.average_N.count(); ++i)
    to.put(to(i) + share * (from(i) - to(i)), i);
}

}  // namespace

void run(const kernel::Update& o) {
  std::visit([&](const auto& rule) { update_all(rule, o.shards); }, o.rule);
}

void run(const kernel::Average& o) {
  for (const auto& s : o.shards) {
    if (s.average_N.dtype == DType::f64) {
      average<double>(o.share, s);
    } else {
      expect(s.average_N.dtype == DType::f32, "averages are f32 or f64");
      average<float>(o.share, s);
    }
  }
}

}  // namespace trireme::ref
