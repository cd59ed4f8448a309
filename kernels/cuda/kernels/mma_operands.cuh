#pragma once
// Operands of tensor core instructions, as registers of one lane (PTX ISA: the fragments of
// mma.m16n8k16). The comments use g = lane / 4 and c = lane % 4.

namespace trireme::cuda {

// This lane's part of a 16 x 16 left operand. Each of the four words holds two adjacent elements of
// a row. The words are in rows g, g + 8, g and g + 8, and begin at columns 2c, 2c, 2c + 8 and 2c +
// 8.
struct LeftOperand {
  unsigned w[4];
};
// This lane's part of a 16 x 8 sum in f32: columns 2c and 2c + 1 of row g, then the same columns of
// row g + 8.
struct Sums {
  float v[4];
};

}  // namespace trireme::cuda
