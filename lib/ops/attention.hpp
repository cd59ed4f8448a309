#pragma once
// Causal self-attention over packed projections qkv_BT(H+2G)D: H query heads, then G key heads,
// then G value heads; o_BT(HD) = softmax(q k' / sqrt(D)) v. Saved: qkv, o and one number a token
// and head; never a T x T matrix (Dao 2023).
// Over several ranks of seq it works on its own heads of all positions (collective.hpp).
// Rotary turns the query and key heads of the same packed tensor in place (Su et al. 2021).
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

class Attention final : public Op {
 public:
  explicit Attention(Heads heads) : heads_(heads) {}
  std::string_view name() const override { return "attention"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  Heads heads_;
};

class Rotary final : public Op {
 public:
  // table_P2E: cos and sin by position, as kernel::Rotary says; owned by the model.
  Rotary(Heads heads, Tensor table) : heads_(heads), table_(std::move(table)) {}
  std::string_view name() const override { return "rotary"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  Tensor turn(const Run&, Tensor, Direction, Kind) const;
  Heads heads_;
  Tensor table_;
};

// cos and sin for `positions` positions, E = dim / 2 frequencies theta^(-e/E).
Tensor rotary_table(Backend&, std::int64_t positions, std::int64_t dim, double theta, DType);

}  // namespace trireme::ops
