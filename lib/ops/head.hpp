#pragma once
// Head: loss = sum over valid targets of -log softmax(x_TC w_VC')[target], or, with a soft cap c,
// of c tanh(x_TC w_VC' / c). Forward computes loss, dx and dw together, in chunks of
// Backend::head_rows() tokens, so logits are neither kept nor computed twice: the seed of backward
// is 1 by convention, scaled by Place::scale.
// Output: one f64, the sum over this rank's valid targets, not divided by anything; with
// Place::losses as many as there are sums. With Place::exact_chunk two i64: that sum as a count of
// quanta, and the bits of its largest term. With Place::teacher a share of the loss is the
// divergence from what that makes of a chunk (kernel::CrossEntropy).
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

class Head final : public Op {
 public:
  Head(ParamId weight, std::int64_t vocab, double softcap = 0)
      : params_{weight}, vocab_(vocab), softcap_(softcap) {}
  std::string_view name() const override { return "head"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  // A result of forward, on the host.
  struct Loss {
    double sum = 0;           // without exact_chunk
    std::int64_t quanta = 0;  // with it
    float largest = 0;        //
  };
  static Loss download(Backend&, const Tensor&);
  // Several sums.
  static std::vector<double> download_sums(Backend&, const Tensor&);
  // Logits [R, V] of rows x_RC, for generation, before a soft cap.
  Tensor logits(const Run&, ConstView x_RC) const;
  ParamId weight() const { return params_[0]; }

 private:
  std::vector<ParamId> params_;
  std::int64_t vocab_;
  double softcap_;
};

}  // namespace trireme::ops
