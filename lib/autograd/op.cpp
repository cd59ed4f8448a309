#include "lib/autograd/op.hpp"

#include <utility>

namespace trireme {

std::vector<Tensor> Op::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                 std::span<const std::uint8_t> wanted) const {
  auto grad_in = input_gradients(run, grad_out, saved, wanted);
  weight_gradients(run, std::move(grad_out), std::move(saved));
  return grad_in;
}

}  // namespace trireme
