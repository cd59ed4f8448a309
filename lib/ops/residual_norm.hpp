#pragma once
// sum = skip + dropout(branch),  y = norm(sum): the residual stream and what the next branch reads,
// in one pass where the backend has one. With n the norm's gradient,
//   dskip = dsum + n(dy),  dbranch = dropout(dskip)
#include <vector>

#include "lib/ops/pointwise.hpp"

namespace trireme::ops {

enum class Norm : std::uint8_t { layer, rms };

class ResidualNorm final : public Op {  // in: skip, branch; out: sum, y
 public:
  // `bias` of value -1: none, as for Norm::rms.
  ResidualNorm(DropoutSite, Norm, ParamId weight, ParamId bias, double eps);
  std::string_view name() const override { return "residual_norm"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  Tensor norm_backward(const Run&, std::vector<Tensor> grad_out, const Saved&, bool wanted) const;

  DropoutSite site_;
  Norm norm_;
  std::vector<ParamId> params_;
  double eps_;
};

}  // namespace trireme::ops
