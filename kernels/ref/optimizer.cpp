// Both in double from what is stored, each result rounded once; `copy` is the rounded master
// weight.
#include <cmath>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

template <class W>
void sgd_as(const View& master_N, const ConstView& grad_N, const Sgd& o) {
  const Elements<W> master(master_N);
  const Elements<const W> grad(grad_N);
  for (std::int64_t i = 0; i < master_N.count(); ++i) {
    const double w = master(i);
    master.put(w - o.lr * (o.scale * grad(i) + o.decay * w), i);
  }
}

// m = beta1 m + (1 - beta1) g, v = beta2 v + (1 - beta2) g^2,
// w -= lr (m / (1 - beta1^count) / (sqrt(v / (1 - beta2^count)) + eps) + decay w)
template <class W>
void adamw_as(const View& master_N, const View& m_N, const View& v_N, const ConstView& grad_N,
              const AdamW& o) {
  const Elements<W> master(master_N), first(m_N), second(v_N);
  const Elements<const W> grad(grad_N);
  const auto count = static_cast<double>(o.count);
  const double correct1 = 1 - std::pow(o.beta1, count), correct2 = 1 - std::pow(o.beta2, count);
  for (std::int64_t i = 0; i < master_N.count(); ++i) {
    const double g = o.scale * grad(i), w = master(i);
    const double m = o.beta1 * first(i) + (1 - o.beta1) * g;
    const double v = o.beta2 * second(i) + (1 - o.beta2) * g * g;
    first.put(m, i);
    second.put(v, i);
    master.put(w - o.lr * (m / correct1 / (std::sqrt(v / correct2) + o.eps) + o.decay * w), i);
  }
}

template <class Body>
void with_wide_type(DType t, const Body& body) {
  if (t == DType::f64) return body(double{});
  expect(t == DType::f32, "master weights are f32 or f64");
  body(float{});
}

}  // namespace

void sgd(View master, View copy_N, ConstView grad, const Sgd& o) {
  with_wide_type(master.dtype, [&](auto t) { sgd_as<decltype(t)>(master, grad, o); });
  if (copy_N) ref::copy(copy_N, master, Accumulate::overwrite);
}

void adamw(View master, View m, View v, View copy_N, ConstView grad, const AdamW& o) {
  with_wide_type(master.dtype, [&](auto t) { adamw_as<decltype(t)>(master, m, v, grad, o); });
  if (copy_N) ref::copy(copy_N, master, Accumulate::overwrite);
}

}  // namespace trireme::ref
