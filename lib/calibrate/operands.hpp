#pragma once
// Operands for measurements. Each call of an operation gets different operands, so that data comes
// from the same level of the memory hierarchy as in training: the weights and activations of a step
// do not fit in a cache, but the operands of small operations do.
#include <functional>
#include <vector>

#include "lib/calibrate/stopwatch.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Allocates tensors of random numbers in [-1, 1). Random data matters because a device's power
// draw, and therefore its clock rate, depends on the data.
class SampleOperands {
 public:
  explicit SampleOperands(Backend&);
  // Returns a new tensor that lives as long as this object. All elements of integer tensors are 5.
  View take(DType, const Shape&);
  // Returns an i32 tensor of shuffled numbers in [0, end). If there are enough elements, every
  // number occurs.
  View numbers(const Shape&, std::int64_t end);

 private:
  Backend& backend_;
  Tensor random_;
  std::vector<Tensor> tensors_;
};

// Returns the seconds of one call of an operation. `make` returns the operation with new operands.
double seconds_of_calls(Backend&, const Stopwatch&,
                        const std::function<kernel::Operation(SampleOperands&)>& make);

}  // namespace trireme
