#pragma once
// Attention: causal self-attention over packed projections qkv_BT(H+2G)D. These contain H query
// heads, then G key heads, then G value heads. The op computes o_BT(HD) = softmax(q k' / sqrt(D))
// v. Scores can change the scale and add a soft cap.
//
// Saved tensors: qkv, o and one number per token and head, but no T x T matrix (Dao 2023).
//
// Sequence parallelism: a rank computes its own heads for the positions of all ranks with which it
// shares heads (collective.hpp). Keys and values of other ranks arrive in chunks (key_stream.hpp).
//
// Documents: if PassContext has documents, a token attends only to its own document.
//
// Exact sums: with run.exactness = "invariant", gradients of keys and values are summed as integers
// (lib/base/fixed.hpp). Each PassContext::exact_chunk queries add one term.
//
// Sinks: a sink is a learned number per query head. Softmax adds exp(sink) to its divisor
// (kernels/attention.hpp). The op then also saves a copy of the sinks.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

// Causal self-attention.
class Attention final : public Op {
 public:
  // `block` is the index of the model's block, under which keys and values are cached during
  // generation. `window` is the number of tokens that a token attends to, including itself. A
  // window of 0 means all earlier tokens. `sinks` is absent or has shape [H].
  explicit Attention(Heads heads, std::size_t block = 0, std::int64_t window = 0,
                     ParamId sinks = {}, Scores scores = {})
      : heads_(heads), block_(block), window_(window), scores_(scores) {
    if (sinks != ParamId{}) sinks_.push_back(sinks);
  }
  std::string_view name() const override { return "attention"; }
  std::span<const ParamId> params() const override { return sinks_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  void weight_gradients(const Run&, std::vector<Tensor> grad_out, Saved) const override;

 private:
  Heads heads_;
  std::size_t block_;
  std::int64_t window_;
  Scores scores_;
  std::vector<ParamId> sinks_;  // at most one
};

}  // namespace trireme::ops
