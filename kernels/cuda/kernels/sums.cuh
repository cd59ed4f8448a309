#pragma once
// Sums over the threads of a warp or thread block. The order of additions depends only on the
// number of threads. Every thread receives the result.
#include <cuda_runtime.h>

namespace trireme::cuda {

inline constexpr int warp = 32;

template <class T>
__device__ T warp_sum(T x) {
#pragma unroll
  for (int lane = warp / 2; lane > 0; lane /= 2) x += __shfl_xor_sync(0xffffffffU, x, lane);
  return x;
}

// Computes M sums over a warp together, which hides the latency of the shuffles.
template <int M, class T>
__device__ void warp_sums(T (&x)[M]) {
#pragma unroll
  for (int lane = warp / 2; lane > 0; lane /= 2)
#pragma unroll
    for (int m = 0; m < M; ++m) x[m] += __shfl_xor_sync(0xffffffffU, x[m], lane);
}

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int lane = warp / 2; lane > 0; lane /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, lane));
  return x;
}

// Computes M sums over a block of `Threads` threads. Every thread must call the function. Calls may
// follow each other without a barrier.
template <int Threads, int M, class T>
__device__ void block_sums(T (&x)[M]) {
  constexpr int warps = Threads / warp;
  warp_sums(x);
  if constexpr (warps > 1) {
    __shared__ T of_warp[warps][M];
    __syncthreads();
    if (threadIdx.x % warp == 0)
#pragma unroll
      for (int m = 0; m < M; ++m) of_warp[threadIdx.x / warp][m] = x[m];
    __syncthreads();
#pragma unroll
    for (int m = 0; m < M; ++m) x[m] = 0;
#pragma unroll(M == 1 ? warps : 2)
    for (int i = 0; i < warps; ++i)
#pragma unroll
      for (int m = 0; m < M; ++m) x[m] += of_warp[i][m];
  }
}
template <int Threads, class T>
__device__ T block_sum(T x) {
  T one[1] = {x};
  block_sums<Threads>(one);
  return one[0];
}

template <int Threads>
__device__ float block_max(float x) {
  constexpr int warps = Threads / warp;
  x = warp_max(x);
  __shared__ float of_warp[warps];
  __syncthreads();
  if (threadIdx.x % warp == 0) of_warp[threadIdx.x / warp] = x;
  __syncthreads();
  float most = of_warp[0];
#pragma unroll
  for (int i = 1; i < warps; ++i) most = fmaxf(most, of_warp[i]);
  return most;
}

}  // namespace trireme::cuda
