#pragma once
// Functions on the vectors of one attention head, in double and in index order.
#include <cmath>

#include "kernels/ref/elements.hpp"

namespace trireme::ref {

// Returns the sum of a[d] * b[d].
template <class T>
double dot(const T* a, const T* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t d = 0; d < n; ++d) sum += load(a[d]) * load(b[d]);
  return sum;
}

// Adds factor * x to `sum`.
template <class T>
void add_scaled(double* sum, double factor, const T* x, std::int64_t n) {
  for (std::int64_t d = 0; d < n; ++d) sum[d] += factor * load(x[d]);
}

// Returns the attention score of a query and a key: scale * product, with a soft cap if `cap` > 0.
// The function is not inlined, so that its rounding cannot be fused into a caller's sum. Attention
// with cached keys therefore has the same bits as attention over the whole context.
[[gnu::noinline]] inline double score_of(double product, double scale, double cap) {
  const double score = scale * product;
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

// Returns a score or logit x under a soft cap, or x itself if the cap is 0.
inline double capped(double x, double cap) {
  return cap > 0 ? cap * std::tanh(x / cap) : x;
}
// Returns the derivative of capped() at the point where capped() has the value y.
inline double capped_slope(double y, double cap) {
  return cap > 0 ? 1 - y / cap * (y / cap) : 1;
}

}  // namespace trireme::ref
