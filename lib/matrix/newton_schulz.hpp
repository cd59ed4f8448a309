#pragma once
// Newton-Schulz iterations, which replace the singular values of a matrix by numbers near 1 and
// keep its singular vectors. Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon)
// uses them.
//
//   x = d / (factor ||d|| + eps), with the Frobenius norm
//   x = a x + b (x x') x + c (x x')^2 x    for the polynomial (a, b, c) of each step
//
// If d has more rows than columns, the iterations use its transpose, so that x x' is the smaller
// product.
//
//   jordan          (3.4445, -4.7750, 2.0315) in all five steps, factor 1, eps 1e-7, as in
//                   KellerJordan/Muon
//   polar-express   five polynomials of the method of Amsel et al. 2025 (arXiv 2505.16932), factor
//                   1.02 and eps 1e-6, as in KellerJordan/modded-nanogpt. They are computed for
//                   five steps and singular values up to 1 / 1.02, and are not those of the paper's
//                   listing.
//
// The result's singular values are in these ranges, which depend on the ratio of d's singular
// values to ||d|| (without eps):
//
//   jordan          0.68 to 1.21 for ratios from 0.0016 on, 0.68 to 1.14 for ratios from 0.0052 on
//   polar-express   0.85 to 1.15 for ratios from 0.0011 on
//
// Smaller singular values are multiplied by up to 485 / ||d|| (jordan) or 970 / ||d||
// (polar-express).
#include <cstdint>
#include <span>

#include "kernels/backend.hpp"
#include "kernels/sum_order.hpp"
#include "lib/matrix/matrix_rule.hpp"

namespace trireme {

// x = a x + b (x x') x + c (x x')^2 x
struct QuinticStep {
  double a, b, c;
};

// The steps of a set of polynomials, and the factor and eps of the division before them.
struct NewtonSchulz {
  std::span<const QuinticStep> steps;
  double factor, eps;
};
NewtonSchulz newton_schulz(MuonPolynomials);

// Memory for operations on one matrix: numbers of elements in the compute type and the wide type.
struct MatrixScratch {
  std::int64_t compute = 0, wide = 0;
};
MatrixScratch newton_schulz_scratch(std::int64_t rows, std::int64_t columns);
// FLOPs of the products of `steps` iterations.
double newton_schulz_flops(std::int64_t rows, std::int64_t columns, std::size_t steps);

// Enqueues the iterations on Queue::compute. `x_MN` is dense and has the compute type. It contains
// the direction and receives the result. `compute` and `wide` are dense views with at least as many
// elements as newton_schulz_scratch() returns. A matrix of zeros stays zero. A finite matrix whose
// norm overflows in the wide type becomes zero. If an element is not finite, no element of the
// result is finite.
void orthogonalize(Backend&, const NewtonSchulz&, View x_MN, View compute, View wide, SumOrder);

}  // namespace trireme
