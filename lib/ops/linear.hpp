#pragma once
// Linear: a matrix product with an optional bias.
//   y_TN = x_TC w_NC' + b_N
//   dx = dy w;  dw = sum over tokens dy' x;  db = sum over tokens dy
// With ProductType::fp8, the operands of the three products are rounded to fp8 (lib/ops/fp8.hpp) in
// Phase::train. Evaluation and generation use the compute type.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/product_type.hpp"

namespace trireme::ops {

// A linear layer.
class Linear final : public Op {
 public:
  // If the layer has no bias, `bias` is -1. `outputs` is N, the number of output channels.
  Linear(ParamId weight, ParamId bias, std::int64_t outputs, ProductType = ProductType::compute);

  std::string_view name() const override { return "linear"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

  // The three matrix products of a linear layer, for ops that consist of several layers. The
  // functions set the bias and the row sums of the epilogue. The caller may set the rest of the
  // epilogue.
  Shape output_shape(const Shape& x_TC) const;
  void multiply(const Run&, const Tensor& y_TN, const Tensor& x_TC, Epilogue = {}) const;
  void multiply_grad(const Run&, const Tensor& dx_TC, const Tensor& dy_TN,
                     const Epilogue& = {}) const;
  void add_gradients(const Run&, const Tensor& dy_TN, const Tensor& x_TC) const;

 private:
  bool in_fp8(const Run&) const;

  std::vector<ParamId> params_;  // weight, then bias if present
  std::int64_t outputs_;
  ProductType type_;
};

}  // namespace trireme::ops
