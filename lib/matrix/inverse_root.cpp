#include "lib/matrix/inverse_root.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/operations.hpp"
#include "lib/base/error.hpp"
#include "lib/matrix/scaling.hpp"

namespace trireme {
namespace {

double first_factor(double eps) {
  return 2.5 / (1 + eps);
}

// y = a / ||a|| for a positive semidefinite matrix. The trace, which cannot overflow or underflow
// where a does not, first brings the elements to a size whose squares do not either.
void normalize_positive_to(Backend& b, View y_NN, ConstView a_NN, Scratch wide) {
  const auto n = a_NN.extent[0];
  const View trace_1 = wide.take({1});
  Scratch rest = wide;
  const View diagonal_N1 = rest.take({n, 1}), least_1 = rest.take({1});
  b.put(Queue::compute, kernel::Copy{.dst = y_NN, .src = a_NN});
  b.put(Queue::compute, kernel::Copy{.dst = diagonal_N1.reshaped({n}), .src = diagonal_of(y_NN)});
  b.put(Queue::compute, kernel::ColumnSum{.out_C = trace_1, .x_TC = diagonal_N1});
  // Divisors below this number have no finite inverse.
  const double least = a_NN.dtype == DType::f64 ? std::numeric_limits<double>::min()
                                                : std::numeric_limits<float>::min();
  b.put(Queue::compute, kernel::Fill{.dst = least_1, .value = least});
  b.put(Queue::compute, kernel::Copy{.dst = trace_1, .src = least_1, .how = Accumulate::add});
  divide_to(b, y_NN, y_NN, trace_1, wide);
  normalize_to(b, y_NN, y_NN, 1, 0, wide);
}

}  // namespace

int root_factors(double eps) {
  require(eps > 0, "matrices cannot be inverted with eps = {}. Set a positive eps", eps);
  // The smallest and the largest eigenvalue of m. All others end between them and 1. Their distance
  // to 1 is four times the relative error of h.
  double least = first_factor(eps) * eps, most = 2.5;
  int factors = 0;
  const auto next = [](double m) { return m * std::pow((5 - m) / 4, 4); };
  for (; std::max(1 - least, std::abs(1 - most)) > 1e-12; ++factors) {
    least = next(least);
    most = next(most);
  }
  return factors;
}

std::int64_t inverse_root_scratch(std::int64_t n) {
  return 4 * n * n + 1 + scaling_scratch(n, n);
}

double inverse_root_flops(std::int64_t n, double eps) {
  const auto size = static_cast<double>(n);
  return (root_factors(eps) - 1) * 8 * size * size * size;
}

void inverse_fourth_root(Backend& b, View root_NN, ConstView a_NN, double eps, Scratch wide,
                         SumOrder order) {
  const auto n = a_NN.extent[0];
  View h_NN = root_NN, m_NN = wide.take({n, n}), p_NN = wide.take({n, n}),
       free_NN = wide.take({n, n}), other_NN = wide.take({n, n});
  const double z = first_factor(eps);
  const auto multiply = [&](View c, ConstView x, ConstView y) {
    b.put(Queue::compute, kernel::Matmul{.c_MN = c, .a_MK = x, .b_KN = y, .order = order});
  };
  const auto make_factor = [&] {  // p = (5 I - m) / 4
    scale_to(b, p_NN, m_NN, -0.25, wide);
    add_to_diagonal(b, p_NN, 1.25, wide);
  };

  normalize_positive_to(b, m_NN, a_NN, wide);
  b.put(Queue::compute, kernel::Scale{.x_N = m_NN, .factor = z});
  add_to_diagonal(b, m_NN, z * eps, wide);
  make_factor();
  scale_to(b, h_NN, p_NN, std::pow(z, 0.25), wide);
  for (int factor = 1; factor < root_factors(eps); ++factor) {
    multiply(free_NN, p_NN, p_NN);
    multiply(p_NN, free_NN, free_NN);
    multiply(free_NN, p_NN, m_NN);  // p^4 m
    std::swap(m_NN, free_NN);
    make_factor();
    multiply(other_NN, h_NN, p_NN);
    std::swap(h_NN, other_NN);
  }
  if (h_NN.data != root_NN.data) b.put(Queue::compute, kernel::Copy{.dst = root_NN, .src = h_NN});
}

}  // namespace trireme
