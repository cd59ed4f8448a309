#pragma once
// Matrix products whose operands are converted to f32 in blocks, in the workspace. The products of
// the converted elements are exact in f32, so only the order of the sum differs from that of other
// methods.
#include <cstdint>
#include <functional>

#include "kernels/host/onednn.hpp"
#include "kernels/sum_order.hpp"

namespace trireme::host {

// A matrix that is converted to f32 one block at a time.
struct Widened {
  std::int64_t rows, columns;
  // True if the elements of a row are adjacent in memory. Otherwise those of a column are.
  bool by_rows;
  // Converts the block that begins at (row, column) and has the shape of `to`. The strides of `to`
  // have the same order as those of the matrix.
  std::function<void(const View& to, std::int64_t row, std::int64_t column)> widen;

  Widened transposed() const;
};

// Returns a bf16 matrix whose strides are {ld, 1} or {1, ld}.
Widened widened_bf16(const ConstView&);

// Computes c = a b + bias, or c += a b + bias. c is row-major, in bf16 or f32. `bias` has the type
// of c and may be absent. Throws Error if the scratch has less than 3 MiB.
void multiply_widened(const View& c, const Widened& a, const Widened& b, Accumulate,
                      const ConstView& bias, const View& scratch, SumOrder);

// Computes a product in f32 with the fastest method for its shape (matmul.cpp). Its operands are
// views with strides {ld, 1} or {1, ld}.
void multiply_f32(const Product&, const View& scratch, SumOrder);

}  // namespace trireme::host
