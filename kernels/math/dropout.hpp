#pragma once
// Dropout's mask and factor; DropoutKey says which random number belongs to an element.
#include <cstdint>

#include "lib/base/rng.hpp"

namespace trireme::math {

struct Dropout {
  float p, factor;  // factor = 1 / (1 - p)

  constexpr explicit Dropout(float p_) : p(p_), factor(1.0F / (1.0F - p_)) {}

  // x times its factor, 0 where `random` drops it.
  constexpr float operator()(float x, std::uint32_t random) const {
    return unit_float(random) < p ? 0.0F : x * factor;
  }
};

}  // namespace trireme::math
