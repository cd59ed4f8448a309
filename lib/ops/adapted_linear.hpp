#pragma once
// AdaptedLinear: a product with a frozen weight and its low-rank adapter (LoRA: Hu et al. 2021).
// The adapter covers P products. Each product adds to a range n of the N output channels. R is the
// rank, and s is the scale.
//   t_T(PR) = s drop(x_TC) a_(PR)C'
//   y_TN = x_TC w_NC' + b_N;  y_Tn += t_TR b_nR'  for each product
//
// Backward pass, with u_T(PR) = s dy_Tn b_nR for each product:
//   dx = dy w + drop(u a);  da = u' drop(x);  db_nR = dy_Tn' t_TR
#include <vector>

#include "lib/ops/linear.hpp"
#include "lib/ops/pointwise.hpp"

namespace trireme::ops {

// The parameters and settings of an adapter.
struct LowRank {
  ParamId a, b;
  std::int64_t rank;
  double scale;
  struct Product {
    std::int64_t channel, channels, row;  // range of y's channels; first row of b
  };
  std::vector<Product> products;
  DropoutSite dropout;
};

// A linear layer with a frozen weight and a LoRA adapter.
class AdaptedLinear final : public Op {
 public:
  AdaptedLinear(Linear frozen, LowRank);

  std::string_view name() const override { return "adapted_linear"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  Tensor dropped(const Run&, const Tensor& x) const;

  Linear frozen_;
  LowRank low_;
  std::vector<ParamId> params_;
};

}  // namespace trireme::ops
