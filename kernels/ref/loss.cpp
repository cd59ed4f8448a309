// Over rows with a target, with m the largest logit and s = sum exp(logits - m):
//   loss = log(s) + (m - logits[target]), gradient exp(logits - m) / s - [v = target].
// log(s) + m would lose the log where logits have a large offset in common. Under a soft cap c the
// logits are z = c tanh(logits / c), and the gradient is times 1 - (z / c)^2.
#include <algorithm>
#include <cmath>

#include "kernels/ref/dot.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::ref {
namespace {

// take(loss) of each row with a target.
template <class T, class Take>
void cross_entropy_as(const View& logits_TV, const ConstView& target_T, double scale, double cap,
                      Logits after, const Take& take) {
  const Elements<T> logits(logits_TV);
  const auto* target = reinterpret_cast<const std::int32_t*>(target_T.data);
  const auto V = logits_TV.extent[1];
  const auto z = [&](std::int64_t t, std::int64_t v) { return capped(logits(t, v), cap); };
  for (std::int64_t t = 0; t < logits_TV.extent[0]; ++t) {
    if (target[t] < 0) {
      if (after == Logits::become_gradient)
        for (std::int64_t v = 0; v < V; ++v) logits.put(0, t, v);
      continue;
    }
    double largest = z(t, 0), total = 0;
    for (std::int64_t v = 1; v < V; ++v) largest = std::max(largest, z(t, v));
    for (std::int64_t v = 0; v < V; ++v) total += std::exp(z(t, v) - largest);
    take(std::log(total) + (largest - z(t, target[t])));
    if (after == Logits::keep) continue;
    for (std::int64_t v = 0; v < V; ++v) {
      const double one = v == target[t] ? 1.0 : 0.0, slope = capped_slope(z(t, v), cap);
      logits.put(scale * (std::exp(z(t, v) - largest) / total - one) * slope, t, v);
    }
  }
}

}  // namespace

void run(const kernel::CrossEntropy& o) {
  const bool as_quanta = o.loss.dtype == DType::i64;
  expect((as_quanta || o.loss.dtype == DType::f64) && o.target_T.dtype == DType::i32,
         "the loss is f64 or i64, targets i32");
  double sum = 0;
  std::int64_t quanta = 0;
  auto* const largest = reinterpret_cast<float*>(o.largest.data);
  with_compute_type(o.logits_TV.dtype, [&](auto t) {
    cross_entropy_as<decltype(t)>(o.logits_TV, o.target_T, o.scale, o.softcap, o.logits,
                                  [&](double loss) {
                                    sum += loss;
                                    quanta = fixed::wrapping_sum(quanta, fixed::of_loss(loss));
                                    if (largest)
                                      *largest = fixed::larger(*largest, static_cast<float>(loss));
                                  });
  });
  const bool add = o.how == Accumulate::add;
  if (as_quanta) {
    auto& slot = *reinterpret_cast<std::int64_t*>(o.loss.data);
    slot = add ? fixed::wrapping_sum(slot, quanta) : quanta;
  } else {
    auto& slot = *reinterpret_cast<double*>(o.loss.data);
    slot = add ? slot + sum : sum;
  }
}

}  // namespace trireme::ref
