#pragma once
// Mlp: two linear layers with an activation f between them.
//   y_TC = f(x_TC w1_FC' + b1_F) w2_CF' + b2_C
// Both layers form one op, so that f and its derivative can be fused into the products.
#include <vector>

#include "lib/ops/linear.hpp"

namespace trireme::ops {

// An MLP with an ungated activation.
class Mlp final : public Op {
 public:
  Mlp(Linear in, Activation, Linear out);

  std::string_view name() const override { return "mlp"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  Tensor hidden_gradient(const Run&, const Tensor& dy, const Tensor& z) const;
  Tensor input_gradient(const Run&, const Tensor& dz, const Shape& x) const;

  Linear in_, out_;
  Activation activation_;
  std::vector<ParamId> params_;
};

}  // namespace trireme::ops
