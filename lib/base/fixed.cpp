#include "lib/base/fixed.hpp"

namespace trireme::fixed {

using Unsigned = unsigned __int128;

std::array<double, limbs> to_limbs(Int128 x) {
  const auto bits = static_cast<Unsigned>(x);
  const auto low = [&](int shift) {
    return static_cast<double>(static_cast<std::uint32_t>(bits >> shift));
  };
  return {static_cast<double>(static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 96))),
          low(64), low(32), low(0)};
}

Int128 of_limbs(std::span<const double, limbs> x) {
  // Carry upward, so that the highest limb shows whether the sum fits.
  std::array<std::int64_t, limbs> limb{};
  std::int64_t carry = 0;
  for (std::size_t i = limbs; i-- > 0;) {
    limb[i] = static_cast<std::int64_t>(x[i]) + carry;
    if (i == 0) break;
    carry = limb[i] >> 32;  // rounds down
    limb[i] &= 0xffffffff;
  }
  constexpr std::int64_t end = std::int64_t{1} << 31;
  if (limb[0] >= end) return most;
  if (limb[0] < -end) return -most;
  Unsigned sum = static_cast<Unsigned>(static_cast<Int128>(limb[0]));
  for (std::size_t i = 1; i < limbs; ++i) sum = (sum << 32) | static_cast<std::uint32_t>(limb[i]);
  return static_cast<Int128>(sum);
}

double to_double(Int128 x, int bits) {
  const bool negative = x < 0;
  Unsigned size = negative ? -static_cast<Unsigned>(x) : static_cast<Unsigned>(x);
  int shift = 0;
  // If a bit that is shifted out is not 0, the last bit becomes 1, so that ties round correctly.
  while (size >> 64) {
    size = (size >> 1) | (size & 1U);
    ++shift;
  }
  const double value =
      std::ldexp(static_cast<double>(static_cast<std::uint64_t>(size)), shift - bits);
  return negative ? -value : value;
}

}  // namespace trireme::fixed
