#pragma once
// Natural logarithm for f32 within 1 ulp, without branches. Subnormal arguments are supported.
// log(0) is -inf, log(inf) is inf, and the result for negative numbers and NaNs is a NaN.
#include <bit>
#include <cstdint>
#include <limits>

namespace trireme::math {

// Returns log(x). With x = 2^n (1 + f) and 1 + f in [sqrt(1/2), sqrt(2)), log(1 + f) = f - f^2/2 +
// f^3 q(f), where q is the minimax polynomial for the relative error of log(1 + f) (2^-28).
constexpr float log(float x) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float ln2_high = 0x1.62e4p-1F, ln2_low = 0x1.7f7d1cp-20F;
  const bool tiny = x < 0x1p-126F;
  const auto bits = std::bit_cast<std::uint32_t>(tiny ? x * 0x1p23F : x);
  constexpr std::uint32_t root = 0x3f3504f3U;  // sqrt(1/2)
  const std::uint32_t above = bits - root;     // exponent field: relative to the root
  const auto exponent = static_cast<std::int32_t>(above) >> 23;
  const float n = static_cast<float>(exponent - (tiny ? 23 : 0));
  const float f = std::bit_cast<float>((above & 0x007fffffU) + root) - 1.0F;
  float q = 0x1.b52768p-5F;
  q = q * f - 0x1.bf5794p-4F;
  q = q * f + 0x1.f01f32p-4F;
  q = q * f - 0x1.0106e4p-3F;
  q = q * f + 0x1.230304p-3F;
  q = q * f - 0x1.552f04p-3F;
  q = q * f + 0x1.99a542p-3F;
  q = q * f - 0x1.00007p-2F;
  q = q * f + 0x1.555548p-2F;
  const float square = f * f;
  const float low = n * ln2_low + (square * f * q - 0.5F * square);
  const float y = n * ln2_high + (f + low);
  const float finite = x > 0.0F ? y : (x == 0.0F ? -inf : std::numeric_limits<float>::quiet_NaN());
  return x < inf ? finite : x;  // inf and NaN
}

}  // namespace trireme::math
