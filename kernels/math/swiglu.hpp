#pragma once
// SwiGLU (Shazeer 2020): y = silu(gate) * up, silu(x) = x sigmoid(x). Error of silu 4 |x| 2^-24;
// what is below 2^-118 may be 0.
#include "kernels/math/exp.hpp"

namespace trireme::math {

constexpr float silu(float x) {
  return x / (1.0F + exp(-x));
}

constexpr float swiglu(float gate, float up) {
  return silu(gate) * up;
}

struct SwigluGradient {
  float gate, up;
};

// d silu / dx = s + x s (1 - s)
constexpr SwigluGradient swiglu_gradient(float dy, float gate, float up) {
  const float e = exp(-gate);
  const float s = 1.0F / (1.0F + e);
  const float rest = gate > 0.0F ? e * s : 1.0F - s;
  const float silu = gate * s;
  return {dy * up * (s + silu * rest), dy * silu};
}

}  // namespace trireme::math
