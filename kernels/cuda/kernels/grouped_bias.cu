// Biases of experts and their gradients. R rows, sorted by expert, N columns. The kernels read the
// row offsets of the experts from device memory.
#include <algorithm>

#include "kernels/cuda/kernels/elements.cuh"
#include "kernels/cuda/kernels/launch.cuh"
#include "kernels/cuda/kernels/sums.cuh"
#include "kernels/cuda/kernels/views.hpp"

namespace trireme::cuda {
namespace {

// Vectors of the experts of one launch. The parameters of a kernel hold their addresses.
constexpr int launch_experts = 256;
template <class T>
struct Vectors {
  T* data[launch_experts];        // null if the vector is absent
  const std::int32_t* offset_E1;  // offset_E1[e] is the first row of expert e of this launch
  int count;
};

// Returns the index of the row's expert within the launch, or -1 if another launch has the expert.
template <class T>
__device__ int expert_of(const Vectors<T>& experts, std::int64_t r) {
  if (r < experts.offset_E1[0] || r >= experts.offset_E1[experts.count]) return -1;
  int begin = 0, end = experts.count;  // the expert is in [begin, end)
  while (end - begin > 1) {
    const int middle = (begin + end) / 2;
    if (experts.offset_E1[middle] <= r)
      begin = middle;
    else
      end = middle;
  }
  return begin;
}

// Each warp processes one row.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    add_biases(T* y_RN, const float* weight_R, Vectors<const T> experts, std::int64_t rows,
               std::int64_t width) {
  const auto r =
      static_cast<std::int64_t>(blockIdx.x) * (block_threads / warp) + threadIdx.x / warp;
  if (r >= rows) return;
  const int e = expert_of(experts, r);
  if (e < 0) return;
  const float weight = weight_R == nullptr ? 1 : weight_R[r];
  for (std::int64_t n = static_cast<int>(threadIdx.x) % warp * N; n < width; n += warp * N) {
    auto y = load<N>(y_RN + r * width + n);
    const auto bias = load<N>(experts.data[e] + n);
#pragma unroll
    for (int i = 0; i < N; ++i) y.v[i] += weight * bias.v[i];
    store<N>(y_RN + r * width + n, y);
  }
}

// Sums the rows of expert blockIdx.y, for warp * N columns in each block. The block's warps, called
// strips, take the rows in turn.
template <int strips, int N, class T>
__global__ void __launch_bounds__(warp* strips)
    sum_groups(Vectors<float> experts, bool add, const T* dy_RN, const float* weight_R,
               std::int64_t width) {
  const auto e = blockIdx.y;
  float* const out_N = experts.data[e];
  if (out_N == nullptr) return;
  __shared__ Floats<N> of_strip[strips][warp];
  const int lane = static_cast<int>(threadIdx.x) % warp,
            strip = static_cast<int>(threadIdx.x) / warp;
  const auto n = (static_cast<std::int64_t>(blockIdx.x) * warp + lane) * N;
  const std::int64_t begin = experts.offset_E1[e], end = experts.offset_E1[e + 1];
  Floats<N> sum{};
  if (n < width)
    for (auto r = begin + strip; r < end; r += strips) {
      const auto dy = load<N>(dy_RN + r * width + n);
      const float weight = weight_R == nullptr ? 1 : weight_R[r];
#pragma unroll
      for (int i = 0; i < N; ++i) sum.v[i] += weight * dy.v[i];
    }
  of_strip[strip][lane] = sum;
  __syncthreads();
  if (strip != 0 || n >= width) return;
  if (add)
    sum = load<N>(out_N + n);
  else
    sum = {};
#pragma unroll
  for (int s = 0; s < strips; ++s)
#pragma unroll
    for (int i = 0; i < N; ++i) sum.v[i] += of_strip[s][lane].v[i];
  store<N>(out_N + n, sum);
}

// Each warp processes one row.
template <int N, class T>
__global__ void __launch_bounds__(block_threads)
    add_weight_gradients(float* dweight_R, const T* dy_RN, Vectors<const T> experts,
                         std::int64_t rows, std::int64_t width) {
  const auto r =
      static_cast<std::int64_t>(blockIdx.x) * (block_threads / warp) + threadIdx.x / warp;
  if (r >= rows) return;
  const int e = expert_of(experts, r), lane = static_cast<int>(threadIdx.x) % warp;
  if (e < 0) return;
  float sum = 0;
  for (std::int64_t n = lane * N; n < width; n += warp * N) {
    const auto dy = load<N>(dy_RN + r * width + n), bias = load<N>(experts.data[e] + n);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += dy.v[i] * bias.v[i];
  }
  sum = warp_sum(sum);
  if (lane == 0) dweight_R[r] += sum;
}

// Calls launch(vectors, whole) repeatedly until the launches cover all experts. `whole` is true if
// all vectors are aligned to 16 bytes.
template <class T, class V, class Launch>
void each_launch(const std::vector<V>& all, const ConstView& offset_E1, const Launch& launch) {
  for (std::size_t first = 0; first < all.size(); first += launch_experts) {
    Vectors<T> some{{}, at<std::int32_t>(offset_E1) + first, 0};
    bool whole = true;
    for (auto e = first; e < std::min(all.size(), first + launch_experts); ++e) {
      some.data[some.count++] = at<std::remove_const_t<T>>(all[e]);
      whole = whole && aligned(all[e].data);
    }
    launch(some, whole);
  }
}

}  // namespace

