#pragma once
// Gated activations and their gradients. SwiGLU (Shazeer 2020): y = silu(gate) * up with silu(x) =
// x sigmoid(x). GeGLU is the same with gelu. The error of silu is 4 |x| 2^-24. Below x = -87 it
// returns -1e-36 instead of a number even closer to 0. A NaN stays a NaN.
//
// The clamped SwiGLU of gpt-oss is y = g sigmoid(alpha g) (u + 1), where g = min(gate, limit) and u
// = up, clamped to [-limit, limit]. As g sigmoid(alpha g) = silu(alpha g) / alpha, it is computed
// from silu. A clamped input gets no gradient.
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

// Gradients of a gated activation with respect to its two inputs, and with respect to a weight that
// multiplies the result.
struct SwigluGradient {
  float gate, up, weight;
};

// Returns the gradients with respect to gate and up. d silu / dx = s + x s (1 - s), where s =
// sigmoid(x) and 1 - s is computed as e^-x s.
template <class A = Exact>
constexpr SwigluGradient swiglu_gradient(float dy, float gate, float up) {
  const float x = bounded(gate, 87.0F);
  const float e = A::exp_normal(-x);
  const float s = A::quotient(1.0F, 1.0F + e);
  const float slope = s + x * (s * (e * s));
  const float to_up = dy * ((gate < -87.0F ? -87.0F : gate) * s);
  return {dy * up * unless_nan(gate, slope), to_up, to_up * up};
}

// SwiGLU. The class computes the value. Given the gradient dy of the result, it also computes the
// gradients of both inputs.
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

// GeGLU. The class computes the value. Given the gradient dy of the result, it also computes the
// gradients of both inputs.
struct GeluGate {
  template <class A = Exact>
  static constexpr float value(float gate, float up) {
    return gelu<A>(gate) * up;
  }
  template <class A = Exact>
  static constexpr SwigluGradient gradient(float dy, float gate, float up) {
    const float to_up = dy * gelu<A>(gate);
    return {dy * up * gelu_derivative<A>(gate), to_up, to_up * up};
  }
};

// The clamped SwiGLU of gpt-oss. The class computes the value. Given the gradient dy of the result,
// it also computes the gradients of both inputs. The error of the value is 6 |alpha g| 2^-24 (|u| +
// 1).
struct ClampedSiluGate {
  static constexpr float alpha = 1.702F, limit = 7.0F;

  template <class A = Exact>
  static constexpr float value(float gate, float up) {
    return silu<A>(alpha * below(gate)) * (1.0F / alpha) * (within(up) + 1.0F);
  }
  template <class A = Exact>
  static constexpr SwigluGradient gradient(float dy, float gate, float up) {
    const auto g = swiglu_gradient<A>(dy, alpha * below(gate), within(up) + 1.0F);
    return {gate > limit ? 0.0F : g.gate, up > limit || up < -limit ? 0.0F : g.up * (1.0F / alpha),
            g.weight * (1.0F / alpha)};
  }

 private:
  static constexpr float below(float x) { return x > limit ? limit : x; }
  static constexpr float within(float x) { return x < -limit ? -limit : below(x); }
};

// Calls f with an object of the class that has the gate's formulas, such as SiluGate.
template <class F>
void with_gate(GateFunction g, const F& f) {
  switch (g) {
    case GateFunction::silu:
      return f(SiluGate{});
    case GateFunction::gelu:
      return f(GeluGate{});
    case GateFunction::clamped_silu:
      return f(ClampedSiluGate{});
  }
}

}  // namespace trireme::math
