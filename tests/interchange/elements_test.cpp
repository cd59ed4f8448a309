// Conversions against their definitions.
#include "lib/interchange/elements.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/support/message_of.hpp"

namespace trireme {

TEST(Elements, AllHalvesAreRead) {
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    const auto bits = static_cast<std::uint16_t>(b);
    float x = 0;
    read_elements(ElementType::f16, std::as_bytes(std::span(&bits, 1)), DType::f32,
                  std::as_writable_bytes(std::span(&x, 1)));
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) {
      EXPECT_TRUE(fraction ? std::isnan(x) : std::isinf(x));
      continue;
    }
    const double value =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    EXPECT_EQ(static_cast<double>(x), sign * value);
    EXPECT_EQ(std::signbit(x), sign < 0);
  }
}

static float as_bf16(double x) {
  bf16 y;
  write_elements(DType::f64, std::as_bytes(std::span(&x, 1)), ElementType::bf16,
                 std::as_writable_bytes(std::span(&y, 1)), "w");
  return static_cast<float>(y);
}

// 8 bits of significand: from 1 to 2 in steps of 2^-7.
TEST(Elements, DoublesAreRoundedToBf16Once) {
  EXPECT_EQ(as_bf16(1 + 0x1p-8), 1);                      // a tie, to even
  EXPECT_EQ(as_bf16(1 + 0x1p-8 + 0x1p-50), 1 + 0x1p-7F);  // by way of f32 it would be the tie
  EXPECT_EQ(as_bf16(1 + 3 * 0x1p-8 - 0x1p-50), 1 + 0x1p-7F);
  EXPECT_EQ(as_bf16(-1 - 0x1p-8 - 0x1p-50), -1 - 0x1p-7F);
  EXPECT_EQ(as_bf16(0.0), 0);
}

// The largest bf16 has 8 bits of ones; half a unit further and all are beyond it.
TEST(Elements, NothingIsWrittenThatIsNotFinite) {
  const double largest = (2 - 0x1p-7) * 0x1p127, half = 0x1p-8 * 0x1p127;
  EXPECT_EQ(as_bf16(largest), static_cast<float>(largest));
  EXPECT_EQ(as_bf16(largest + half * 0.99), static_cast<float>(largest));
  for (const double x : {largest + half, -1e39, std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity()})
    EXPECT_EQ(message_of<Error>([&] { as_bf16(x); }),
              "w contains a weight that is not finite as bf16, so nothing was written");
}

}  // namespace trireme
