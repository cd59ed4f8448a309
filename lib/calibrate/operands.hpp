#pragma once
// Memory for what is measured: tensors of small numbers.
#include <vector>

#include "lib/tensor/tensor.hpp"

namespace trireme {

class Operands {
 public:
  explicit Operands(Backend& b) : backend_(b) {}

  View take(DType t, const Shape& s) {
    tensors_.push_back(Tensor::empty(backend_, s, t, Kind::transient));
    const View v = tensors_.back().view();
    backend_.put(Queue::compute, kernel::Fill{.dst = v, .value = integers(t) ? 5 : 0.01});
    return v;
  }

 private:
  static bool integers(DType t) { return t == DType::i32 || t == DType::i64; }
  Backend& backend_;
  std::vector<Tensor> tensors_;
};

}  // namespace trireme
