#pragma once
// The steps of optimizers that see whole matrices, by plain loops over double, and which rows of a
// weight are a matrix, in words.
//
//   muon     K. Jordan et al. 2024, https://kellerjordan.github.io/posts/muon; the other
//   polynomials
//            are those of Amsel et al. 2025, as modded-nanogpt runs them
//   shampoo  V. Gupta, T. Koren, Y. Singer 2018, algorithm 1, with moving averages of L and R
#include <cstdint>
#include <optional>
#include <vector>

#include "lib/matrix/matrix_rule.hpp"
#include "lib/model/spec.hpp"
#include "tests/support/double_matrix.hpp"

namespace trireme::test {

// Is the weight updated as matrices, where no pattern says otherwise?
bool sees_matrices(const ParamSpec&);

// Rows [first, first + rows) of a weight.
struct MatrixRows {
  std::int64_t first, rows;
};
// All of a weight, in order. Queries, keys and values by head with `each_head`.
std::vector<MatrixRows> matrix_rows(const ModelSpec&, ParamId, bool each_head);

// The matrix with singular values near 1.
DoubleMatrix muon_step(DoubleMatrix, MuonPolynomials);

// What Shampoo remembers of a matrix; empty: nothing yet.
struct ShampooSides {
  std::optional<DoubleMatrix> left{}, left_root{}, right{}, right_root{};
};
// The step of update number `count`, from 1 on, before momentum.
DoubleMatrix shampoo_step(const matrix_rule::Shampoo&, const DoubleMatrix& g, std::int64_t count,
                          ShampooSides&);

// The factor on a step.
double step_scale(MatrixScale, std::int64_t rows, std::int64_t columns);

}  // namespace trireme::test
