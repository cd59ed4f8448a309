#pragma once
// Conversion between f32 and e4m3, and the scale of a group of numbers. All functions give the same
// bits on every machine.
#include <bit>
#include <cstdint>

namespace trireme::math {

// Returns the smallest power of two, at least 2^-116, by which a number of this magnitude must be
// divided to be at most 448. The argument is the magnitude's bits as f32. Returns NaN if the
// magnitude is not finite. With a scale of 2^-116 or more, denormal numbers are rounded to 0, so it
// does not matter whether a processor treats them as zeros.
constexpr float fp8_scale(std::uint32_t magnitude) {
  constexpr std::uint32_t mantissa_of_448 = 0x600000, exponents_to_448 = 8, smallest = 127 - 116;
  const std::uint32_t exponent = magnitude >> 23,
                      up = (magnitude & 0x7fffffU) > mantissa_of_448 ? 1 : 0;
  if (exponent == 255) return std::bit_cast<float>(0x7fc00000U);
  const auto power = exponent + up;
  return std::bit_cast<float>(
      (power > exponents_to_448 + smallest ? power - exponents_to_448 : smallest) << 23);
}

// Returns 1 / scale for a result of fp8_scale(). The quotient is exact. The result for NaN has no
// meaning.
constexpr float fp8_inverse(float scale) {
  return std::bit_cast<float>((254U << 23) - (std::bit_cast<std::uint32_t>(scale) & 0x7f800000U));
}

// Rounds x to the nearest e4m3 number, ties to even. The magnitude of x must be at most 448.
constexpr std::uint8_t to_e4m3(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x), magnitude = bits & 0x7fffffffU;
  constexpr std::uint32_t bias = 120U << 3;  // difference of the exponents' offsets
  const auto normal = ((magnitude + 0x7ffffU + (magnitude >> 20 & 1U)) >> 20) - bias;
  // Below 2^-6, e4m3 numbers are multiples of 2^-9. The sum with 2^14 is rounded to one of them.
  constexpr float shift = 16384;
  const auto small = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + shift) -
                     std::bit_cast<std::uint32_t>(shift);
  constexpr std::uint32_t smallest_normal = 121U << 23;
  return static_cast<std::uint8_t>((bits >> 24 & 0x80U) |
                                   (magnitude < smallest_normal ? small : normal));
}

// Returns the value of an e4m3 code. 127 and 255 are NaN.
constexpr float from_e4m3(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fU;
  const float value = magnitude == 127 ? std::bit_cast<float>(0x7fc00000U)
                      : magnitude < 8  ? static_cast<float>(magnitude) * 0x1p-9F
                                       : std::bit_cast<float>((magnitude + (120U << 3)) << 20);
  return code < 128 ? value : -value;
}

}  // namespace trireme::math
