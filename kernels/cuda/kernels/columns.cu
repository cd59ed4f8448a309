// Norms of rows, and scaling of columns.
#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

// Each warp processes one row.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    row_norms(float* norm_N, const T* x_NC, std::int64_t stride, std::int64_t rows,
              std::int64_t width) {
  const auto row =
      static_cast<std::int64_t>(blockIdx.x) * (block_threads / warp) + threadIdx.x / warp;
  if (row >= rows) return;
  const int lane = static_cast<int>(threadIdx.x) % warp;
  float squares = 0;
  for (std::int64_t c = lane * N; c < width; c += warp * N) {
    const auto x = load<N>(x_NC + row * stride + c);
#pragma unroll
    for (int i = 0; i < N; ++i) squares += x.v[i] * x.v[i];
  }
  squares = warp_sum(squares);
  if (lane == 0) norm_N[row] = sqrtf(squares);
}

// Scales one pack.
template <int N, class T>
struct ScaleColumns {
  T* y_TN;
  const T* x_TN;
  const float *factor_N, *divisor_N;  // either may be null
  const T* bias_N;                    // may be null
  std::int64_t y_stride, x_stride, width;

  __device__ void operator()(std::int64_t pack) const {
    const auto row = pack * N / width, column = pack * N % width;
    auto x = load<N>(x_TN + row * x_stride + column);
    Floats<N> bias{};
    if (bias_N != nullptr) bias = load<N>(bias_N + column);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float scale = factor_N == nullptr ? 1.0F : factor_N[column + i];
      if (divisor_N != nullptr) {
        const float divisor = divisor_N[column + i];
        scale = divisor == 0 ? 0.0F : scale / divisor;
      }
      x.v[i] = x.v[i] * scale + bias.v[i];
    }
    store<N>(y_TN + row * y_stride + column, x);
  }
};

}  // namespace

void run(const kernel::RowNorms& o, const OnStream& on) {
  const auto rows = o.x_NC.extent[0], width = o.x_NC.extent[1], stride = o.x_NC.stride[0];
  if (rows == 0) return;
  with_type(o.x_NC.dtype, [&]<class T>(T) {
    const auto* const x = at<T>(o.x_NC);
    const bool whole = width % pack_of<T> == 0 && stride % pack_of<T> == 0 && aligned(x);
    with_packs<pack_of<T>>(whole, [&](auto packs) {
      start("row_norms", row_norms<decltype(packs)::value, T>,
            blocks_for(rows, block_threads / warp), block_threads, 0, on.stream,
            at<float>(o.norm_N), x, stride, rows, width);
    });
  });
}

void run(const kernel::ScaleColumns& o, const OnStream& on) {
  const auto width = o.x_TN.extent[1], x_stride = o.x_TN.stride[0], y_stride = o.y_TN.stride[0];
  with_type(o.x_TN.dtype, [&]<class T>(T) {
    auto* const y = at<T>(o.y_TN);
    const auto *const x = at<T>(o.x_TN), *const bias = at<T>(o.bias_N);
    const bool whole = (width | x_stride | y_stride) % pack_of<T> == 0 && aligned(y, x, bias);
    with_packs<pack_of<T>>(whole, [&](auto packs) {
      constexpr int N = decltype(packs)::value;
      launch_each(on.stream, "scale_columns", o.x_TN.count() / N,
                  ScaleColumns<N, T>{y, x, at<float>(o.factor_N), at<float>(o.divisor_N), bias,
                                     y_stride, x_stride, width});
    });
  });
}

}  // namespace trireme::cuda
