#pragma once
// Functions for matrices, which are views with two dims. One of the two strides is 1.
#include <algorithm>

#include "kernels/host/blocks.hpp"
#include "kernels/host/simd.hpp"
#include "lib/base/error.hpp"

namespace trireme::host {

// Returns true if the elements of a row are adjacent.
inline bool row_major(const ConstView& v) {
  return v.stride[1] == 1;
}

// Returns the same matrix with strides {ld, 1} or {1, ld}. The stride of a dim with one element may
// have any value and is replaced. Throws Error, naming the matrix, if neither form is possible.
template <class V>
V normal(V v, const char* name) {
  require(v.dims == 2, "matmul: {} has {} dims, not 2", name, v.dims);
  const auto rows = v.extent[0], cols = v.extent[1];
  const bool by_rows = cols == 1 || (v.stride[1] == 1 && (rows == 1 || v.stride[0] >= cols));
  const bool by_columns = rows == 1 || (v.stride[0] == 1 && v.stride[1] >= rows);
  require(by_rows || by_columns,
          "matmul: {} [{}, {}] has strides [{}, {}]; one must be 1 and the other at least the "
          "length of a row or column: copy it into a dense view first",
          name, rows, cols, v.stride[0], v.stride[1]);
  if (by_rows) {
    v.stride = {std::max(rows == 1 ? cols : v.stride[0], cols), 1};
  } else {
    v.stride = {1, std::max(cols == 1 ? rows : v.stride[1], rows)};
  }
  return v;
}

// Returns rows [row, row + rows) and columns [column, column + columns) of a matrix.
template <class V>
V part_of(const V& v, std::int64_t row, std::int64_t rows, std::int64_t column,
          std::int64_t columns) {
  return v.slice(0, row, rows).slice(1, column, columns);
}

// Copies a matrix to f32 rows: to[r * ld + c] = m(r, c).
template <class T>
void pack(float* to, std::int64_t ld, const ConstView& m) {
  const auto rows = m.extent[0], cols = m.extent[1];
  const T* from = data<T>(m);
  if (row_major(m)) {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        to[r * ld + c] = static_cast<float>(from[r * m.stride[0] + c]);
    return;
  }
  const auto step = m.stride[1], whole_rows = rows / lanes * lanes, whole = cols / lanes * lanes;
  for (std::int64_t r = 0; r < whole_rows; r += lanes)
    for (std::int64_t c = 0; c < whole; c += lanes)
      transpose(to + r * ld + c, ld, from + c * step + r, step, 1);
  for (std::int64_t c = 0; c < cols; ++c)
    for (auto r = c < whole ? whole_rows : 0; r < rows; ++r)
      to[r * ld + c] = static_cast<float>(from[c * step + r]);
}

}  // namespace trireme::host
