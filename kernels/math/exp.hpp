#pragma once
// The exponential function for f32 within 1 ulp, in plain arithmetic without branches. Loops over
// it vectorise, and device code runs the same lines. Bounds and NaNs are handled as integer
// operations on the bits, which compilers vectorize with masks. For two consecutive comparisons of
// floats, GCC would produce branches.
#include <algorithm>
#include <bit>
#include <cstdint>

namespace trireme::math {

// Returns x with its magnitude limited to `bound`. A NaN becomes the bound, with the sign of the
// NaN.
constexpr float bounded(float x, float bound) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto size = std::min(bits & 0x7fffffffU, std::bit_cast<std::uint32_t>(bound));
  return std::bit_cast<float>(size | (bits & 0x80000000U));
}

// Returns y, or a NaN if x is a NaN. The sign of (bits of inf) - (bits of |x|) serves as a mask.
constexpr float unless_nan(float x, float y) {
  const auto size = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
  const std::int32_t mask = (0x7f800000 - size) >> 31;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(y) | mask);
}

// A representation of e^x as 2^n p. The low 9 bits of `n` hold the exponent modulo 2^9.
struct Exponential {
  float p;
  std::uint32_t n;
};

// Splits e^x for |x| < 2^9: x = n ln 2 + r with |r| <= ln 2 / 2, and p = e^r = 1 + r + r^2 q(r),
// where q is the minimax polynomial for the relative error of e^r (2^-28).
constexpr Exponential split_exp(float x) {
  constexpr float shift = 0x1.8p23F;  // adding it rounds to an integer, which is in the low bits
  constexpr float log2_e = 0x1.715476p0F, ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  const float shifted = x * log2_e + shift;
  const float n = shifted - shift;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float q = 0x1.6afe12p-10F;
  q = q * r + 0x1.124492p-7F;
  q = q * r + 0x1.555826p-5F;
  q = q * r + 0x1.555482p-3F;
  q = q * r + 0x1.fffffcp-2F;
  return {(q * r) * r + r + 1.0F, std::bit_cast<std::uint32_t>(shifted)};
}

// Returns e^x for |x| <= 87, where e^x is a normal number. n is added to the exponent field of p.
constexpr float exp_normal(float x) {
  const auto e = split_exp(x);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(e.p) + (e.n << 23));
}

// Returns e^x for all x. The result overflows to inf and is rounded to subnormal numbers and 0. A
// NaN stays a NaN. 2^n is applied as two factors, so that only the last product rounds. At the
// bound of |x|, the first factor is 0 or 2^127.
constexpr float exp(float x) {
  const auto e = split_exp(bounded(x, 176.0F));
  const auto n = static_cast<std::int32_t>(e.n << 23) >> 23;
  const auto half = n >> 1;
  const auto power = [](std::int32_t k) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23);
  };
  return unless_nan(x, e.p * power(half) * power(n - half));
}

}  // namespace trireme::math
