#pragma once
#include <cstdint>

namespace trireme {

// Functions of one number between a model's layers: formulas in kernels/math/activations.hpp.
enum class Activation : std::uint8_t {
  gelu,  // tanh form (Hendrycks, Gimpel 2016)
};

// What opens the gate of a gated MLP (Shazeer 2020).
enum class GateFunction : std::uint8_t { silu, gelu };

}  // namespace trireme
