#pragma once
// Norm: normalization of each token over its channels.
//   layer norm  y = (x - mean) * rstd * w + b   (Ba, Kiros, Hinton 2016)
//   RMS norm    y = x * rstd * w                (Zhang, Sennrich 2019)
// The op also returns x for the residual connection, so that one pass can add the gradients of x's
// other uses to the norm's gradient. Saved tensors: x, and one or two numbers per token.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/norm_kind.hpp"

namespace trireme::ops {

// The parameters of a norm, and the computations that Norm and ResidualNorm share.
class NormWeights {
 public:
  // If the norm has no bias, `bias` is -1. An RMS norm never has a bias.
  NormWeights(NormKind, ParamId weight, ParamId bias, double eps);

  NormKind kind() const { return kind_; }
  double eps() const { return eps_; }
  std::span<const ParamId> params() const { return params_; }
  ConstView weight(const Run& run) const { return run.weights[params_[0]]; }
  // Returns the bias, or an absent view if the norm has no bias.
  ConstView bias(const Run&) const;
  // Statistics of each token's channels, one number per token. An RMS norm has no mean, so mean_T
  // is then absent.
  struct Statistics {
    Tensor mean_T, rstd_T;
  };
  // What a norm of x saves for backward().
  struct Kept {
    Tensor x{};
    Statistics of_x{};
  };
  // Allocates the statistics of x.
  Statistics statistics(const Run&, const Tensor& x, const Saved*) const;

  // Incoming gradients of a norm's backward pass. `dsum` is the gradient of its input x through
  // other uses, and `dy` is the gradient of its output. Either may be absent.
  struct Grad {
    Tensor dsum, dy;
  };
  // Which gradients a backward pass computes: only the input's, only the weights', or both.
  enum class Half : std::uint8_t { input, weight, both };
  // Returns dx = dsum + the norm's adjoint of dy, or an absent tensor if dx is not wanted. `wanted`
  // must be false with Half::weight.
  Tensor backward(const Run&, const Grad&, const Kept&, bool wanted, Half) const;

 private:
  NormKind kind_;
  std::vector<ParamId> params_;
  double eps_;
};

// Layer norm or RMS norm. Input: x. Outputs: x, y.
class Norm final : public Op {
 public:
  explicit Norm(NormWeights weights) : weights_(std::move(weights)) {}
  std::string_view name() const override { return "norm"; }
  std::span<const ParamId> params() const override { return weights_.params(); }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  NormWeights weights_;
};

}  // namespace trireme::ops
