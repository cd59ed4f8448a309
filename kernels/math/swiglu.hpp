#pragma once
// SwiGLU (Shazeer 2020): y = silu(gate) * up, silu(x) = x sigmoid(x). Error of silu 4 |x| 2^-24.
// Below x = -87 it is -1e-36 instead of something yet closer to 0. A NaN stays a NaN.
// GeGLU: gelu for silu.
#include "kernels/activation.hpp"
#include "kernels/math/gelu.hpp"

namespace trireme::math {

template <class A = Exact>
constexpr float silu(float x) {
  return A::quotient(x < -87.0F ? -87.0F : x, 1.0F + A::exp_normal(-bounded(x, 87.0F)));
}

template <class A = Exact>
constexpr float swiglu(float gate, float up) {
  return silu<A>(gate) * up;
}

struct SwigluGradient {
  float gate, up;
};

// d silu / dx = s + x s (1 - s), with 1 - s = e^-x s
template <class A = Exact>
constexpr SwigluGradient swiglu_gradient(float dy, float gate, float up) {
  const float x = bounded(gate, 87.0F);
  const float e = A::exp_normal(-x);
  const float s = A::quotient(1.0F, 1.0F + e);
  const float slope = s + x * (s * (e * s));
  return {dy * up * unless_nan(gate, slope), dy * ((gate < -87.0F ? -87.0F : gate) * s)};
}

struct SiluGate {
  template <class A = Exact>
  static constexpr float value(float gate, float up) {
    return swiglu<A>(gate, up);
  }
  template <class A = Exact>
  static constexpr SwigluGradient gradient(float dy, float gate, float up) {
    return swiglu_gradient<A>(dy, gate, up);
  }
};

struct GeluGate {
  template <class A = Exact>
  static constexpr float value(float gate, float up) {
    return gelu<A>(gate) * up;
  }
  template <class A = Exact>
  static constexpr SwigluGradient gradient(float dy, float gate, float up) {
    return {dy * up * gelu_derivative<A>(gate), dy * gelu<A>(gate)};
  }
};

// f(the gate's formulas)
template <class F>
void with_gate(GateFunction g, const F& f) {
  switch (g) {
    case GateFunction::silu:
      return f(SiluGate{});
    case GateFunction::gelu:
      return f(GeluGate{});
  }
}

}  // namespace trireme::math
