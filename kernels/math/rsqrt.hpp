#pragma once
// 1 / sqrt(x) within 1.5 ulp: two instructions that round correctly, on vectors too. rsqrt(0) is
// inf, below 0 a NaN.
#include <cmath>

namespace trireme::math {

// The one std:: function in here: under -fno-math-errno it is an instruction, never a call.
constexpr float sqrt(float x) {
  return std::sqrt(x);
}

constexpr float rsqrt(float x) {
  return 1.0F / sqrt(x);
}

}  // namespace trireme::math
