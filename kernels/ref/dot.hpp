#pragma once
// Sums over the dims of a head, in double and in order.
#include <cmath>

#include "kernels/ref/elements.hpp"

namespace trireme::ref {

template <class T>
double dot(const T* a, const T* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t d = 0; d < n; ++d) sum += load(a[d]) * load(b[d]);
  return sum;
}

template <class T>
void add_scaled(double* sum, double factor, const T* x, std::int64_t n) {
  for (std::int64_t d = 0; d < n; ++d) sum[d] += factor * load(x[d]);
}

// Of a query and a key. Not inlined, so that nobody's sum takes in the product's rounding: kept
// keys give the bits of whole contexts.
[[gnu::noinline]] inline double score_of(double product, double scale, double cap) {
  const double score = scale * product;
  return cap > 0 ? cap * std::tanh(score / cap) : score;
}

// A score or logit under a soft cap (0: none), and its slope where that is what it became.
inline double capped(double x, double cap) {
  return cap > 0 ? cap * std::tanh(x / cap) : x;
}
inline double capped_slope(double y, double cap) {
  return cap > 0 ? 1 - y / cap * (y / cap) : 1;
}

}  // namespace trireme::ref
