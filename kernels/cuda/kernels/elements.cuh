#pragma once
// Memory access for device kernels, in packs of up to 16 bytes. Elements are converted to f32 when
// they are read and rounded when they are written.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lib/base/dtype.hpp"

namespace trireme::cuda {

// Number of elements of type T in one 16-byte access.
template <class T>
inline constexpr int pack_of = 16 / static_cast<int>(sizeof(T));

// N numbers in f32.
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
// Rounds to nearest, ties to even, with one instruction.
template <>
__device__ inline bf16 rounded<bf16>(float x) {
  bf16 b;
  b.bits = __bfloat16_as_ushort(__float2bfloat16_rn(x));
  return b;
}

// The widest type that divides an access of `bytes` bytes into whole words. Pointers must be
// aligned to `bytes`.
template <int bytes>
using Access = std::conditional_t<
    bytes % 16 == 0, uint4,
    std::conditional_t<bytes % 8 == 0, uint2, std::conditional_t<bytes % 4 == 0, unsigned, bf16>>>;

// Which data stays in the cache after a store: the stored data (`here`) or the data that was cached
// before (`elsewhere`).
enum class Kept : std::uint8_t { here, elsewhere };

// N elements of type T in registers, in the words in which they were loaded. A load does not block
// until its words are converted.
template <class T, int N>
struct Pack {
  static constexpr int bytes = N * static_cast<int>(sizeof(T));
  using Word = Access<bytes>;
  static constexpr int words = bytes / static_cast<int>(sizeof(Word));

  Word w[words];

  __device__ static Pack load(const T* p) {
    Pack pack;
#pragma unroll
    for (int i = 0; i < words; ++i) pack.w[i] = reinterpret_cast<const Word*>(p)[i];
    return pack;
  }
  __device__ static Pack of(const T (&v)[N]) {
    Pack pack;
    memcpy(pack.w, v, bytes);
    return pack;
  }
  __device__ static Pack of(const Floats<N>& f) {
    T v[N];
#pragma unroll
    for (int i = 0; i < N; ++i) v[i] = rounded<T>(f.v[i]);
    return of(v);
  }
  __device__ void store(T* p, Kept kept = Kept::here) const {
#pragma unroll
    for (int i = 0; i < words; ++i) {
      auto* const to = reinterpret_cast<Word*>(p) + i;
      if constexpr (sizeof(Word) >= 4) {
        if (kept == Kept::elsewhere)
          __stcs(to, w[i]);
        else
          *to = w[i];
      } else {
        *to = w[i];
      }
    }
  }
  __device__ Floats<N> floats() const {
    Floats<N> f;
    if constexpr (sizeof(T) == 2 && N % 2 == 0) {  // one instruction each instead of two
      unsigned pairs[N / 2];
      memcpy(pairs, w, bytes);
#pragma unroll
      for (int i = 0; i < N; ++i)
        f.v[i] = __uint_as_float(i % 2 == 0 ? pairs[i / 2] << 16 : pairs[i / 2] & 0xffff0000U);
    } else {
      T v[N];
      memcpy(v, w, bytes);
#pragma unroll
      for (int i = 0; i < N; ++i) f.v[i] = widen(v[i]);
    }
    return f;
  }
};

template <int N, class T>
__device__ Floats<N> load(const T* p) {
  return Pack<T, N>::load(p).floats();
}

template <int N, class T>
__device__ void store(T* p, const Floats<N>& f, Kept kept = Kept::here) {
  Pack<T, N>::of(f).store(p, kept);
}

}  // namespace trireme::cuda
