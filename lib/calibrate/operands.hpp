#pragma once
// Memory for what is measured, and how an operation is measured: on other operands in each call, so
// that they come from where a model's come from. What a step keeps and all of its weights are
// larger than a cache; the operands of small operations stay in it.
#include <functional>
#include <vector>

#include "lib/calibrate/stopwatch.hpp"
#include "lib/tensor/tensor.hpp"

namespace trireme {

// Tensors of random numbers in [-1, 1): what a device draws for them, and so its clock, depends on
// them.
class SampleOperands {
 public:
  explicit SampleOperands(Backend&);
  View take(DType, const Shape&);
  // i32 below `end`, in no order: all of them where there are as many.
  View numbers(const Shape&, std::int64_t end);

 private:
  Backend& backend_;
  Tensor random_;
  std::vector<Tensor> tensors_;
};

// Seconds of one call of an operation, of which `make` makes one on operands of its own.
double seconds_of_calls(Backend&, const Stopwatch&,
                        const std::function<kernel::Operation(SampleOperands&)>& make);

}  // namespace trireme
