#pragma once
// The steps of matrix rules: what the owner of a matrix computes.
#include <cstdint>
#include <span>

#include "kernels/backend.hpp"
#include "kernels/sum_order.hpp"
#include "lib/matrix/matrix_rule.hpp"
#include "lib/matrix/newton_schulz.hpp"

namespace trireme {

// Memory that matrix_step() needs for a matrix.
MatrixScratch step_scratch(const MatrixRule&, std::int64_t rows, std::int64_t columns);
// FLOPs of the products of one step, on average over the updates.
double step_flops(const MatrixRule&, std::int64_t rows, std::int64_t columns);

// One matrix on its owner.
struct WholeMatrix {
  View x_MN;  // dense, compute type; contains the direction and receives the step
  // One dense view in the wide type for each entry of squares_of(rule), such as [M, M]. The step
  // updates them.
  std::span<const View> squares{};
  std::int64_t count = 1;  // number of updates to the matrix, this one included
};

// Enqueues the step of one matrix on Queue::compute. `compute` and `wide` are dense views with at
// least as many elements as step_scratch() returns.
void matrix_step(Backend&, const MatrixRule&, const WholeMatrix&, View compute, View wide,
                 SumOrder);

}  // namespace trireme
