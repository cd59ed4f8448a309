#pragma once
// Matrices in double, with decompositions by Jacobi rotations: oracles for iterations that avoid
// decompositions.
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "tests/support/values.hpp"

namespace trireme {

struct DoubleMatrix {
  std::int64_t rows, columns;
  std::vector<double> x;

  DoubleMatrix(std::int64_t m, std::int64_t n)
      : rows(m), columns(n), x(static_cast<std::size_t>(m * n)) {}
  DoubleMatrix(std::int64_t m, std::int64_t n, std::vector<double> values)
      : rows(m), columns(n), x(std::move(values)) {}
  double& operator()(std::int64_t i, std::int64_t j) {
    return x[static_cast<std::size_t>(i * columns + j)];
  }
  double operator()(std::int64_t i, std::int64_t j) const {
    return x[static_cast<std::size_t>(i * columns + j)];
  }
};

inline DoubleMatrix random_matrix(std::int64_t m, std::int64_t n, std::uint64_t seed,
                                  double amplitude = 1) {
  return {m, n, random_values(m * n, seed, amplitude)};
}

inline DoubleMatrix transposed(const DoubleMatrix& a) {
  DoubleMatrix t(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) t(j, i) = a(i, j);
  return t;
}

inline DoubleMatrix operator*(const DoubleMatrix& a, const DoubleMatrix& b) {
  DoubleMatrix c(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.columns; ++k)
      for (std::int64_t j = 0; j < b.columns; ++j) c(i, j) += a(i, k) * b(k, j);
  return c;
}

inline DoubleMatrix operator*(double factor, DoubleMatrix a) {
  for (double& x : a.x) x *= factor;
  return a;
}

inline DoubleMatrix operator+(DoubleMatrix a, const DoubleMatrix& b) {
  for (std::size_t i = 0; i < a.x.size(); ++i) a.x[i] += b.x[i];
  return a;
}

inline double norm_of(const DoubleMatrix& a) {
  return std::sqrt(std::inner_product(a.x.begin(), a.x.end(), a.x.begin(), 0.0));
}

// ||a - b|| / ||b||, with Frobenius norms. NaN if an element is NaN.
inline double relative_distance(const DoubleMatrix& a, const DoubleMatrix& b) {
  return norm_of(a + -1 * b) / norm_of(b);
}

// a = u diag(s) v', with rows >= columns. Columns of u with s = 0 are zero.
struct Svd {
  DoubleMatrix u, v;
  std::vector<double> s;
};

// One-sided Jacobi rotations (Hestenes 1958): they make the columns of a v orthogonal.
inline Svd svd_of_tall(DoubleMatrix a) {
  const auto n = a.columns;
  DoubleMatrix v(n, n);
  for (std::int64_t i = 0; i < n; ++i) v(i, i) = 1;
  const auto rotate = [](DoubleMatrix& m, std::int64_t p, std::int64_t q, double c, double s) {
    for (std::int64_t i = 0; i < m.rows; ++i) {
      const double x = m(i, p), y = m(i, q);
      m(i, p) = c * x - s * y;
      m(i, q) = s * x + c * y;
    }
  };
  const double all = norm_of(a);
  for (bool again = true; again;) {
    again = false;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        double pp = 0, qq = 0, pq = 0;
        for (std::int64_t i = 0; i < a.rows; ++i) {
          pp += a(i, p) * a(i, p);
          qq += a(i, q) * a(i, q);
          pq += a(i, p) * a(i, q);
        }
        // Columns of rounding errors alone have no direction of their own.
        if (std::abs(pq) <= 1e-14 * std::sqrt(pp * qq) || std::min(pp, qq) <= 1e-28 * all * all)
          continue;
        again = true;
        const double zeta = (qq - pp) / (2 * pq),
                     t = std::copysign(1, zeta) / (std::abs(zeta) + std::hypot(1, zeta)),
                     c = 1 / std::hypot(1, t);
        rotate(a, p, q, c, c * t);
        rotate(v, p, q, c, c * t);
      }
  }
  Svd result{a, v, std::vector<double>(static_cast<std::size_t>(n))};
  for (std::int64_t j = 0; j < n; ++j) {
    double square = 0;
    for (std::int64_t i = 0; i < a.rows; ++i) square += a(i, j) * a(i, j);
    const double s = result.s[static_cast<std::size_t>(j)] = std::sqrt(square);
    for (std::int64_t i = 0; i < a.rows; ++i) result.u(i, j) = s == 0 ? 0 : a(i, j) / s;
  }
  return result;
}

// u diag(f(s)) v'
inline DoubleMatrix with_singular_values(const DoubleMatrix& a,
                                         const std::function<double(double)>& f) {
  if (a.rows < a.columns) return transposed(with_singular_values(transposed(a), f));
  auto [u, v, s] = svd_of_tall(a);
  for (std::int64_t i = 0; i < u.rows; ++i)
    for (std::int64_t j = 0; j < u.columns; ++j) u(i, j) *= f(s[static_cast<std::size_t>(j)]);
  return u * transposed(v);
}

// v diag(f(eigenvalues)) v' of a symmetric matrix, by cyclic Jacobi rotations (Golub, Van Loan,
// section 8.5).
inline DoubleMatrix with_eigenvalues(DoubleMatrix a, const std::function<double(double)>& f) {
  const auto n = a.rows;
  DoubleMatrix v(n, n);
  for (std::int64_t i = 0; i < n; ++i) v(i, i) = 1;
  const double all = norm_of(a);
  for (double off = all; off > 1e-15 * all;) {
    off = 0;
    for (std::int64_t p = 0; p < n; ++p)
      for (std::int64_t q = p + 1; q < n; ++q) {
        off = std::hypot(off, a(p, q));
        if (std::abs(a(p, q)) <= 1e-18 * all) continue;
        const double theta = (a(q, q) - a(p, p)) / (2 * a(p, q)),
                     t = std::copysign(1, theta) / (std::abs(theta) + std::hypot(1, theta)),
                     c = 1 / std::hypot(1, t), s = c * t;
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = a(k, p), y = a(k, q);
          a(k, p) = c * x - s * y;
          a(k, q) = s * x + c * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = a(p, k), y = a(q, k);
          a(p, k) = c * x - s * y;
          a(q, k) = s * x + c * y;
        }
        for (std::int64_t k = 0; k < n; ++k) {
          const double x = v(k, p), y = v(k, q);
          v(k, p) = c * x - s * y;
          v(k, q) = s * x + c * y;
        }
      }
  }
  DoubleMatrix scaled = v;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) scaled(i, j) *= f(a(j, j));
  return scaled * transposed(v);
}

}  // namespace trireme
