#pragma once
// y_TN = act(x_TC w_NC' + b_N)
// dz = act'(z) dy;  dx = dz w;  dw = sum over tokens dz' x;  db = sum over tokens dz
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

enum class Activation : std::uint8_t { none, gelu };

class Linear final : public Op {
 public:
  // `bias` of value -1: none. outputs = N.
  Linear(ParamId weight, ParamId bias, std::int64_t outputs, Activation = Activation::none);

  std::string_view name() const override { return "linear"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  std::vector<ParamId> params_;
  std::int64_t outputs_;
  Activation activation_;
};

}  // namespace trireme::ops
