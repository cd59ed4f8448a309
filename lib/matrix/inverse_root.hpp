#pragma once
// Inverse fourth roots of positive semidefinite matrices, by products of matrices alone: the
// coupled Newton iteration for p = 4 of Anil et al. 2020 (arXiv 2002.09018, appendix), from Guo and
// Higham 2006.
//
//   m = z (a / ||a|| + eps I), with the Frobenius norm and z = 5 / (2 (1 + eps))
//   h = z^(1/4) I
//   p = (5 I - m) / 4,  h = h p,  m = p^4 m     repeated
//
// m and h are always polynomials of a, and h^4 (a / ||a|| + eps I) = m. All eigenvalues of m lie in
// (0, 5/2] and converge to 1. Small ones first grow by a factor of (5/4)^4 = 2.4 with each
// repetition, so that eps decides how many repetitions are necessary. Rounding errors change h by
// about u / (4 eps) of its norm, where u is the roundoff of the type. eps must be larger than u.
// Otherwise, rounding errors may make m indefinite, and the iteration diverges.
#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/sum_order.hpp"
#include "lib/matrix/scratch.hpp"

namespace trireme {

// Returns the number of repetitions after which no eigenvalue of h has a relative error above
// 2.5e-13, so that h is a product of as many factors p. Throws Error if eps is not positive.
int root_factors(double eps);
// Number of elements of memory that inverse_fourth_root() needs.
std::int64_t inverse_root_scratch(std::int64_t n);
// FLOPs of the products of inverse_fourth_root().
double inverse_root_flops(std::int64_t n, double eps);

// Enqueues root = (a / ||a|| + eps I)^(-1/4) on Queue::compute. All views have the wide type. The
// matrices are dense, and `wide` has at least inverse_root_scratch() elements. If `a_NN` is zero,
// so is a / ||a||.
void inverse_fourth_root(Backend&, View root_NN, ConstView a_NN, double eps, Scratch wide,
                         SumOrder);

}  // namespace trireme
