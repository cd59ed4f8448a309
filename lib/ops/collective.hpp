#pragma once
// Ulysses: the exchanges between linear layers, where a rank of seq has all heads of its positions,
// and attention, where it has its own heads (heads.hpp) of all positions of the ranks that share
// out heads with it (sequence_layout.hpp).
//   t positions of this rank, T of those in rank order, h own heads (of query and key/value)
// SplitHeads  qkv_Bt(H+2G)D -> qkv_BT(h)D: a key/value head goes to every rank that reads it;
//             the adjoint sums its gradients where its positions live
// JoinHeads   o_BT(h)D -> o_Bt(H)D
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

// Of rows that every rank has, each with its own heads: all heads, o_BT(h)D -> o_BT(H)D.
Tensor all_heads(const Run&, const Heads&, const Tensor& own);

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
