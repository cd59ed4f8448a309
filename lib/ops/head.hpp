#pragma once
// Head: output projection and loss. The loss is the sum over valid targets of -log
// softmax(z)[target], with logits z = x_TC w_VC', or c tanh(z / c) with a soft cap c.
//
// The forward pass computes the loss, dx and dw together, in chunks of Backend::head_rows() tokens.
// Logits are thus neither stored nor computed twice. Gradients are scaled by PassContext::scale,
// and the backward pass assumes that the gradient of the loss is 1.
//
// The output is the sum over this rank's valid targets, as one f64. With PassContext::losses, the
// output has PassContext::loss_sums sums. With PassContext::exact_chunk, the output is two i64
// numbers: the sum as an integer (lib/base/fixed.hpp) and the bits of the largest term. With
// PassContext::teacher, a part of the loss is the divergence from the teacher's distribution
// (kernel::CrossEntropy).
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

// The output projection and the loss.
class Head final : public Op {
 public:
  Head(ParamId weight, std::int64_t vocab, double softcap = 0)
      : params_{weight}, vocab_(vocab), softcap_(softcap) {}
  std::string_view name() const override { return "head"; }
  std::span<const ParamId> params() const override { return params_; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;
  // Value of the loss on the host.
  struct Loss {
    double sum = 0;           // if exact_chunk is 0
    std::int64_t quanta = 0;  // otherwise, with `largest`
    float largest = 0;
  };
  // Copies a loss with one sum to the host.
  static Loss download(Backend&, const Tensor&);
  // Copies a loss with several sums to the host.
  static std::vector<double> download_sums(Backend&, const Tensor&);
  // Returns the logits [R, V] of x_RC for generation, without the soft cap.
  Tensor logits(const Run&, ConstView x_RC) const;
  ParamId weight() const { return params_[0]; }

 private:
  std::vector<ParamId> params_;
  std::int64_t vocab_;
  double softcap_;
};

}  // namespace trireme::ops
