#pragma once
// Sums as integers, which have no order: a real number as a count of quanta. Gradients are 64-bit
// counts of 2^-50, their squares 128-bit counts of 2^-96, a microbatch's losses 64-bit ones of
// 2^-32, which ranks add as 128-bit ones. 64-bit additions wrap; whoever sums compares the largest
// term times the number of terms with what the sum holds, which has no order either.
//
// A term that is too large for a sum, or NaN, counts as nothing: the largest one shows it.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace trireme::fixed {

using Int128 = __int128;

inline constexpr int gradient_bits = 50, square_bits = 96, loss_bits = 32;
inline constexpr float gradient_limit = 0x1p13F;  // of a sum
inline constexpr double loss_limit = 0x1p31;      // of a sum
// Of an evaluation's sums of losses, tokens that one has at most: so whether their counts have room
// depends on the largest loss alone, on no grid.
inline constexpr std::int64_t loss_terms = 1 << 20;

// Between floating point and 64-bit integers vector units have no instructions before AVX-512; what
// follows is additions that move a number's bits to where an integer's are.

// x to the nearest integer, of two the even one, for |x| < 2^63 with at most 32 significant bits.
inline std::int64_t nearest(double x) {
  constexpr double one_is_last = 0x1.8p52;  // of sums with it the last bit counts ones
  constexpr auto its_bits = std::bit_cast<std::int64_t>(one_is_last);
  const double high = x * 0x1p-32 + one_is_last;
  const double low = (x - (high - one_is_last) * 0x1p32) + one_is_last;
  return static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(std::bit_cast<std::int64_t>(high) - its_bits) << 32) +
      static_cast<std::uint64_t>(std::bit_cast<std::int64_t>(low) - its_bits));
}
// x, rounded to double's 53 bits.
inline double to_double(std::int64_t x) {
  constexpr std::uint64_t ones = 0x4330000000000000,  // 2^52, with 32 bits of ones below
      highs = 0x4530000080000000;                     // 2^84 + 2^63, with 32 bits of 2^32 below
  const auto u = static_cast<std::uint64_t>(x);
  const double low = std::bit_cast<double>((u & 0xffffffffU) | ones);
  const double high = std::bit_cast<double>((u >> 32) ^ highs);
  return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
}

inline std::int64_t of_gradient(float x) {
  const float fits = std::fabs(x) < gradient_limit ? x : 0.0F;
  return nearest(static_cast<double>(fits) * 0x1p50);  // rounded once, to a count
}
// Do so many terms of at most this magnitude fit into a sum?
inline bool fits_gradients(double terms, float largest) {
  return terms * static_cast<double>(largest) < static_cast<double>(gradient_limit);
}
// Rounded to double, then to float.
inline float to_gradient(std::int64_t quanta) {
  return static_cast<float>(to_double(quanta) * 0x1p-50);
}
// Of a sum of gradients: counts of 2^-100 without their last four bits.
inline Int128 square_of(std::int64_t quanta) {
  return (static_cast<Int128>(quanta) * quanta) >> (2 * gradient_bits - square_bits);
}
inline std::int64_t of_loss(double x) {
  const double fits = std::fabs(x) < loss_limit ? x : 0.0;
  return static_cast<std::int64_t>(std::rint(fits * 0x1p32));
}

inline std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
// Of squares, none negative: stops at `most`, whatever the order.
inline constexpr Int128 most = static_cast<Int128>(~static_cast<unsigned __int128>(0) >> 1);
inline Int128 capped_sum(Int128 a, Int128 b) {
  return a > most - b ? most : a + b;
}

// The larger of two magnitudes; infinite where x is NaN.
inline float larger(float so_far, float x) {
  const float size = x == x ? std::fabs(x) : INFINITY;
  return size > so_far ? size : so_far;
}

// A 128-bit integer as four numbers below 2^32 (the first may be negative), highest first. Such
// numbers may be added in double, in any order and up to 2^20 of them, without rounding.
inline constexpr std::size_t limbs = 4;
std::array<double, limbs> to_limbs(Int128);
// Of limbs or sums of limbs; sums beyond `most` or below -most become these.
Int128 of_limbs(std::span<const double, limbs>);
// x 2^-bits, rounded once to double's 53 bits from the 64 highest ones.
double to_double(Int128 x, int bits);

}  // namespace trireme::fixed
