#pragma once
// Sums of real numbers that do not depend on the order of addition. Each number is rounded to an
// integer multiple of a fixed quantum, and the integers are added.
//   gradients: 64-bit integers, quantum 2^-50
//   squared gradients: 128-bit integers, quantum 2^-96
//   losses: 64-bit integers within a micro-batch, 128-bit integers across ranks, quantum 2^-32
// Sums in 64 bits wrap around silently. To detect overflow, the caller multiplies the largest
// magnitude by the number of terms and compares the product with the limit. This check does not
// depend on the order of addition either.
//
// A term that is NaN or exceeds the limit is added as zero and is detected through the largest
// magnitude.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace trireme::fixed {

using Int128 = __int128;

inline constexpr int gradient_bits = 50, square_bits = 96, loss_bits = 32;
// Upper limit for the magnitude of a gradient sum.
inline constexpr float gradient_limit = 0x1p13F;
// Upper limit for the magnitude of a loss sum.
inline constexpr double loss_limit = 0x1p31;
// Maximum number of tokens in one loss sum of an evaluation. Because this limit is fixed, whether a
// sum can overflow depends only on the largest loss and not on the grid of ranks.
inline constexpr std::int64_t loss_terms = 1 << 20;

// The next two functions convert between floating point and 64-bit integers. Vector units have
// instructions for this conversion only since AVX-512. The functions therefore use floating-point
// additions that align a number's bits as in an integer.

// Returns x rounded to the nearest integer, ties to even. Requires |x| < 2^63 and at most 32
// significant bits.
inline std::int64_t nearest(double x) {
  constexpr double one_is_last = 0x1.8p52;  // the last bit of a sum with this number counts ones
  constexpr auto its_bits = std::bit_cast<std::int64_t>(one_is_last);
  const double high = x * 0x1p-32 + one_is_last;
  const double low = (x - (high - one_is_last) * 0x1p32) + one_is_last;
  return static_cast<std::int64_t>(
      (static_cast<std::uint64_t>(std::bit_cast<std::int64_t>(high) - its_bits) << 32) +
      static_cast<std::uint64_t>(std::bit_cast<std::int64_t>(low) - its_bits));
}
// Returns x converted to double, rounded to 53 bits.
inline double to_double(std::int64_t x) {
  constexpr std::uint64_t ones = 0x4330000000000000,  // 2^52, with 32 bits of ones below
      highs = 0x4530000080000000;                     // 2^84 + 2^63, with 32 bits of 2^32 below
  const auto u = static_cast<std::uint64_t>(x);
  const double low = std::bit_cast<double>((u & 0xffffffffU) | ones);
  const double high = std::bit_cast<double>((u >> 32) ^ highs);
  return (high - (0x1p84 + 0x1p63 + 0x1p52)) + low;
}

// Returns the gradient in quanta, rounded once. Returns 0 if the gradient is NaN or its magnitude
// is not below `gradient_limit`.
inline std::int64_t of_gradient(float x) {
  const float fits = std::fabs(x) < gradient_limit ? x : 0.0F;
  return nearest(static_cast<double>(fits) * 0x1p50);  // rounded once, to a count
}
// Returns true if a sum of `terms` numbers of magnitude at most `largest` cannot overflow.
inline bool fits_gradients(double terms, float largest) {
  return terms * static_cast<double>(largest) < static_cast<double>(gradient_limit);
}
// Returns the gradient as a float. The conversion rounds to double first, then to float.
inline float to_gradient(std::int64_t quanta) {
  return static_cast<float>(to_double(quanta) * 0x1p-50);
}
// Returns the square of a gradient sum in quanta of 2^-96. The exact square is in quanta of 2^-100,
// and its last four bits are dropped.
inline Int128 square_of(std::int64_t quanta) {
  return (static_cast<Int128>(quanta) * quanta) >> (2 * gradient_bits - square_bits);
}
// Returns the loss in quanta. Returns 0 if the loss is NaN or not below `loss_limit`.
inline std::int64_t of_loss(double x) {
  const double fits = std::fabs(x) < loss_limit ? x : 0.0;
  return static_cast<std::int64_t>(std::rint(fits * 0x1p32));
}

inline std::int64_t wrapping_sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
// The largest 128-bit integer.
inline constexpr Int128 most = static_cast<Int128>(~static_cast<unsigned __int128>(0) >> 1);
// Returns a + b, limited to `most`. The summands are squares and must not be negative. The result
// of several additions does not depend on their order.
inline Int128 capped_sum(Int128 a, Int128 b) {
  return a > most - b ? most : a + b;
}

// Returns the larger of `so_far` and |x|. Returns infinity if x is NaN.
inline float larger(float so_far, float x) {
  const float size = x == x ? std::fabs(x) : INFINITY;
  return size > so_far ? size : so_far;
}

// Number of limbs in a 128-bit integer. Each limb holds 32 bits and is stored as a double, the most
// significant limb first. Only the first limb may be negative. Up to 2^20 limbs of the same
// significance can be added as doubles, in any order, without rounding.
inline constexpr std::size_t limbs = 4;
std::array<double, limbs> to_limbs(Int128);
// Returns the integer with these limbs. The limbs may be sums of limbs. The result is limited to
// the range from -most to most.
Int128 of_limbs(std::span<const double, limbs>);
// Returns x * 2^-bits, rounded once to the 53 bits of a double.
double to_double(Int128 x, int bits);

}  // namespace trireme::fixed
