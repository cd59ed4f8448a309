#pragma once
// How long the calls of an operation took, beside what there was to do.
#include <string>

#include "kernels/operation.hpp"

namespace trireme {

// All calls of one operation together.
struct OperationTime {
  std::string name;  // "matmul", "norm_grad"
  std::int64_t calls = 0;
  double milliseconds = 0;  // by the device's clock
  Work work;
};

}  // namespace trireme
