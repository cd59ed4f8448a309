// Norms of rows, and scaling of columns.
#include <cmath>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {

void run(const kernel::RowNorms& o) {
  with_compute_type(o.x_NC.dtype, [&](auto t) {
    using T = decltype(t);
    const Elements<const T> x(o.x_NC);
    const Elements<Wide<T>> norm(o.norm_N);
    for (std::int64_t n = 0; n < o.x_NC.extent[0]; ++n) {
      double squares = 0;
      for (std::int64_t c = 0; c < o.x_NC.extent[1]; ++c) squares += x(n, c) * x(n, c);
      norm.put(std::sqrt(squares), n);
    }
  });
}

void run(const kernel::ScaleColumns& o) {
  with_compute_type(o.x_TN.dtype, [&](auto t) {
    using T = decltype(t);
    const Elements<T> y(o.y_TN);
    const Elements<const T> x(o.x_TN), bias(o.bias_N);
    const Elements<const Wide<T>> factor(o.factor_N), divisor(o.divisor_N);
    for (std::int64_t n = 0; n < o.x_TN.extent[1]; ++n) {
      double scale = factor ? factor(n) : 1.0;
      if (divisor) scale = divisor(n) == 0 ? 0 : scale / divisor(n);
      const double add = bias ? bias(n) : 0.0;
      for (std::int64_t row = 0; row < o.x_TN.extent[0]; ++row)
        y.put(x(row, n) * scale + add, row, n);
    }
  });
}

}  // namespace trireme::ref
