#pragma once
// The step of Shampoo (matrix_rule.hpp). Its inverse fourth roots are computed by a coupled Newton
// iteration (Anil et al. 2020, arXiv 2002.09018, appendix), which consists of matrix products.
#include <cstdint>

#include "kernels/backend.hpp"
#include "kernels/sum_order.hpp"
#include "lib/matrix/matrix_rule.hpp"
#include "lib/matrix/matrix_step.hpp"

namespace trireme {

MatrixScratch shampoo_scratch(std::int64_t rows, std::int64_t columns);
double shampoo_flops(const matrix_rule::Shampoo&, std::int64_t rows, std::int64_t columns);

// Implements matrix_step() for Shampoo. `squares` are L, its root, R and its root.
void shampoo_step(Backend&, const matrix_rule::Shampoo&, const WholeMatrix&, View compute,
                  View wide, SumOrder);

}  // namespace trireme
