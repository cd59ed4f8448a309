// For each row with a target, with the largest logit m and s = sum exp(logits - m):
//   loss = log(s) + (m - logits[target]), gradient = exp(logits - m) / s - [v = target].
// Computing log(s) + m first would lose digits of log(s) if all logits share a large offset. Under
// a soft cap c the logits are z = c tanh(logits / c), and the gradient is multiplied by
// 1 - (z / c)^2. With a teacher whose logits are y, p = softmax(y / t) and q = softmax(z / t):
//   loss = (1 - share) loss + share t^2 sum p log(p / q),
//   gradient = (1 - share) gradient + share t (q - p).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/dot.hpp"
#include "kernels/ref/kernels.hpp"
#include "lib/base/fixed.hpp"

namespace trireme::ref {
namespace {

// Calls take(loss) for each row with a target.
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

// Returns minus the log of the sum over v of exp(f(v)).
template <class F>
double log_scale(std::int64_t V, const F& f) {
  double largest = f(0), total = 0;
  for (std::int64_t v = 1; v < V; ++v) largest = std::max(largest, f(v));
  for (std::int64_t v = 0; v < V; ++v) total += std::exp(f(v) - largest);
  return -largest - std::log(total);
}

template <class T, class Take>
void taught_cross_entropy_as(const kernel::CrossEntropy& o, const Take& take) {
  const Elements<T> logits(o.logits_TV);
  const Elements<const T> teacher(o.teacher.logits_TV);
  const auto* target = reinterpret_cast<const std::int32_t*>(o.target_T.data);
  const auto V = o.logits_TV.extent[1];
  const double t = o.teacher.temperature, share = o.teacher.share, teacher_cap = o.teacher.softcap;
  for (std::int64_t r = 0; r < o.logits_TV.extent[0]; ++r) {
    std::vector<double> gradient(static_cast<std::size_t>(V), 0);
    if (target[r] >= 0) {
      const auto z = [&](std::int64_t v) { return capped(logits(r, v), o.softcap); };
      const auto y = [&](std::int64_t v) { return capped(teacher(r, v), teacher_cap); };
      const double of_z = log_scale(V, z), of_q = log_scale(V, [&](auto v) { return z(v) / t; }),
                   of_p = log_scale(V, [&](auto v) { return y(v) / t; });
      double divergence = 0;
      for (std::int64_t v = 0; v < V; ++v) {
        const double log_p = y(v) / t + of_p, log_q = z(v) / t + of_q, p = std::exp(log_p);
        divergence += p * (log_p - log_q);
        gradient[static_cast<std::size_t>(v)] =
            o.scale * capped_slope(z(v), o.softcap) *
            ((1 - share) * (std::exp(z(v) + of_z) - (v == target[r] ? 1.0 : 0.0)) +
             share * t * (std::exp(log_q) - p));
      }
      take((1 - share) * (-z(target[r]) - of_z) + share * t * t * divergence);
    }
    if (o.logits == Logits::keep) continue;
    for (std::int64_t v = 0; v < V; ++v) logits.put(gradient[static_cast<std::size_t>(v)], r, v);
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
  const auto take = [&](double loss) {
    sum += loss;
    quanta = fixed::wrapping_sum(quanta, fixed::of_loss(loss));
    if (largest) *largest = fixed::larger(*largest, static_cast<float>(loss));
  };
  with_compute_type(o.logits_TV.dtype, [&](auto t) {
    using T = decltype(t);
    if (o.teacher.logits_TV)
      taught_cross_entropy_as<T>(o, take);
    else
      cross_entropy_as<T>(o.logits_TV, o.target_T, o.scale, o.softcap, o.logits, take);
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
