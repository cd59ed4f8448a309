#pragma once
// Size of the state that attention stores for each query and head between pieces of keys. The
// forward pass stores a sum of head_dim floats, the maximum score and the total of the
// exponentials. The backward pass stores the sum of dq. Memory plans and kernels both use this
// function.
#include "kernels/operations.hpp"

namespace trireme::cuda {

// Returns the number of floats of state for each query and head.
constexpr std::int64_t kept_floats(Direction d, std::int64_t head_dim) {
  return d == Direction::forward ? head_dim + 2 : head_dim;
}

}  // namespace trireme::cuda
