#pragma once
// e^x for f32 within 1 ulp in plain arithmetic without branches: loops over it vectorise, and
// device code runs the same lines. Values are bounded, and NaNs found, by their bits as integers,
// which becomes masks: GCC makes branches of two comparisons of floats in a row.
#include <algorithm>
#include <bit>
#include <cstdint>

namespace trireme::math {

// x with its magnitude bounded; a NaN becomes the bound.
constexpr float bounded(float x, float bound) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const auto size = std::min(bits & 0x7fffffffU, std::bit_cast<std::uint32_t>(bound));
  return std::bit_cast<float>(size | (bits & 0x80000000U));
}

// y, or a NaN where x is one: a mask from the sign of inf's bits less those of |x|.
constexpr float unless_nan(float x, float y) {
  const auto size = static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(x) & 0x7fffffffU);
  const std::int32_t mask = (0x7f800000 - size) >> 31;
  return std::bit_cast<float>(std::bit_cast<std::int32_t>(y) | mask);
}

// e^x = 2^n p, n as an integer modulo 2^9 in the low bits.
struct Exponential {
  float p;
  std::uint32_t n;
};

// For |x| < 2^9: x = n ln 2 + r with |r| <= ln 2 / 2, and e^r - 1 - r = r^2 q(r) with q the minimax
// polynomial for the relative error of e^r (2^-28).
constexpr Exponential split_exp(float x) {
  constexpr float shift = 0x1.8p23F;  // adding it rounds to an integer, kept in the low bits
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

// For |x| <= 87, where e^x is a normal number: p's exponent field takes n.
constexpr float exp_normal(float x) {
  const auto e = split_exp(x);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(e.p) + (e.n << 23));
}

// For all x: overflows to inf, is rounded to subnormal numbers and to 0; a NaN stays a NaN. 2^n in
// two factors, so that only the last product rounds. At the bound the first is 0 or 2^127.
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
