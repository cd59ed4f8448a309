#pragma once
// ResidualNorm: adds a branch to the residual stream and normalizes the sum for the next branch.
//   sum = skip + dropout(branch);  y = norm(sum)
//   dskip = dsum + n(dy), dbranch = dropout(dskip), where n is the adjoint of the norm
// If the backend has a fused kernel, the op takes one pass over memory.
#include <vector>

#include "lib/ops/norm.hpp"
#include "lib/ops/pointwise.hpp"

namespace trireme::ops {

// A residual addition followed by a norm. Inputs: skip, branch. Outputs: sum, y.
class ResidualNorm final : public Op {
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
  // Returns the gradients of skip and branch, given the gradient of their sum.
  std::vector<Tensor> split(const Run&, Tensor dsum, std::span<const std::uint8_t> wanted) const;

  DropoutSite site_;
  NormWeights weights_;
};

}  // namespace trireme::ops
