#pragma once
// Products of a linear layer in fp8, with scales of 128 elements as in DeepSeek-V3 (2024): 128
// channels or tokens of an activation or gradient, and 128 x 128 elements of a weight.
//
// The scales depend only on the operands of the product, so they need no history. A row of a
// product and a gradient over a fixed range of tokens have the same bits on every grid.
#include "kernels/fp8.hpp"
#include "lib/autograd/op.hpp"

namespace trireme::ops {

// A matrix in fp8 that owns its memory.
struct Fp8Tensor {
  Tensor code_RW, scale;
  fp8::Scales scales;

  fp8::Matrix<ConstView> view() const { return {code_RW.view(), scale.view(), scales}; }
};

// Returns the matrix rounded to fp8.
Fp8Tensor round_to_fp8(const Run&, const ConstView& x_RK, fp8::Scales);

// Computes c_MN = a_MK w_NK' and then the epilogue, which must not have row sums. Rows are tokens.
void multiply_in_fp8(const Run&, const View& c_MN, const ConstView& a_MK, const ConstView& w_NK,
                     const Epilogue&);

// Computes c_MN = a_MK w_NK' for a rounded weight. Rows are tokens.
void multiply_in_fp8(const Run&, const View& c_MN, const ConstView& a_MK, const Fp8Tensor& w_NK,
                     const ConstView& bias_N = {});

// Computes dw_NK = dy_RN' x_RK, or adds the product to dw_NK. The sum is over tokens R.
void multiply_grad_in_fp8(const Run&, const View& dw_NK, Accumulate, const ConstView& dy_RN,
                          const ConstView& x_RK);

}  // namespace trireme::ops
