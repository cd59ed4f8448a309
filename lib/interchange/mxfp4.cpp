#include "lib/interchange/mxfp4.hpp"

#include <cmath>
#include <limits>

#include "lib/base/error.hpp"

namespace trireme::mxfp4 {

void decode(std::span<const std::byte> codes, std::span<const std::byte> scales,
            std::span<float> to) {
  constexpr float numbers[] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                               -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  constexpr int nan = 255, bias = 127;
  expect(codes.size() == scales.size() * code_bytes && to.size() == scales.size() * block,
         "each block has a scale, 16 bytes of codes and 32 numbers");
  for (std::size_t b = 0; b < scales.size(); ++b) {
    const int exponent = std::to_integer<int>(scales[b]);
    const float scale = exponent == nan ? std::numeric_limits<float>::quiet_NaN()
                                        : std::ldexp(1.0F, exponent - bias);
    for (std::size_t i = b * code_bytes; i < (b + 1) * code_bytes; ++i) {
      const auto both = std::to_integer<unsigned>(codes[i]);
      to[2 * i] = scale * numbers[both & 15U];
      to[2 * i + 1] = scale * numbers[both >> 4U];
    }
  }
}

}  // namespace trireme::mxfp4
