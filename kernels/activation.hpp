#pragma once
#include <cstdint>

namespace trireme {

// Element-wise activation functions of a model. kernels/math/activations.hpp contains their
// formulas.
enum class Activation : std::uint8_t {
  gelu,  // tanh approximation (Hendrycks, Gimpel 2016)
};

// Activation function applied to the gate of a gated MLP (Shazeer 2020). silu gives SwiGLU, gelu
// gives GeGLU.
enum class GateFunction : std::uint8_t { silu, gelu };

}  // namespace trireme
