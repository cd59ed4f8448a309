#pragma once
// A key/value head for each query head: [B, T, H + 2 G, D] -> [B, T, 3 H, D]. Its adjoint adds the
// gradients of a key/value head's copies in the order of their query heads, whoever worked on them.
#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

class RepeatHeads final : public Op {
 public:
  explicit RepeatHeads(Heads heads) : heads_(heads) {}
  std::string_view name() const override { return "repeat_heads"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  // The heads of qkv, and of a tensor with a key/value head for each query head.
  void each_pair(const Tensor& qkv, const Tensor& all,
                 const std::function<void(View, View, Accumulate)>&) const;

  Heads heads_;
};

}  // namespace trireme::ops
