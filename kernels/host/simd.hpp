#pragma once
// Vectors of floats, as wide as the target CPU has them, through the compiler's vector extension.
// +, - and * work lane by lane, and a product that is added becomes one FMA. Only the few loops
// that the compiler does not vectorize by itself use these vectors. The code does not depend on a
// particular instruction set.
#include <array>
#include <cstdint>
#include <cstring>

#include "lib/base/dtype.hpp"

namespace trireme::host {

// Floats in a vector: 16 with AVX-512, 8 with AVX2.
inline constexpr int lanes = __BIGGEST_ALIGNMENT__ / sizeof(float);
using Vec [[gnu::vector_size(lanes * sizeof(float))]] = float;
using VecInt [[gnu::vector_size(lanes * sizeof(float))]] = std::int32_t;
using VecBits [[gnu::vector_size(lanes * sizeof(float))]] = std::uint32_t;
using VecHalf [[gnu::vector_size(lanes * sizeof(bf16))]] = std::uint16_t;

inline Vec load(const float* p) {
  Vec v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline Vec load(const bf16* p) {
  VecHalf half;
  std::memcpy(&half, p, sizeof half);
  return (Vec)(__builtin_convertvector(half, VecBits) << 16);
}

inline void store(float* p, Vec v) {
  std::memcpy(p, &v, sizeof v);
}

// Stores a vector as bf16, rounding like the constructor of bf16.
inline void store(bf16* p, Vec v) {
  const auto u = (VecBits)v;
  const VecBits rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
  const VecBits bits = (u & 0x7fffffffU) > 0x7f800000U ? (u >> 16) | 0x40U : rounded;
  const VecHalf half = __builtin_convertvector(bits, VecHalf);
  std::memcpy(static_cast<void*>(p), &half, sizeof half);
}

inline Vec larger(Vec a, Vec b) {
  return a > b ? a : b;
}

// Returns the vector (first, first + 1, ...).
inline VecInt counted_from(std::int64_t first) {
  VecInt v;
  for (int l = 0; l < lanes; ++l) v[l] = l;
  return v + static_cast<std::int32_t>(first);
}

inline constexpr float log2_e = 0x1.715476p0F, ln_2 = 0x1.62e43p-1F;

// Returns 2^x within 2 ulp for x <= 126. Below -125 the result stays at about 2^-125. The nearest
// integer n is added to the exponent, and a polynomial (minimax, exact at 0) gives the remaining
// factor. math::exp supports every x with masked code that takes three times as long (measured).
inline Vec exp2_below(Vec x) {
  constexpr float shift = 0x1.8p23F;  // adding it rounds to an integer, which is in the lowest bits
  x = x < -125.0F ? Vec{} - 125.0F : x;
  const Vec shifted = x + shift;
  const Vec r = x - (shifted - shift);
  Vec p = r * 0x1.5bba14p-10F + 0x1.3cea88p-7F;
  p = p * r + 0x1.c6b752p-5F;
  p = p * r + 0x1.ebf9bcp-3F;
  p = p * r + 0x1.62e42ap-1F;
  p = p * r + 1.0F;
  return (Vec)((VecBits)p + ((VecBits)shifted << 23));
}

// Swaps the off-diagonal blocks of `step` lanes in each pair of rows that are `step` apart. Then
// repeats this for step / 2, step / 4 and so on, down to 1. With step = lanes / 2 this transposes
// the square.
template <int step>
inline void exchange(std::array<Vec, lanes>& row) {
  VecInt low, high;  // source lanes in the concatenation of rows i and i + step
  for (int l = 0; l < lanes; ++l) {
    low[l] = (l & step) ? lanes + l - step : l;
    high[l] = (l & step) ? lanes + l : l + step;
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; ++i) {
    if (i & step) continue;
    const Vec a = row[i], b = row[i + step];
    row[i] = __builtin_shuffle(a, b, low);
    row[i + step] = __builtin_shuffle(a, b, high);
  }
  if constexpr (step > 1) exchange<step / 2>(row);
}

// Returns a vector whose lane r is the sum of all lanes of row[r], added in lane order.
inline Vec sums(std::array<Vec, lanes> row) {
  exchange<lanes / 2>(row);
  Vec total = row[0];
#pragma GCC unroll 16
  for (int l = 1; l < lanes; ++l) total += row[l];
  return total;
}

// Transposes a square of `lanes` x `lanes`: to[c][r] = from[r][c] * factor. The distances of rows,
// to_ld and from_ld, are in elements.
template <class T>
inline void transpose(float* to, std::int64_t to_ld, const T* from, std::int64_t from_ld,
                      float factor) {
  std::array<Vec, lanes> row;
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) row[r] = load(from + r * from_ld) * factor;
  exchange<lanes / 2>(row);
#pragma GCC unroll 16
  for (int r = 0; r < lanes; ++r) store(to + r * to_ld, row[r]);
}

}  // namespace trireme::host
