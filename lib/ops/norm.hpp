#pragma once
// Layer norm  y = (x - mean) * rstd * w + b   (Ba, Kiros, Hinton 2016)
// RMS norm    y = x * rstd * w                (Zhang, Sennrich 2019)
// over the width of each token. Saved: x and a statistic or two a token.
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

class LayerNorm final : public Op {
 public:
  LayerNorm(ParamId weight, ParamId bias, double eps);  // `bias` of value -1: none
  std::string_view name() const override { return "layer_norm"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  std::vector<ParamId> params_;
  double eps_;
};

class RmsNorm final : public Op {
 public:
  RmsNorm(ParamId weight, double eps) : params_{weight}, eps_(eps) {}
  std::string_view name() const override { return "rms_norm"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  std::vector<ParamId> params_;
  double eps_;
};

}  // namespace trireme::ops
