#pragma once
// QkNorm: RMS norm of queries and keys in packed projections qkv_BT(H+2G)D. Values are unchanged.
//   per head (Henry et al. 2020, "Query-Key Normalization"; as in Qwen3): each head is normalized
//     over its D channels; all query heads share one weight of D numbers, and all key heads another
//   over the width (Muennighoff et al. 2024, "OLMoE"): all query heads of a token are one row of HD
//     numbers, and all key heads one row of GD numbers
//
// y = x rstd w. With n = x rstd and g = dy w: dx = rstd (g - n mean(g n)), dw = sum over rows dy n.
//
// Saved tensors: the query heads and key heads, and one number per row.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"
#include "lib/ops/qk_norm_over.hpp"

namespace trireme::ops {

// RMS norm of queries and keys.
class QkNorm final : public Op {
 public:
  QkNorm(Heads heads, ParamId q, ParamId k, double eps, QkNormOver over = QkNormOver::head)
      : heads_(heads), params_{q, k}, eps_(eps), over_(over) {}
  std::string_view name() const override { return "qk_norm"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;
  std::vector<Tensor> backward(const Run&, std::vector<Tensor> grad_out, Saved,
                               std::span<const std::uint8_t> wanted) const override;

 private:
  enum class Half : std::uint8_t { input, weight, both };
  View as_rows_of_norm(const Tensor& x_BTHD) const;
  // Returns the gradient of the input, or an absent tensor if this gradient is not wanted. `wanted`
  // must be false with Half::weight.
  Tensor differentiate(const Run&, Tensor dqkv, Saved&, bool wanted, Half) const;

  Heads heads_;
  std::vector<ParamId> params_;  // weights for queries and for keys
  double eps_;
  QkNormOver over_;
};

}  // namespace trireme::ops
