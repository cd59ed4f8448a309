// MXFP4 against the definition of OCP Microscaling Formats 1.0.
#include "lib/interchange/mxfp4.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace trireme {

// E2M1 has a sign, an exponent with a bias of 1 and one bit of mantissa. Numbers with an exponent
// of 0 are subnormal.
static double e2m1(unsigned code) {
  const int exponent = static_cast<int>(code >> 1U) & 3, mantissa = static_cast<int>(code) & 1;
  const double size = exponent == 0 ? mantissa * 0.5 : std::ldexp(1 + mantissa * 0.5, exponent - 1);
  return code & 8U ? -size : size;
}

TEST(Mxfp4, AllCodesWithAllScalesAreExact) {
  for (int scale = 0; scale < 253; ++scale)
    for (unsigned low = 0; low < 16; ++low) {
      std::vector<std::byte> codes;
      for (unsigned high = 0; high < 16; ++high)
        codes.push_back(static_cast<std::byte>(high << 4U | low));
      std::vector<float> to(32);
      const std::byte scales[] = {static_cast<std::byte>(scale)};
      mxfp4::decode(codes, scales, to);
      for (unsigned high = 0; high < 16; ++high) {
        ASSERT_EQ(to[2 * high], std::ldexp(e2m1(low), scale - 127)) << scale;
        ASSERT_EQ(to[2 * high + 1], std::ldexp(e2m1(high), scale - 127)) << scale;
        ASSERT_EQ(std::signbit(to[2 * high]), low >= 8);
      }
    }
}

TEST(Mxfp4, TheLargestScaleIsNotANumber) {
  const std::vector<std::byte> codes(16, std::byte{0x10});
  const std::byte scales[] = {std::byte{255}};
  std::vector<float> to(32);
  mxfp4::decode(codes, scales, to);
  for (const float x : to) EXPECT_TRUE(std::isnan(x));
}

TEST(Mxfp4, EachBlockHasItsScale) {
  std::vector<std::byte> codes(32, std::byte{0x22});
  const std::byte scales[] = {std::byte{127}, std::byte{130}};
  std::vector<float> to(64);
  mxfp4::decode(codes, scales, to);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(to[i], i < 32 ? 1 : 8) << i;
}

}  // namespace trireme
