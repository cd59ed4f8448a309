#include "kernels/cuda/cast.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/check.hpp"

namespace trireme::cuda {
namespace {

constexpr int block = 256;
// Enough blocks to fill any device of today; each thread then strides over the rest.
constexpr std::int64_t most_blocks = 4096;

template <class F>
__global__ void each(std::int64_t n, F f) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step)
    f(i);
}

template <class F>
void launch(void* stream, std::int64_t n, F f) {
  if (n == 0) return;  // a grid of no blocks is an error
  const auto blocks = static_cast<unsigned>(std::min((n + block - 1) / block, most_blocks));
  each<<<blocks, block, 0, static_cast<cudaStream_t>(stream)>>>(n, f);
  check(cudaGetLastError(), "kernel launch");
}

template <class To, class From>
struct Cast {
  To* dst;
  const From* src;
  __device__ void operator()(std::int64_t i) const { dst[i] = static_cast<To>(src[i]); }
};

template <class T>
struct Fill {
  T* dst;
  T value;
  __device__ void operator()(std::int64_t i) const { dst[i] = value; }
};

}  // namespace

void cast(void* stream, bf16* dst, const float* src, std::int64_t n) {
  launch(stream, n, Cast<bf16, float>{dst, src});
}
void cast(void* stream, float* dst, const bf16* src, std::int64_t n) {
  launch(stream, n, Cast<float, bf16>{dst, src});
}
void fill(void* stream, float* dst, float value, std::int64_t n) {
  launch(stream, n, Fill<float>{dst, value});
}
void fill(void* stream, bf16* dst, float value, std::int64_t n) {
  launch(stream, n, Fill<bf16>{dst, bf16(value)});
}

}  // namespace trireme::cuda
