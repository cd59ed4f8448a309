#pragma once
// Sums over the dims of a head, in double and in order.
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

}  // namespace trireme::ref
