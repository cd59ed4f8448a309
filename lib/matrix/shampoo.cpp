#include "lib/matrix/shampoo.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/operations.hpp"
#include "lib/matrix/inverse_root.hpp"
#include "lib/matrix/scaling.hpp"
#include "lib/matrix/scratch.hpp"

namespace trireme {
namespace {

// Replaces g by zeros if ||g||^2 is 0 or infinite. No number returns to the host: g is multiplied
// by r / r with r = 1 / ||g||^2, and ScaleColumns computes 0 if r is 0.
void drop_extremes(Backend& b, View g_MN, Scratch wide) {
  const auto columns = g_MN.extent[1];
  const View size_1 = wide.take({1}), r_1 = wide.take({1});
  frobenius_norm(b, size_1, g_MN, wide);
  const auto scale = [&](const View& y_1, const View& x_1, ConstView factor, ConstView divisor) {
    b.put(Queue::compute, kernel::ScaleColumns{.y_TN = y_1.reshaped({1, 1}),
                                               .x_TN = x_1.reshaped({1, 1}),
                                               .factor_N = factor,
                                               .divisor_N = divisor});
  };
  b.put(Queue::compute, kernel::Fill{.dst = r_1, .value = 1});
  scale(r_1, r_1, {}, size_1);
  scale(r_1, r_1, {}, size_1);
  const View r_N = wide.take({columns});
  b.put(Queue::compute, kernel::Copy{.dst = r_N, .src = repeated(r_1, columns)});
  b.put(Queue::compute,
        kernel::ScaleColumns{.y_TN = g_MN, .x_TN = g_MN, .factor_N = r_N, .divisor_N = r_N});
}

// average = beta average + (1 - beta) x y
void move_average(Backend& b, View average_NN, ConstView x, ConstView y, double beta, Scratch wide,
                  SumOrder order) {
  const auto n = average_NN.extent[0];
  const View product_NN = wide.take({n, n});
  b.put(Queue::compute, kernel::Matmul{.c_MN = product_NN, .a_MK = x, .b_KN = y, .order = order});
  b.put(Queue::compute, kernel::Scale{.x_N = product_NN, .factor = 1 - beta});
  b.put(Queue::compute, kernel::Scale{.x_N = average_NN, .factor = beta});
  b.put(Queue::compute, kernel::Copy{.dst = average_NN, .src = product_NN, .how = Accumulate::add});
}

}  // namespace

MatrixScratch shampoo_scratch(std::int64_t rows, std::int64_t columns) {
  const auto large = std::max(rows, columns);
  return {.wide = std::max(inverse_root_scratch(large),
                           2 * rows * columns + scaling_scratch(rows, columns) + 1)};
}

double shampoo_flops(const matrix_rule::Shampoo& rule, std::int64_t rows, std::int64_t columns) {
  const auto m = static_cast<double>(rows), n = static_cast<double>(columns);
  const double roots = inverse_root_flops(rows, rule.eps) + inverse_root_flops(columns, rule.eps);
  return 4 * m * n * (m + n) + roots / static_cast<double>(rule.every);
}

void shampoo_step(Backend& b, const matrix_rule::Shampoo& rule, const WholeMatrix& matrix,
                  View /*compute*/, View wide, SumOrder order) {
  const View g_MN = matrix.x_MN;
  const auto rows = g_MN.extent[0], columns = g_MN.extent[1];
  const View left_MM = matrix.squares[0], left_root_MM = matrix.squares[1],
             right_NN = matrix.squares[2], right_root_NN = matrix.squares[3];
  drop_extremes(b, g_MN, Scratch(wide));
  move_average(b, left_MM, g_MN, g_MN.transposed(), rule.beta, Scratch(wide), order);
  move_average(b, right_NN, g_MN.transposed(), g_MN, rule.beta, Scratch(wide), order);
  if (matrix.count == 1 || matrix.count % rule.every == 0) {
    inverse_fourth_root(b, left_root_MM, left_MM, rule.eps, Scratch(wide), order);
    inverse_fourth_root(b, right_root_NN, right_NN, rule.eps, Scratch(wide), order);
  }

  // The norm of g is divided out first, so that no square of an element overflows or underflows.
  Scratch room(wide);
  const View step_MN = room.take({rows, columns}), product_MN = room.take({rows, columns});
  const auto multiply = [&](const View& c, const View& x, const View& y) {
    b.put(Queue::compute, kernel::Matmul{.c_MN = c, .a_MK = x, .b_KN = y, .order = order});
  };
  b.put(Queue::compute, kernel::Copy{.dst = step_MN, .src = g_MN});
  normalize_to(b, step_MN, step_MN, 1, 0, room);
  multiply(product_MN, left_root_MM, step_MN);
  multiply(step_MN, product_MN, right_root_NN);
  normalize_to(b, step_MN, step_MN, 1 / std::sqrt(static_cast<double>(std::min(rows, columns))), 0,
               room);
  b.put(Queue::compute, kernel::Copy{.dst = g_MN, .src = step_MN});
}

}  // namespace trireme
