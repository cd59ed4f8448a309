#pragma once
// Exact arithmetic for the formulas of this folder. The formulas have a template parameter A, a
// class that computes e^x and quotients. The default is Exact. Device code may use a faster class
// if the results need fewer bits (kernels/cuda/kernels/quick.cuh).
#include "kernels/math/exp.hpp"

namespace trireme::math {

// Arithmetic with an error of at most 1 ulp and the same bits on every machine.
struct Exact {
  static constexpr float exp(float x) { return math::exp(x); }
  static constexpr float exp_normal(float x) { return math::exp_normal(x); }
  static constexpr float quotient(float a, float b) { return a / b; }
};

}  // namespace trireme::math
