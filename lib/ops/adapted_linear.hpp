#pragma once
// AdaptedLinear: a product with a frozen weight and its low-rank adapter (LoRA: Hu et al. 2021).
// The adapter covers P products. Each product adds to a range n of the N output channels. R is the
// rank, and s is the scale.
//   t_T(PR) = s drop(x_TC) a_(PR)C'
//   y_TN = x_TC w_NC' + b_N;  y_Tn += t_TR b_nR'  for each product
//
// Backward pass, with u_T(PR) = s dy_Tn b_nR for each product:
//   dx = dy w + drop(u a);  da = u' drop(x);  db_nR = dy_Tn' t_TR
// With DoRA, TrainedNorms scales y_TN before the bias is added (trained_norms.hpp). In the backward
// pass, dz_TN then replaces dy_TN.
#include <optional>
#include <vector>

#include "lib/ops/linear.hpp"
#include "lib/ops/low_rank.hpp"
#include "lib/ops/trained_norms.hpp"

namespace trireme::ops {

// A linear layer with a frozen weight and an adapter.
class AdaptedLinear final : public Op {
 public:
  // If `norms` is given, it adds the bias, so `frozen` must have none.
  AdaptedLinear(Linear frozen, LowRank, std::optional<TrainedNorms> norms);

  std::string_view name() const override { return "adapted_linear"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  Linear frozen_;
  LowRank low_;
  std::optional<TrainedNorms> norms_;
  std::vector<ParamId> params_;
};

}  // namespace trireme::ops
