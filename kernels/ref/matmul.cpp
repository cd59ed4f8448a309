// c_MN = a_MK b_KN. Tiles are converted to double and padded with zeros. The same loop therefore
// computes every element of c, at any position in the matrix, with k in ascending order.
#include <algorithm>

#include "kernels/ref/elements.hpp"
#include "kernels/ref/kernels.hpp"

namespace trireme::ref {
namespace {

constexpr std::int64_t edge = 64;
using Tile = double[edge][edge];

// Copies a tile from a matrix: tile = m[row:, column:], with zeros beyond the matrix.
template <class T>
void widen(Tile& tile, const ConstView& m, std::int64_t row, std::int64_t column) {
  const Elements<const T> e(m);
  const auto rows = std::min(edge, m.extent[0] - row);
  const auto columns = std::min(edge, m.extent[1] - column);
  std::fill_n(&tile[0][0], edge * edge, 0.0);
  if (m.stride[1] == 1) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) tile[i][j] = e(row + i, column + j);
  } else {
    for (std::int64_t j = 0; j < columns; ++j)
      for (std::int64_t i = 0; i < rows; ++i) tile[i][j] = e(row + i, column + j);
  }
}

void add_product(Tile& sum, const Tile& a, const Tile& b, std::int64_t rows) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < edge; ++k) {
      const double x = a[i][k];
      for (std::int64_t j = 0; j < edge; ++j) sum[i][j] += x * b[k][j];
    }
}

template <class T, class C>
void multiply(const kernel::Matmul& o) {
  const auto M = o.c_MN.extent[0], N = o.c_MN.extent[1], K = o.a_MK.extent[1];
  const Elements<C> c(o.c_MN);
  const Elements<const T> bias(o.epilogue.bias_N);
  Tile sum, a, b;
  for (std::int64_t m = 0; m < M; m += edge)
    for (std::int64_t n = 0; n < N; n += edge) {
      const auto rows = std::min(edge, M - m), columns = std::min(edge, N - n);
      std::fill_n(&sum[0][0], edge * edge, 0.0);
      for (std::int64_t k = 0; k < K; k += edge) {
        widen<T>(a, o.a_MK, m, k);
        widen<T>(b, o.b_KN, k, n);
        add_product(sum, a, b, rows);
      }
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < columns; ++j) {
          double value = sum[i][j];
          if (bias) value += bias(n + j);
          if (o.how == Accumulate::add) value += c(m + i, n + j);
          c.put(value, m + i, n + j);
        }
    }
}

}  // namespace

void run(const kernel::Matmul& o) {
  const auto& [c_MN, a_MK, b_KN, how, epilogue, order] = o;
  expect(c_MN.dims == 2 && a_MK.dims == 2 && b_KN.dims == 2, "matmul takes matrices");
  expect(a_MK.extent[0] == c_MN.extent[0] && b_KN.extent[1] == c_MN.extent[1] &&
             a_MK.extent[1] == b_KN.extent[0],
         "matmul: [M, K] x [K, N] gives [M, N]");
  expect(c_MN.dtype == a_MK.dtype || c_MN.dtype == wide(a_MK.dtype),
         "matmul: the result is of the operands' type or its wide one");
  with_compute_type(a_MK.dtype, [&](auto t) {
    using T = decltype(t);
    if (o.c_MN.dtype == o.a_MK.dtype)
      multiply<T, T>(o);
    else
      multiply<T, Wide<T>>(o);
  });
  if (epilogue.activated_MN)
    run(kernel::Activate{
        .activation = epilogue.activation, .y_N = epilogue.activated_MN, .x_N = c_MN});
  if (epilogue.activated_at_MN)
    run(kernel::ActivateGrad{.activation = epilogue.activation,
                             .dx_N = c_MN,
                             .dy_N = c_MN,
                             .x_N = epilogue.activated_at_MN});
  if (epilogue.row_sum_M)
    run(kernel::ColumnSum{.out_C = epilogue.row_sum_M, .how = how, .x_TC = a_MK.transposed()});
}

}  // namespace trireme::ref
