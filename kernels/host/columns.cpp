// Norms of rows, and scaling of columns. RowNorms has N rows, ScaleColumns has T rows.
#include <cmath>

#include "kernels/host/kernels.hpp"
#include "kernels/host/rows.hpp"

namespace trireme::host {
namespace {

template <class T>
void row_norms(const kernel::RowNorms& o) {
  const auto width = o.x_NC.extent[1], stride = o.x_NC.stride[0];
  for_rows(o.x_NC.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (auto n = begin; n < end; ++n) {
      const T* x = data<T>(o.x_NC) + n * stride;
      Lanes<float> squares(0);
      for_lanes(width, [&](auto i, auto l) {
        squares[l] += static_cast<float>(x[i]) * static_cast<float>(x[i]);
      });
      data<float>(o.norm_N)[n] = std::sqrt(squares.sum());
    }
  });
}

// Factors and terms of one block of columns.
struct Columns {
  std::array<float, block_size> scale, add;
};

// Returns factor / divisor and the bias of columns [first, first + n).
template <class T>
Columns columns_of(const kernel::ScaleColumns& o, std::int64_t first, std::int64_t n) {
  Columns c;
  c.scale.fill(1);
  c.add.fill(0);
  if (o.factor_N) std::copy_n(data<float>(o.factor_N) + first, n, c.scale.data());
  if (o.divisor_N) {
    const float* divisor = data<float>(o.divisor_N) + first;
    float* scale = c.scale.data();
#pragma omp simd
    for (std::int64_t l = 0; l < n; ++l) {
      const float d = divisor[l], quotient = scale[l] / (d == 0 ? 1.0F : d);
      scale[l] = d == 0 ? 0.0F : quotient;
    }
  }
  if (o.bias_N) {
    const T* bias = data<T>(o.bias_N) + first;
    float* add = c.add.data();
#pragma omp simd
    for (std::int64_t l = 0; l < n; ++l) add[l] = static_cast<float>(bias[l]);
  }
  return c;
}

template <class T>
void scale_columns(const kernel::ScaleColumns& o) {
  const auto width = o.x_TN.extent[1];
  for_rows(o.x_TN.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t first = 0; first < width; first += block_size) {
      const auto n = std::min(block_size, width - first);
      const auto c = columns_of<T>(o, first, n);
      const auto body = [&c](T* y, const T* x) {
#pragma omp simd
        for (std::size_t l = 0; l < block_size; ++l)
          put(y[l], static_cast<float>(x[l]) * c.scale[l] + c.add[l]);
      };
      for (auto t = begin; t < end; ++t)
        for_blocks(n, body, data<T>(o.y_TN) + t * o.y_TN.stride[0] + first,
                   data<T>(o.x_TN) + t * o.x_TN.stride[0] + first);
    }
  });
}

}  // namespace

void run(const kernel::RowNorms& o, View) {
  by_type(o.x_NC.dtype, "row_norms", [&]<class T>(T) { row_norms<T>(o); });
}

void run(const kernel::ScaleColumns& o, View) {
  by_type(o.x_TN.dtype, "scale_columns", [&]<class T>(T) { scale_columns<T>(o); });
}

}  // namespace trireme::host
