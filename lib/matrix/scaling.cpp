#include "lib/matrix/scaling.hpp"

#include "kernels/operations.hpp"

namespace trireme {

ConstView repeated(ConstView x_1, std::int64_t n) {
  x_1.extent[0] = n;
  x_1.stride[0] = 0;
  return x_1;
}

View diagonal_of(const View& a_NN) {
  View diagonal_N(a_NN.data, a_NN.dtype, {a_NN.extent[0]});
  diagonal_N.stride[0] = a_NN.stride[0] + a_NN.stride[1];
  return diagonal_N;
}

void add_to_diagonal(Backend& b, View a_NN, double term, Scratch wide) {
  const View term_1 = wide.take({1});
  b.put(Queue::compute, kernel::Fill{.dst = term_1, .value = term});
  b.put(Queue::compute, kernel::Copy{.dst = diagonal_of(a_NN),
                                     .src = repeated(term_1, a_NN.extent[0]),
                                     .how = Accumulate::add});
}

void scale_to(Backend& b, View y_MN, ConstView x_MN, double factor, Scratch wide) {
  const View factor_N = wide.take({x_MN.extent[1]});
  b.put(Queue::compute, kernel::Fill{.dst = factor_N, .value = factor});
  b.put(Queue::compute, kernel::ScaleColumns{.y_TN = y_MN, .x_TN = x_MN, .factor_N = factor_N});
}

void divide_to(Backend& b, View y_MN, ConstView x_MN, ConstView divisor_1, Scratch wide) {
  const View divisor_N = wide.take({x_MN.extent[1]});
  b.put(Queue::compute, kernel::Copy{.dst = divisor_N, .src = repeated(divisor_1, x_MN.extent[1])});
  b.put(Queue::compute, kernel::ScaleColumns{.y_TN = y_MN, .x_TN = x_MN, .divisor_N = divisor_N});
}

// The norm of the rows' norms, so that all threads share the work.
void frobenius_norm(Backend& b, View norm_1, ConstView x_MN, Scratch wide) {
  const View norm_M = wide.take({x_MN.extent[0]});
  b.put(Queue::compute, kernel::RowNorms{.norm_N = norm_M, .x_NC = x_MN});
  b.put(Queue::compute,
        kernel::RowNorms{.norm_N = norm_1, .x_NC = norm_M.reshaped({1, x_MN.extent[0]})});
}

void normalize_to(Backend& b, View y_MN, ConstView x_MN, double factor, double eps, Scratch wide) {
  const View divisor_1 = wide.take({1});
  frobenius_norm(b, divisor_1, x_MN, wide);
  if (factor != 1) b.put(Queue::compute, kernel::Scale{.x_N = divisor_1, .factor = factor});
  if (eps != 0) {
    const View eps_1 = wide.take({1});
    b.put(Queue::compute, kernel::Fill{.dst = eps_1, .value = eps});
    b.put(Queue::compute, kernel::Copy{.dst = divisor_1, .src = eps_1, .how = Accumulate::add});
  }
  divide_to(b, y_MN, x_MN, divisor_1, wide);
}

}  // namespace trireme
