#pragma once
// sum = skip + dropout(branch),  y = norm(sum): the residual stream and what the next branch reads,
// in one pass where the backend has one. With n the norm's gradient,
//   dskip = dsum + n(dy),  dbranch = dropout(dskip)
#include <vector>

#include "lib/ops/norm.hpp"
#include "lib/ops/pointwise.hpp"

namespace trireme::ops {

class ResidualNorm final : public Op {  // in: skip, branch; out: sum, y
 public:
  ResidualNorm(DropoutSite site, NormWeights weights) : site_(site), weights_(std::move(weights)) {}
  std::string_view name() const override { return "residual_norm"; }
  std::span<const ParamId> params() const override { return weights_.params(); }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  // The gradients of skip and branch out of that of their sum.
  std::vector<Tensor> split(const Run&, Tensor dsum, std::span<const std::uint8_t> wanted) const;

  DropoutSite site_;
  NormWeights weights_;
};

}  // namespace trireme::ops
