#pragma once
// Measured time and amount of work of operations.
#include <string>

#include "kernels/operation.hpp"

namespace trireme {

// Totals over all calls of one operation.
struct OperationTime {
  std::string name;  // examples: "matmul", "norm_grad"
  std::int64_t calls = 0;
  double milliseconds = 0;  // measured on the device
  Work work;
};

}  // namespace trireme
