#pragma once
// The step of Shampoo (matrix_rule.hpp). Its inverse fourth roots are products of matrices
// (inverse_root.hpp).
//
// A gradient whose squared norm ||g||^2 is not a normal number of the wide type counts as zero,
// because its squares would overflow or underflow in L and R. In f32 these are norms below 1e-19
// and above 9e18. A zero gradient gives a zero step.
#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/sum_order.hpp"
#include "lib/matrix/matrix_rule.hpp"
#include "lib/matrix/matrix_step.hpp"

namespace trireme {

MatrixScratch shampoo_scratch(std::int64_t rows, std::int64_t columns);
double shampoo_flops(const matrix_rule::Shampoo&, std::int64_t rows, std::int64_t columns);

// Implements matrix_step() for Shampoo. `squares` are L, its root, R and its root. The roots are
// those of inverse_fourth_root(). The gradient must be finite.
void shampoo_step(Backend&, const matrix_rule::Shampoo&, const WholeMatrix&, View compute,
                  View wide, SumOrder);

}  // namespace trireme
