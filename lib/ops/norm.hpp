#pragma once
// Layer norm  y = (x - mean) * rstd * w + b   (Ba, Kiros, Hinton 2016)
// RMS norm    y = x * rstd * w                (Zhang, Sennrich 2019)
// over the width of each token. x goes on beside y, so that what its other readers send back is
// added to the norm's gradient in the same pass. Saved: x and a statistic or two a token.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/norm_kind.hpp"

namespace trireme::ops {

// What a norm alone and one after a residual share.
class NormWeights {
 public:
  // `bias` of value -1: none, as for NormKind::rms.
  NormWeights(NormKind, ParamId weight, ParamId bias, double eps);

  NormKind kind() const { return kind_; }
  double eps() const { return eps_; }
  std::span<const ParamId> params() const { return params_; }
  ConstView weight(const Run& run) const { return run.weights[params_[0]]; }
  ConstView bias(const Run&) const;  // absent where there is none
  // One number a token; the mean's is absent for the RMS norm.
  struct Statistics {
    Tensor mean_T, rstd_T;
  };
  Statistics statistics(const Run&, const Tensor& x, const Saved*) const;

  // The adjoint at x, saved as {x, mean, rstd}. dx = dsum + the norm's adjoint of dy; either may be
  // absent.
  struct Grad {
    Tensor dsum, dy;
  };
  enum class Half : std::uint8_t { input, weight, both };
  // dx, absent if not wanted; never wanted with Half::weight.
  Tensor backward(const Run&, const Grad&, const Saved&, bool wanted, Half) const;

 private:
  NormKind kind_;
  std::vector<ParamId> params_;
  double eps_;
};

class Norm final : public Op {  // in: x; out: x, y
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
