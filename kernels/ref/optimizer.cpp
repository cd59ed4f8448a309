// Both in double from what is stored, each result rounded once; `copy` is the rounded master
// weight.
#include <cmath>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

template <class W>
void step(const kernel::Sgd::Shard& s) {
  const auto& o = s.factors;
  const Elements<W> master(s.master_N);
  const Elements<const W> grad(s.grad_N);
  for (std::int64_t i = 0; i < s.master_N.count(); ++i) {
    const double w = master(i);
    master.put(w - o.lr * (o.scale * grad(i) + o.decay * w), i);
  }
}

// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
// w -= lr (m / (1 - beta1^count) / (sqrt(v / (1 - beta2^count)) + eps) + decay w)
template <class W>
void step(const kernel::AdamW::Shard& s) {
  const auto& o = s.factors;
  const Elements<W> master(s.master_N), first(s.m_N), second(s.v_N);
  const Elements<const W> grad(s.grad_N);
  const auto count = static_cast<double>(o.count);
  const double correct1 = 1 - std::pow(o.beta1, count), correct2 = 1 - std::pow(o.beta2, count);
  for (std::int64_t i = 0; i < s.master_N.count(); ++i) {
    const double g = o.scale * grad(i), w = master(i);
    const double m = o.beta1 * first(i) + (1 - o.beta1) * g;
    const double v = o.beta2 * second(i) + (1 - o.beta2) * g * g;
    first.put(m, i);
    second.put(v, i);
    master.put(w - o.lr * (m / correct1 / (std::sqrt(v / correct2) + o.eps) + o.decay * w), i);
  }
}

template <class Shard>
void step_all(const std::vector<Shard>& shards) {
  for (const auto& s : shards) {
    if (s.master_N.dtype == DType::f64) {
      step<double>(s);
    } else {
      expect(s.master_N.dtype == DType::f32, "master weights are f32 or f64");
      step<float>(s);
    }
    if (s.copy_N) run(kernel::Copy{.dst = s.copy_N, .src = s.master_N});
  }
}

}  // namespace

void run(const kernel::Sgd& o) {
  step_all(o.shards);
}

void run(const kernel::AdamW& o) {
  step_all(o.shards);
}

}  // namespace trireme::ref
