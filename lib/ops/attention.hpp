#pragma once
// Causal self-attention over packed projections qkv_BT(H+2G)D: H query heads, then G key heads,
// then G value heads; o_BT(HD) = softmax(q k' / sqrt(D)) v, or with other Scores. Saved: qkv, o and
// one number a token and head; never a T x T matrix (Dao 2023). Over several ranks of seq it works
// on its own heads, of the positions of those that share out heads with it (collective.hpp); keys
// and values of others stream past (key_stream.hpp). Where Place has documents, a token sees only
// those of its own. With run.exactness = "invariant" gradients of keys and values are counts of
// quanta, to which each Place::exact_chunk queries add one term. With sinks, one number a query
// head that training learns, softmax divides by exp(sink) more than the keys add up to
// (kernels/attention.hpp); saved is then a copy of them, too.
#include <vector>

#include "lib/autograd/op.hpp"
#include "lib/ops/heads.hpp"

namespace trireme::ops {

class Attention final : public Op {
 public:
  // `block`: of the model, whose keys and values are kept where the Run says so.
  // `window`: tokens that a token sees, up to its own; 0: all before it. `sinks`: absent or [H].
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
  std::vector<ParamId> sinks_;  // one or none
};

}  // namespace trireme::ops
