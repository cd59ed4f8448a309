#pragma once
// Matrix products with SumOrder::by_row. Each element is computed with one chain of FMAs over K for
// each vector lane, independently of the other rows and columns. The functions are optimized for
// few rows, where the cost is dominated by reading b once from memory. For many rows they take
// twice the time of other products in f32. In bf16 they take up to five times the time of products
// with the processor's bf16 instructions.
#include "kernels/host/onednn.hpp"

namespace trireme::host {

// Multiplies with all threads. The rows of `a` must be dense. `b` may have any layout, which does
// not affect the bits. `c` has the type of a and b, or f32. Throws Error if an operand has the
// wrong type or shape.
void multiply_few_rows(const Product&);

// Multiplies like multiply_few_rows, on the calling thread only.
void multiply_few_rows_alone(const Product&);

}  // namespace trireme::host
