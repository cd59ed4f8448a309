// Over rows with a target: loss = lse - logits[target], lse = log sum exp(logits), whose gradient
// is exp(logits - lse) - [v = target].
#include <algorithm>
#include <cmath>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

template <class T>
double cross_entropy_as(const View& logits_TV, const ConstView& target_T, double scale,
                        Logits after) {
  const Elements<T> z(logits_TV);
  const auto* target = reinterpret_cast<const std::int32_t*>(target_T.data);
  const auto V = logits_TV.extent[1];
  double loss = 0;
  for (std::int64_t t = 0; t < logits_TV.extent[0]; ++t) {
    if (target[t] < 0) {
      if (after == Logits::become_gradient)
        for (std::int64_t v = 0; v < V; ++v) z.put(0, t, v);
      continue;
    }
    double largest = z(t, 0), total = 0;
    for (std::int64_t v = 1; v < V; ++v) largest = std::max(largest, z(t, v));
    for (std::int64_t v = 0; v < V; ++v) total += std::exp(z(t, v) - largest);
    const double lse = largest + std::log(total);
    loss += lse - z(t, target[t]);
    if (after == Logits::keep) continue;
    for (std::int64_t v = 0; v < V; ++v)
      z.put(scale * (std::exp(z(t, v) - largest) / total - (v == target[t] ? 1.0 : 0.0)), t, v);
  }
  return loss;
}

}  // namespace

void run(const kernel::CrossEntropy& o) {
  expect(o.loss.dtype == DType::f64 && o.target_T.dtype == DType::i32,
         "the loss is f64, targets i32");
  auto& slot = *reinterpret_cast<double*>(o.loss.data);
  with_compute_type(o.logits_TV.dtype, [&](auto t) {
    const double sum = cross_entropy_as<decltype(t)>(o.logits_TV, o.target_T, o.scale, o.logits);
    slot = o.how == Accumulate::add ? slot + sum : sum;
  });
}

}  // namespace trireme::ref