void run(const kernel::GroupedBias& o, const OnStream& on) {
  const auto rows = o.y_RN.extent[0], width = o.y_RN.extent[1];
  if (rows == 0) return;
  with_type(o.y_RN.dtype, [&]<class T>(T) {
    auto* const y = at<T>(o.y_RN);
    each_launch<const T>(o.bias_N, o.offset_E1, [&](const Vectors<const T>& some, bool whole) {
      with_packs<pack_of<T>>(whole && width % pack_of<T> == 0 && aligned(y), [&](auto packs) {
        start("grouped_bias", add_biases<decltype(packs)::value, T>,
              blocks_for(rows, block_threads / warp), block_threads, 0, on.stream, y,
              at<float>(o.weight_R), some, rows, width);
      });
    });
  });
}

void run(const kernel::GroupedBiasGrad& o, const OnStream& on) {
  const auto rows = o.dy_RN.extent[0], width = o.dy_RN.extent[1];
  with_type(o.dy_RN.dtype, [&]<class T>(T) {
    const auto* const dy = at<T>(o.dy_RN);
    const bool fits = width % pack_of<T> == 0 && aligned(dy);
    each_launch<float>(o.dbias_N, o.offset_E1, [&](const Vectors<float>& some, bool whole) {
      with_packs<pack_of<T>>(whole && fits, [&](auto packs) {
        constexpr int N = decltype(packs)::value, strips = 8;
        const dim3 grid(blocks_for(width, warp * N), static_cast<unsigned>(some.count));
        start("grouped_bias_grad", sum_groups<strips, N, T>, grid, warp * strips, 0, on.stream,
              some, o.how == Accumulate::add, dy, at<float>(o.weight_R), width);
      });
    });
    if (!o.dweight_R || rows == 0) return;
    each_launch<const T>(o.bias_N, o.offset_E1, [&](const Vectors<const T>& some, bool whole) {
      with_packs<pack_of<T>>(whole && fits, [&](auto packs) {
        start("grouped_bias_grad", add_weight_gradients<decltype(packs)::value, T>,
              blocks_for(rows, block_threads / warp), block_threads, 0, on.stream,
              at<float>(o.dweight_R), dy, some, rows, width);
      });
    });
  });
}

}  // namespace trireme::cuda
