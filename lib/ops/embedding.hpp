#pragma once
// Ops that look up table rows:
//   Embedding     y_BTC = table_VC[ids_BT]; the gradient adds rows of the same id in token order.
//                 With an adapter, the rows are those of table_VC + s b_VR a_RC:
//                 t_TR = s b_VR[ids_T];  y += t a;  da = t' dy;  db[ids_T] += s dy a'
//   AddPositions  y_BTC = x_BTC + table_PC[t0 + t], or table_PC[position_BT] if PassContext has
//                 positions within documents; a position may then occur several times in a sample
#include <optional>
#include <vector>

#include "lib/ops/low_rank.hpp"

namespace trireme::ops {

// Lookup of token embeddings. Input: ids_BT. Output: y_BTC.
class Embedding final : public Op {
 public:
  // The adapter, if any, has one product with all V rows, and no dropout.
  Embedding(ParamId table, std::int64_t width, DType compute, std::optional<LowRank> = {});
  std::string_view name() const override { return "embedding"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  std::vector<ParamId> params_;
  std::int64_t width_;
  DType compute_;
  std::optional<LowRank> low_;
};

// Addition of learned position embeddings. Input: x_BTC. Output: y_BTC.
class AddPositions final : public Op {
 public:
  explicit AddPositions(ParamId table) : params_{table} {}
  std::string_view name() const override { return "positions"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  std::vector<ParamId> params_;
};

}  // namespace trireme::ops
