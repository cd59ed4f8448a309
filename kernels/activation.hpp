#pragma once
#include <cstdint>

namespace trireme {

// Element-wise activation functions of a model. kernels/math/activations.hpp contains their
// formulas.
enum class Activation : std::uint8_t {
  gelu,  // tanh approximation (Hendrycks, Gimpel 2016)
};

// Activation function for the gate of a gated MLP (Shazeer 2020). `silu` gives SwiGLU, and `gelu`
// gives GeGLU. `clamped_silu` gives the clamped SwiGLU of gpt-oss (kernels/math/swiglu.hpp).
enum class GateFunction : std::uint8_t { silu, gelu, clamped_silu };

}  // namespace trireme
