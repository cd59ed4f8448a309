#pragma once
// Maps each Activation to a class that computes its value and its derivative, in f32, on host and
// device.
#include "kernels/activation.hpp"
#include "kernels/math/gelu.hpp"

namespace trireme::math {

// GELU. `value` returns the function, and `slope` returns its derivative. The template parameter A
// is the arithmetic (exact.hpp).
struct GeluFormula {
  template <class A = Exact>
  static constexpr float value(float x) {
    return gelu<A>(x);
  }
  template <class A = Exact>
  static constexpr float slope(float x) {
    return gelu_derivative<A>(x);
  }
};

// Calls f with the class of the activation's formulas, e.g. f(GeluFormula{}).
template <class F>
void with_formula(Activation a, const F& f) {
  switch (a) {
    case Activation::gelu:
      return f(GeluFormula{});
  }
}

}  // namespace trireme::math
