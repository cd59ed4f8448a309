#pragma once
// Single-threaded products c = a b, or c += a b, of small row-major f32 matrices that fit in the
// cache. The result is divided into blocks of block_rows rows by two vectors. A block stays in
// registers while the kernel loops over the depth (the summed dim). Each element is one chain of
// FMAs in depth order, independent of its block.
#include <algorithm>
#include <cstdint>

#include "kernels/host/simd.hpp"
#include "kernels/operations.hpp"

namespace trireme::host {

// Rows of a block. The sums for two vectors of columns fill half of the registers.
inline constexpr std::int64_t block_rows = lanes >= 16 ? 8 : 4;

// Returns n rounded up to a multiple of `step`.
constexpr std::int64_t rounded_up(std::int64_t n, std::int64_t step) {
  return (n + step - 1) / step * step;
}

// Left operand of a product, stored in rows (Rows) or in columns (Columns). Both return element (r,
// k). `ld` is the distance of rows or columns in elements.
struct Rows {
  const float* data;
  std::int64_t ld;
  float operator()(std::int64_t r, std::int64_t k) const { return data[r * ld + k]; }
};
struct Columns {
  const float* data;
  std::int64_t ld;
  float operator()(std::int64_t r, std::int64_t k) const { return data[k * ld + r]; }
};

// Computes one block: block_rows rows by `vectors` vectors of columns, over the depth [begin, end).
template <int vectors, class Left>
inline void product_block(float* c, std::int64_t ldc, Accumulate how, const Left& a,
                          std::int64_t row, const float* b, std::int64_t ldb, std::int64_t begin,
                          std::int64_t end) {
  Vec sum[block_rows][vectors];
#pragma GCC unroll 8
  for (int r = 0; r < block_rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) {
      sum[r][v] = how == Accumulate::add ? load(c + r * ldc + v * lanes) : Vec{};
    }
  }
  for (std::int64_t k = begin; k < end; ++k) {
    Vec right[vectors];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) right[v] = load(b + k * ldb + v * lanes);
#pragma GCC unroll 8
    for (int r = 0; r < block_rows; ++r) {
      const float left = a(row + r, k);
#pragma GCC unroll 8
      for (int v = 0; v < vectors; ++v) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < block_rows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < vectors; ++v) store(c + r * ldc + v * lanes, sum[r][v]);
  }
}

// The part of a product that is computed for one block of rows: a range of the depth, and all
// columns from column_begin on.
struct Part {
  std::int64_t depth_begin, depth_end, column_begin;
};

// Computes the product. Rows are rounded up to block_rows and columns to lanes, so the memory of a,
// b and c must extend that far. part_of(row) returns the Part for the block that begins at `row`.
// Its column_begin is rounded down to lanes.
template <class Left, class PartOf>
inline void product(float* c, std::int64_t ldc, Accumulate how, const Left& a, const float* b,
                    std::int64_t ldb, std::int64_t rows, std::int64_t columns,
                    const PartOf& part_of) {
  for (std::int64_t row = 0; row < rows; row += block_rows) {
    const Part part = part_of(row);
    std::int64_t column = part.column_begin / lanes * lanes;
    for (; column + lanes < columns; column += 2 * lanes) {
      product_block<2>(c + row * ldc + column, ldc, how, a, row, b + column, ldb, part.depth_begin,
                       part.depth_end);
    }
    if (column < columns) {
      product_block<1>(c + row * ldc + column, ldc, how, a, row, b + column, ldb, part.depth_begin,
                       part.depth_end);
    }
  }
}

}  // namespace trireme::host
