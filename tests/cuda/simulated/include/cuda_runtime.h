#pragma once
// CUDA's runtime for kernels that a compiler for the host compiles: NVIDIA's own header, and the
// words of the language that it leaves to nvcc.
#include_next <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>

#include "tests/cuda/simulated/block.hpp"

#undef __shared__
#define __shared__ static  // one block runs at a time
#undef __launch_bounds__
#define __launch_bounds__(...)

#define threadIdx (trireme::simulated::here().thread)
#define blockIdx (trireme::simulated::here().block)
#define blockDim (trireme::simulated::here().threads)
#define gridDim (trireme::simulated::here().blocks)

inline void __syncthreads(
    const trireme::simulated::Where& where = trireme::simulated::Where::current()) {
  trireme::simulated::meet_block(where);
}
inline void __syncwarp(
    unsigned mask = 0xffffffffU,
    const trireme::simulated::Where& where = trireme::simulated::Where::current()) {
  trireme::simulated::vote(mask, false, where);
}
template <class T>
T __shfl_sync(unsigned mask, T x, int lane,
              const trireme::simulated::Where& where = trireme::simulated::Where::current()) {
  return trireme::simulated::from_lane(mask, x, static_cast<unsigned>(lane), where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T x, int flipped,
                  const trireme::simulated::Where& where = trireme::simulated::Where::current()) {
  return trireme::simulated::from_lane(mask, x, (threadIdx.x ^ static_cast<unsigned>(flipped)) % 32,
                                       where);
}
inline unsigned __ballot_sync(
    unsigned mask, int x,
    const trireme::simulated::Where& where = trireme::simulated::Where::current()) {
  return trireme::simulated::vote(mask, x != 0, where);
}
template <class T>
T atomicAdd(T* p, T x) {  // one thread runs at a time
  return std::exchange(*p, *p + x);
}
template <class T>
void __stcs(T* p, T x) {
  *p = x;
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
