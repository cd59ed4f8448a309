#pragma once
// What attention keeps of a query and head between pieces of keys: forward sums of D, their maximum
// and their total; backward the sum of dq. Of a plan and of the kernels.
#include "kernels/operations.hpp"

namespace trireme::cuda {

constexpr std::int64_t kept_floats(Direction d, std::int64_t head_dim) {
  return d == Direction::forward ? head_dim + 2 : head_dim;
}

}  // namespace trireme::cuda
