#pragma once
// Scaling and normalization of matrices, and additions to their diagonals, as sequences of
// operations (kernels/operations.hpp).
// All functions enqueue on Queue::compute. Matrices are dense. `wide` is memory in the wide type
// for temporary numbers, with at least as many elements as scaling_scratch() returns.
#include <algorithm>
#include <cstdint>

#include "kernels/backend.hpp"
#include "lib/matrix/scratch.hpp"

namespace trireme {

inline std::int64_t scaling_scratch(std::int64_t rows, std::int64_t columns) {
  return 1 + std::max(rows, columns + 1);
}

// Returns a view of `n` elements that are all the one element of `x_1`.
ConstView repeated(ConstView x_1, std::int64_t n);
// Returns the diagonal of a square matrix as a strided view.
View diagonal_of(const View& a_NN);
// a = a + term I
void add_to_diagonal(Backend&, View a_NN, double term, Scratch wide);
// y = factor x
void scale_to(Backend&, View y_MN, ConstView x_MN, double factor, Scratch wide);
// y = x / divisor. Finite elements give 0 if the divisor is 0 or infinite. `divisor_1` has the wide
// type. `y_MN` can be `x_MN`.
void divide_to(Backend&, View y_MN, ConstView x_MN, ConstView divisor_1, Scratch wide);
// Computes the Frobenius norm. `norm_1` has the wide type.
void frobenius_norm(Backend&, View norm_1, ConstView x_MN, Scratch wide);
// y = x / (factor ||x|| + eps), with the Frobenius norm. The norm counts as 0 if the squares of the
// elements underflow, and as infinite if their sum overflows. `y_MN` can be `x_MN`.
void normalize_to(Backend&, View y_MN, ConstView x_MN, double factor, double eps, Scratch wide);

}  // namespace trireme
