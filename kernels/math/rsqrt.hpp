#pragma once
// The function 1 / sqrt(x) for f32 within 1.5 ulp. The function uses two correctly rounded
// instructions, which also exist for vectors. rsqrt(0) is inf, and the result for negative numbers
// is a NaN.
#include <cmath>

namespace trireme::math {

// Returns sqrt(x). std::sqrt compiles to one instruction, never to a call, under -fno-math-errno.
constexpr float sqrt(float x) {
  return std::sqrt(x);
}

constexpr float rsqrt(float x) {
  return 1.0F / sqrt(x);
}

}  // namespace trireme::math
