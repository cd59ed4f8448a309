#include "lib/base/finite.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace trireme {

namespace {

// Returns true if any number has an exponent of all ones, which means infinity or NaN. The loop has
// no branches and works in blocks of constant length, so that the compiler can vectorize it.
template <class Bits>
bool any_not_finite(const std::byte* at, std::size_t numbers, Bits exponent) {
  constexpr std::size_t block = 64;
  Bits found = 0;
  for (std::size_t i = 0; i < numbers; i += block) {
    Bits bits[block] = {};
    std::memcpy(bits, at + i * sizeof(Bits), std::min(block, numbers - i) * sizeof(Bits));
    for (const auto b : bits) found |= (b & exponent) == exponent;
  }
  return found != 0;
}

template <class Number, class Bits>
std::optional<std::size_t> first_of(std::span<const std::byte> bytes, Bits exponent) {
  static_assert(sizeof(Number) == sizeof(Bits));
  const auto numbers = bytes.size() / sizeof(Number);
  if (!any_not_finite(bytes.data(), numbers, exponent)) return {};
  for (std::size_t i = 0;; ++i) {
    Number x;
    std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
    if (!std::isfinite(x)) return i;
  }
}

}  // namespace

std::optional<std::size_t> first_not_finite(std::span<const std::byte> bytes, DType type) {
  if (type == DType::f64) return first_of<double>(bytes, std::uint64_t{0x7ff0000000000000});
  return first_of<float>(bytes, std::uint32_t{0x7f800000});
}

}  // namespace trireme
