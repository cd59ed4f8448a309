#pragma once
// Dropout of one element: the mask and the scale factor. DropoutKey defines which random number an
// element uses.
#include <cstdint>

#include "lib/base/rng.hpp"

namespace trireme::math {

// Dropout with a fixed probability.
struct Dropout {
  float p, factor;  // p is the probability of dropping; factor = 1 / (1 - p)

  constexpr explicit Dropout(float p_) : p(p_), factor(1.0F / (1.0F - p_)) {}

  // Returns 0 if `random` drops the element, else x * factor.
  constexpr float operator()(float x, std::uint32_t random) const {
    return unit_float(random) < p ? 0.0F : x * factor;
  }
};

}  // namespace trireme::math
