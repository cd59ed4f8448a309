#pragma once
// Which formulas an Activation stands for, in f32, for host and device.
#include "kernels/activation.hpp"
#include "kernels/math/gelu.hpp"

namespace trireme::math {

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

// f(the formula)
template <class F>
void with_formula(Activation a, const F& f) {
  switch (a) {
    case Activation::gelu:
      return f(GeluFormula{});
  }
}

}  // namespace trireme::math
