#pragma once
// Ulysses sequence parallelism: all-to-all exchanges of attention heads. In linear layers, a rank
// has all heads for its own positions. In attention, a rank has only its own heads (heads.hpp), but
// for the positions of all ranks among which the heads are divided (sequence_layout.hpp). With t
// positions of this rank, T positions of those ranks in rank order, and h heads of this rank (query
// and key-value heads):
//   SplitHeads  qkv_Bt(H+2G)D -> qkv_BT(h)D: each key-value head is sent to all ranks that read
//               it; the adjoint sums its gradients on the rank that has the positions
//   JoinHeads   o_BT(h)D -> o_Bt(H)D
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

// Exchanges attention outputs of rows that all ranks have: o_BT(h)D -> o_BT(H)D. Each rank passes
// its own heads. Returns all heads.
Tensor all_heads(const Run&, const Heads&, const Tensor& own);

// The exchange before attention, which gives each rank its own heads.
class SplitHeads final : public Op {
 public:
  explicit SplitHeads(Heads heads) : heads_(heads) {}
  std::string_view name() const override { return "split_heads"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  Heads heads_;
};

// The exchange after attention, which gives each rank all heads of its positions.
class JoinHeads final : public Op {
 public:
  explicit JoinHeads(Heads heads) : heads_(heads) {}
  std::string_view name() const override { return "join_heads"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  Heads heads_;
};

}  // namespace trireme::ops
