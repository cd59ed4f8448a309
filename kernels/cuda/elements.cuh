#pragma once
// How device kernels see memory: packs of up to 16 bytes, read into f32 and rounded when written.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/base/dtype.hpp"

namespace trireme::cuda {

// Elements that one 16-byte access moves.
template <class T>
inline constexpr int pack_of = 16 / static_cast<int>(sizeof(T));

template <int N>
struct Floats {
  float v[N];
};

__device__ inline float widen(float x) {
  return x;
}
__device__ inline float widen(bf16 x) {
  return static_cast<float>(x);
}
template <class T>
__device__ T rounded(float x);
template <>
__device__ inline float rounded<float>(float x) {
  return x;
}
// The instruction: to nearest, ties to even.
template <>
__device__ inline bf16 rounded<bf16>(float x) {
  bf16 b;
  b.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
  return b;
}

// The widest access that moves so many bytes in whole ones; a pointer is aligned to all of them.
template <int bytes>
using Access = std::conditional_t<
    bytes % 16 == 0, uint4,
    std::conditional_t<bytes % 8 == 0, uint2, std::conditional_t<bytes % 4 == 0, unsigned, bf16>>>;

// N elements of T in registers, as they lie in memory.
template <class T, int N>
struct Pack {
  static constexpr int bytes = N * static_cast<int>(sizeof(T));
  using Word = Access<bytes>;
  static constexpr int words = bytes / static_cast<int>(sizeof(Word));

  T v[N];

  __device__ static Pack load(const T* p) {
    Pack pack;
    Word w[words];
#pragma unroll
    for (int i = 0; i < words; ++i) w[i] = reinterpret_cast<const Word*>(p)[i];
    memcpy(&pack, w, bytes);
    return pack;
  }
  __device__ void store(T* p) const {
    Word w[words];
    memcpy(w, this, bytes);
#pragma unroll
    for (int i = 0; i < words; ++i) reinterpret_cast<Word*>(p)[i] = w[i];
  }
  __device__ Floats<N> floats() const {
    Floats<N> f;
#pragma unroll
    for (int i = 0; i < N; ++i) f.v[i] = widen(v[i]);
    return f;
  }
};

template <int N, class T>
__device__ Floats<N> load(const T* p) {
  return Pack<T, N>::load(p).floats();
}

template <int N, class T>
__device__ void store(T* p, const Floats<N>& f) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.v[i] = rounded<T>(f.v[i]);
  pack.store(p);
}

}  // namespace trireme::cuda
