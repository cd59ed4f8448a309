#pragma once
// Rotary positions (Su et al. 2021), halves rotated: (x1, x2) turns by the angle of (c, s).

namespace trireme::math {

struct Pair {
  float x1, x2;
};

// The inverse turn is the turn with -s.
constexpr Pair turn(Pair x, float c, float s) {
  return {x.x1 * c - x.x2 * s, x.x2 * c + x.x1 * s};
}

}  // namespace trireme::math
