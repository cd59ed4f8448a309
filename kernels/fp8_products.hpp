#pragma once
// Operations on matrices in fp8 (kernels/fp8.hpp).
#include <string_view>

#include "kernels/fp8.hpp"
#include "kernels/operation.hpp"
#include "kernels/sum_order.hpp"

namespace trireme::kernel {

// Rounds a matrix to fp8. Columns of y beyond those of x are zeros. x may be strided, but one of
// its two strides must be 1. If the elements of a group are not all finite, its scale is NaN. All
// backends give the same bits.
struct RoundToFp8 {
  static constexpr std::string_view name = "round_to_fp8";
  fp8::Matrix<View> y;
  ConstView x_RK;
  static void operands(auto& o, auto&& f) {
    write(f, o.y.code_RW, o.y.scale);
    read(f, o.x_RK);
  }
};

// Computes c = a b' + bias, or c += a b' + bias, for matrices in fp8. Products are exact, and sums
// are in f32. On Hopper GPUs, sums of up to 128 products may keep only about 14 bits (DeepSeek-V3,
// section 3.3.2). c has the compute type, or the wide type for weight gradients. Its rows are
// dense. `bias_N` has the type of c and may be absent. a and b have the same number of columns. At
// most one of them has Scales::tiles.
struct Fp8Matmul {
  static constexpr std::string_view name = "fp8_matmul";
  View c_MN;
  fp8::Matrix<ConstView> a_MK, b_NK;
  Accumulate how = Accumulate::overwrite;
  ConstView bias_N{};
  SumOrder order = SumOrder::any;
  static void operands(auto& o, auto&& f) {
    result(f, o.how, o.c_MN);
    read(f, o.a_MK.code_RW, o.a_MK.scale, o.b_NK.code_RW, o.b_NK.scale);
    may_read(f, o.bias_N);
  }
  double flops() const {
    return 2.0 * static_cast<double>(c_MN.count()) * static_cast<double>(a_MK.columns());
  }
};

}  // namespace trireme::kernel
