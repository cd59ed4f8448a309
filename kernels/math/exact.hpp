#pragma once
// The formulas of this folder take as an argument how e^x and quotients are computed: exactly, or,
// where a device has something faster for results of fewer bits, that way
// (kernels/cuda/kernels/quick.cuh).
#include "kernels/math/exp.hpp"

namespace trireme::math {

// Within 1 ulp, the same bits on every machine.
struct Exact {
  static constexpr float exp(float x) { return math::exp(x); }
  static constexpr float exp_normal(float x) { return math::exp_normal(x); }
  static constexpr float quotient(float a, float b) { return a / b; }
};

}  // namespace trireme::math
