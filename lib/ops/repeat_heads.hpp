#pragma once
// RepeatHeads: copies key-value heads so that each query head has its own: [B, T, H + 2 G, D] ->
// [B, T, 3 H, D]. The adjoint adds the gradients of the copies in the order of their query heads,
// so the sum does not depend on which ranks computed the gradients.
#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

// Repeats each key-value head once for each query head that reads it.
class RepeatHeads final : public Op {
 public:
  explicit RepeatHeads(Heads heads) : heads_(heads) {}
  std::string_view name() const override { return "repeat_heads"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  // Calls the function for each pair of corresponding heads in `qkv` and `all`: first for the query
  // heads, then for each key-value head with each of its copies. The third argument is `overwrite`
  // for the first copy of a head and `add` for the other copies.
  void each_pair(const Tensor& qkv, const Tensor& all,
                 const std::function<void(View, View, Accumulate)>&) const;

  Heads heads_;
};

}  // namespace trireme::ops
