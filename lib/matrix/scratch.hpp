#pragma once
// Divides a dense view into parts, one after another.
#include <cstdint>

#include "lib/base/view.hpp"

namespace trireme {

// The part of a dense view that is not taken yet. take() of a copy does not change the original, so
// that a function with its own copy frees its memory when it returns.
class Scratch {
 public:
  explicit Scratch(const View& all) : rest_(all) {}

  // Returns a dense view of the next elements. `all` must have enough of them.
  View take(const Shape& shape) {
    const View part = rest_.slice(0, 0, shape.count()).reshaped(shape);
    rest_ = rest_.slice(0, shape.count(), rest_.extent[0] - shape.count());
    return part;
  }

 private:
  View rest_;
};

}  // namespace trireme
