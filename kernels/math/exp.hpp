#pragma once
// e^x for f32 within 1 ulp, subnormal results included, in plain arithmetic without branches: loops
// over it vectorise, and device code runs the same lines. Overflows to inf, underflows to 0, a NaN
// stays a NaN.
#include <bit>
#include <cstdint>

namespace trireme::math {

// 2^n for n in [-126, 127]; other n give some float.
constexpr float power_of_two(std::uint32_t n) {
  return std::bit_cast<float>((n + 127U) << 23);
}

// x = n ln 2 + r with |r| <= ln 2 / 2; e^r - 1 - r = r^2 q(r) with q the minimax polynomial for the
// relative error of e^r (2^-28); 2^n in two factors, so that only the last product rounds.
constexpr float exp(float x) {
  constexpr float shift = 0x1.8p23F;  // adding it rounds to an integer, kept in the low bits
  constexpr float log2_e = 0x1.715476p0F, ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  const bool vanishes =
      x < -104.0F;  // chosen, as a product that underflows costs hundreds of cycles
  x = vanishes ? 0.0F : x;
  x = x > 89.0F ? 89.0F : x;
  const float shifted = x * log2_e + shift;
  const float n = shifted - shift;
  const float r = (x - n * ln2_high) - n * ln2_low;
  float q = 0x1.6afe12p-10F;
  q = q * r + 0x1.124492p-7F;
  q = q * r + 0x1.555826p-5F;
  q = q * r + 0x1.555482p-3F;
  q = q * r + 0x1.fffffcp-2F;
  const float p = (q * r) * r + r + 1.0F;
  const auto whole = std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(shift);
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(whole) >> 1);
  const float y = p * power_of_two(half) * power_of_two(whole - half);
  return vanishes ? 0.0F : y;
}

}  // namespace trireme::math
