#pragma once
// How far a norm in f32 may be off, carried through the ops that hold one.
#include <algorithm>
#include <cmath>

#include "lib/ops/residual_norm.hpp"
#include "tests/support/op_check.hpp"

namespace trireme {

inline double largest_rstd(const OpNumbers& x, NormKind kind, double eps) {
  const auto width = static_cast<std::size_t>(x.shape[2]);
  const auto C = static_cast<double>(width);
  double largest = 0;
  for (std::size_t row = 0; row < x.values.size(); row += width) {
    double mean = 0, square = 0;
    for (std::size_t i = row; i < row + width; ++i) {
      mean += x.values[i] / C;
      square += x.values[i] * x.values[i] / C;
    }
    const double variance = kind == NormKind::layer ? square - mean * mean : square;
    largest = std::max(largest, 1 / std::sqrt(variance + eps));
  }
  return largest;
}

// n = (x - mean) rstd, at most `largest`, is off by `normal`: contract_norm_test.cpp. So backward,
// dx = rstd (g - mean(g) - n mean(g n)) with |g| <= 1 and mean |g n| <= 1, gets an rstd that is
// relatively off by rho, and n twice. Where x itself, at most `most`, is off by `input`, x - mean
// is by twice that, and rstd relatively by 2 input rstd. y, dx, and dw and db as params.
inline OpCase::Slack norm_slack(const OpNumbers& x, NormKind kind, double eps, double most,
                                double input) {
  const auto C = x.shape[2], rows = x.shape[0] * x.shape[1];
  const double u = roundoff(DType::f32), r = largest_rstd(x, kind, eps);
  const auto terms = static_cast<double>(rows);
  const double sum = sum_error(DType::f32, C, 1), centred = (sum + 2 * u) * most + 2 * input;
  const double rho = sum / 2 + centred * r + 6 * u, largest = 2 * most * r;
  const double normal = r * centred + largest * (rho + 2 * u);
  OpCase::Slack s;
  s.y = normal + 4 * u * (largest + 1);
  s.in = {r * (1 + largest) * (2 * sum + 12 * u) +
          r * ((2 + largest) * rho + (1 + largest) * normal)};
  s.params = {terms * normal + sum_error(DType::f32, rows, terms * largest + 1),
              sum_error(DType::f32, rows, terms + 1)};
  return s;
}

}  // namespace trireme
