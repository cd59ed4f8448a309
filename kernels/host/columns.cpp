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

// Returns factor[i] / divisor[i]. A null pointer counts as 1. Returns 0 if the divisor is 0.
inline float quotient(const float* factor, const float* divisor, std::int64_t i) {
  const float f = factor ? factor[i] : 1.0F;
  if (!divisor) return f;
  return divisor[i] == 0 ? 0.0F : f / divisor[i];
}

template <class T>
void scale_columns(const kernel::ScaleColumns& o) {
  const auto width = o.x_TN.extent[1];
  const auto *factor = data<float>(o.factor_N), *divisor = data<float>(o.divisor_N);
  const T* bias = data<T>(o.bias_N);
  for_rows(o.x_TN.extent[0], width, [&](std::int64_t begin, std::int64_t end) {
    std::array<float, block_size> scale{}, add{};
    for (std::int64_t first = 0; first < width; first += block_size) {
      const auto n = std::min(block_size, width - first);
      for (std::int64_t l = 0; l < n; ++l) {
        const auto i = static_cast<std::size_t>(l);
        scale[i] = quotient(factor, divisor, first + l);
        add[i] = bias ? static_cast<float>(bias[first + l]) : 0.0F;
      }
      const auto body = [&scale, &add](T* y, const T* x) {
#pragma omp simd
        for (std::size_t l = 0; l < block_size; ++l)
          put(y[l], static_cast<float>(x[l]) * scale[l] + add[l]);
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
