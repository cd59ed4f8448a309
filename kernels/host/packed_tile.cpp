#include "kernels/host/packed_tile.hpp"

#include "kernels/host/matrices.hpp"
#include "kernels/host/tile_product.hpp"

namespace trireme::host {
namespace {

// Computes c = a b, or c += a b. Rows of c are `ld` apart. product() may write more rows and
// columns than a and b have, up to whole blocks and vectors.
void multiply(float* c, std::int64_t ld, Accumulate how, const ConstView& a, const ConstView& b,
              float* memory) {
  const auto rows = a.extent[0], columns = b.extent[1], K = a.extent[1];
  float *left = memory, *right = left + tile_depth * tile_rows;
  by_type(a.dtype, "matmul", [&]<class T>(T) {
    for (std::int64_t k = 0; k < K; k += tile_depth, how = Accumulate::add) {
      const auto n = std::min(tile_depth, K - k);
      pack<T>(left, tile_rows, a.slice(1, k, n).transposed());
      pack<T>(right, tile_columns, b.slice(0, k, n));
      product(c, ld, how, Columns{left, tile_rows}, right, tile_columns, rows, columns,
              [n](std::int64_t) {
                return Part{0, n, 0};
              });
    }
  });
}

template <class T>
void put_rows(const View& c, Accumulate how, const float* sum) {
  for (std::int64_t r = 0; r < c.extent[0]; ++r, sum += tile_columns) {
    T* to = data<T>(c) + r * c.stride[0];
    if (how == Accumulate::add) {
#pragma omp simd
      for (std::int64_t i = 0; i < c.extent[1]; ++i) put(to[i], static_cast<float>(to[i]) + sum[i]);
    } else {
#pragma omp simd
      for (std::int64_t i = 0; i < c.extent[1]; ++i) put(to[i], sum[i]);
    }
  }
}

}  // namespace

const float* multiply_tile(const ConstView& a, const ConstView& b, float* memory) {
  if (a.extent[1] == 0) std::fill_n(memory, tile_rows * tile_columns, 0.0F);
  multiply(memory, tile_columns, Accumulate::overwrite, a, b, memory + tile_rows * tile_columns);
  return memory;
}

void multiply_tile(const Product& p, float* memory) {
  const View& c = p.c;
  const bool whole = c.dtype == DType::f32 && p.a.extent[1] > 0 && c.extent[0] % block_rows == 0 &&
                     c.extent[1] % lanes == 0;
  if (whole) return multiply(data<float>(c), c.stride[0], p.how, p.a, p.b, memory);
  const float* sum = multiply_tile(p.a, p.b, memory);
  by_type(c.dtype, "matmul", [&]<class T>(T) { put_rows<T>(c, p.how, sum); });
}

}  // namespace trireme::host
