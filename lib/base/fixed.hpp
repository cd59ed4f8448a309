#pragma once
// Sums as integers, which have no order: a real number as a count of quanta. Gradients are 64-bit
// counts of 2^-50, their squares 128-bit counts of 2^-96, a microbatch's losses 64-bit ones of
// 2^-32, which ranks add as 128-bit ones. 64-bit additions wrap; whoever sums compares the largest
// term times the number of terms with what the sum holds, which has no order either.
//
// A term that is too large for a sum, or NaN, counts as nothing: the largest one tells of it.
#include <array>
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

inline std::int64_t of_gradient(float x) {
  const float fits = std::fabs(x) < gradient_limit ? x : 0.0F;
  return static_cast<std::int64_t>(std::rint(fits * 0x1p50F));  // rounded once, to a count
}
inline float to_gradient(std::int64_t quanta) {
  return static_cast<float>(quanta) * 0x1p-50F;
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
