#pragma once
// How e^x and quotients are made in the formulas of this folder is an argument of theirs: exactly,
// but where a device has something faster for results of fewer bits
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
