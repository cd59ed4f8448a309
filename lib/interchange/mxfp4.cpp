#include "lib/interchange/mxfp4.hpp"

#include <cmath>

#include "lib/base/error.hpp"

namespace trireme::mxfp4 {

void decode(std::span<const std::byte> codes, std::span<const std::byte> scales,
            std::span<float> to) {
  constexpr float magnitudes[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  expect(codes.size() == scales.size() * code_bytes && to.size() == scales.size() * block,
         "each block has a scale, 16 bytes of codes and 32 numbers");
  const auto number = [&](unsigned code, int exponent) {
    const float magnitude = std::ldexp(magnitudes[code & 7U], exponent);
    return (code & 8U) != 0 ? -magnitude : magnitude;
  };
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const auto both = std::to_integer<unsigned>(codes[i]);
    const int exponent = std::to_integer<int>(scales[i / code_bytes]) - 127;
    to[2 * i] = number(both & 15U, exponent);
    to[2 * i + 1] = number(both >> 4U, exponent);
  }
}

}  // namespace trireme::mxfp4
