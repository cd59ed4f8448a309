// c_MN = a_MK b_KN. The method depends only on the shape of the product, so the bits are the same
// each time. The methods were chosen by measurements on transformers (M, N, K from 128 to 50304).
// oneDNN may divide K of a small product among several threads. SumOrder::by_shape computes each
// block on one thread instead.
#include <algorithm>
#include <cstring>

#include "kernels/host/few_rows.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/matrices.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/tiles.hpp"
#include "kernels/host/widened.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {
namespace {

std::int64_t half(std::int64_t n) {
  return (n / 2 + 63) / 64 * 64;
}

// Multiplies with the primitive. If the primitive needs more scratch than there is, the function
// halves the longer side.
void by_primitive(const Product& p, const View& scratch) {
  const auto rows = p.c.extent[0], cols = p.c.extent[1];
  const auto wanted = onednn::matmul_scratch(p);
  if (wanted <= scratch.span_bytes()) {
    onednn::matmul(p, scratch);
  } else if (rows >= cols && rows > 64) {
    const auto m = half(rows);
    by_primitive(p.rows(0, m), scratch);
    by_primitive(p.rows(m, rows - m), scratch);
  } else {
    require(cols > 64, "matmul: a block [{}, {}, {}] needs {} bytes of scratch, but there are {}",
            rows, cols, p.a.extent[1], wanted, scratch.span_bytes());
    const auto n = half(cols);
    by_primitive(p.columns(0, n), scratch);
    by_primitive(p.columns(n, cols - n), scratch);
  }
}

void clear(const View& c) {
  for (std::int64_t i = 0; i < c.extent[0]; ++i) {
    const auto row = c.slice(0, i, 1);
    std::memset(row.data, 0, row.span_bytes());
  }
}

}  // namespace

// x W' is fastest with the primitive, and dy W with sgemm. dy' x is fastest with the primitive if
// the result is large and tall. Both methods give a row the same bits, whatever other rows the
// product has. The exception is sgemm with a single row.
void multiply_f32(const Product& p, const View& scratch, SumOrder order) {
  if (!onednn::same_in_every_place()) return multiply_in_tiles(p);
  const auto M = p.c.extent[0], N = p.c.extent[1];
  const bool forward = row_major(p.a) && !row_major(p.b);
  const bool tall = !row_major(p.a) && row_major(p.b) && M >= N && M * N >= (1 << 19);
  const bool primitive = p.bias || forward || tall;
  if (order == SumOrder::by_shape) {
    multiply_in_blocks(p, primitive ? Block::primitive : Block::sgemm);
  } else if (primitive) {
    by_primitive(p, scratch);
  } else {
    onednn::sgemm(p.c, p.a, p.b, p.how);
  }
}

bool bf16_products() {
  return onednn::multiplies_bf16();
}

void run(const kernel::Matmul& o, View scratch) {
  const auto& [c_MN, a_MK, b_KN, how, epilogue, order] = o;
  const auto& bias = epilogue.bias_N;
  const auto M = c_MN.extent[0], N = c_MN.extent[1], K = a_MK.extent[1];
  require(a_MK.extent[0] == M && b_KN.extent[0] == K && b_KN.extent[1] == N,
          "matmul: [{}, {}] x [{}, {}] does not give [{}, {}]", a_MK.extent[0], K, b_KN.extent[0],
          b_KN.extent[1], M, N);
  require(a_MK.dtype == b_KN.dtype && (c_MN.dtype == a_MK.dtype || c_MN.dtype == DType::f32),
          "matmul: {} x {} -> {} is not supported: both operands must have the same type, and the "
          "result that type or f32",
          name_of(a_MK.dtype), name_of(b_KN.dtype), name_of(c_MN.dtype));
  require(!bias || (bias.dtype == c_MN.dtype && bias.extent[0] == N && bias.dense() &&
                    c_MN.dtype == a_MK.dtype),
          "matmul: a bias must have {} dense elements of the type of operands and result", N);
  if (M == 0 || N == 0) return;
  const auto c = normal(c_MN, "c");
  if (!row_major(c)) {
    require(!bias, "matmul: a bias needs a row-major result");
    run(kernel::Matmul{.c_MN = c.transposed(),
                       .a_MK = b_KN.transposed(),
                       .b_KN = a_MK.transposed(),
                       .how = how,
                       .order = order},
        scratch);
  } else if (K == 0) {
    require(!bias, "matmul: a bias needs operands that are not empty");
    if (how == Accumulate::overwrite) clear(c);
  } else {
    const Product product{c, normal(a_MK, "a"), normal(b_KN, "b"), how, bias};
    if (order == SumOrder::by_row) {
      multiply_few_rows(product);
    } else if (a_MK.dtype == DType::f32) {
      multiply_f32(product, scratch, order);
    } else if (!onednn::multiplies_bf16_fast()) {
      multiply_widened(product.c, widened_bf16(product.a), widened_bf16(product.b), how, bias,
                       scratch, order);
    } else if (order == SumOrder::by_shape) {
      multiply_in_blocks(product, Block::primitive);
    } else {
      by_primitive(product, scratch);
    }
  }
  if (epilogue.activated_MN)
    run(
        kernel::Activate{
            .activation = epilogue.activation, .y_N = epilogue.activated_MN, .x_N = c_MN},
        scratch);
  if (epilogue.activated_at_MN)
    run(kernel::ActivateGrad{.activation = epilogue.activation,
                             .dx_N = c_MN,
                             .dy_N = c_MN,
                             .x_N = epilogue.activated_at_MN},
        scratch);
  if (epilogue.row_sum_M)
    run(kernel::ColumnSum{.out_C = epilogue.row_sum_M, .how = how, .x_TC = a_MK.transposed()},
        scratch);
}

}  // namespace trireme::host
