#pragma once
// Division of a kernel's work into thread blocks and into packs of elements.
#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/kernels/start.cuh"

namespace trireme::cuda {

inline constexpr int block_threads = 256;

// Number of thread blocks that suffices to fill any current device. Each thread loops over the
// remaining elements.
inline constexpr std::int64_t most_blocks = 8192;

// Limits of a grid's size in x, and in y or z.
inline constexpr std::int64_t most_along_x = 0x7fffffff, most_along_y = 65535;

// Returns the number of blocks that n elements need with `each` elements per block. Throws Error if
// the number exceeds `most`.
inline unsigned blocks_for(std::int64_t n, std::int64_t each, std::int64_t most = most_along_x) {
  const auto blocks = (n + each - 1) / each;
  check_count(blocks, most, "blocks of a kernel");
  return static_cast<unsigned>(blocks);
}

template <class F>
__global__ void for_each(std::int64_t n, F f) {
  const auto step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (auto i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    f(i);
}

// Runs f(i) for each i < n on the stream, one thread for each i.
template <class F>
void launch_each(void* stream, const char* name, std::int64_t n, F f) {
  if (n == 0) return;  // a grid of no blocks is an error
  const auto blocks = blocks_for(std::min(n, most_blocks * block_threads), block_threads);
  start(name, for_each<F>, blocks, block_threads, 0, stream, n, f);
}

// Returns true if all pointers are aligned to 16 bytes.
template <class... P>
__host__ __device__ bool aligned(const P*... p) {
  return ((reinterpret_cast<std::uintptr_t>(p) % 16 == 0) && ...);
}

// Calls f(std::integral_constant<int, N>) if `whole` is true, else f(std::integral_constant<int,
// 1>). The argument is the number of elements per access.
template <int N, class F>
void with_packs(bool whole, const F& f) {
  if (whole)
    f(std::integral_constant<int, N>{});
  else
    f(std::integral_constant<int, 1>{});
}

}  // namespace trireme::cuda
