#pragma once
// Rotary position embedding (Su et al. 2021) of one pair of elements: x1 from the first half of a
// head, x2 from the second.

namespace trireme::math {

struct Pair {
  float x1, x2;
};

// Rotates (x1, x2) by the angle whose cosine is c and whose sine is s. Pass -s for the inverse.
constexpr Pair turn(Pair x, float c, float s) {
  return {x.x1 * c - x.x2 * s, x.x2 * c + x.x1 * s};
}

}  // namespace trireme::math
