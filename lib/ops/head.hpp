#pragma once
// Head: output projection and loss. The loss is the sum over valid targets of -log
// softmax(z)[target], with logits z = x_TC w_VC', or c tanh(z / c) with a soft cap c. With an
// adapter of rank R and scale s, z = x w' + t b' with t_TR = s drop(x) a'. The gradients of the
// adapter are da = u' drop(x) and db = dz' t with u_TR = s dz b, and dx gets drop(u a).
//
// The forward pass computes the loss, dx and dw together, in chunks of Backend::head_rows() tokens.
// Logits are thus neither stored nor computed twice. Gradients are scaled by PassContext::scale,
// and the backward pass assumes that the gradient of the loss is 1.
//
// The output is the sum over this rank's valid targets, as one f64. With PassContext::losses, the
// output has PassContext::loss_sums sums. With PassContext::exact_chunk, the output is i64 numbers:
// the sums as integers (lib/base/fixed.hpp) and the bits of the largest term. With
// PassContext::teacher, a part of the loss is the divergence from the teacher's distribution
// (kernel::CrossEntropy).
//
// With ProductType::fp8, the operands of the three products with w are rounded to fp8
// (lib/ops/fp8.hpp) in Phase::train. w is rounded once for all chunks. Products of the adapter and
// of a teacher are in the compute type.
#include <optional>
#include <vector>

#include "lib/ops/fp8.hpp"
#include "lib/ops/low_rank.hpp"
#include "lib/ops/product_type.hpp"

namespace trireme::ops {

// The output projection and the loss.
class Head final : public Op {
 public:
  // The adapter, if any, has one product with all V channels.
  Head(ParamId weight, std::int64_t vocab, double softcap = 0, std::optional<LowRank> = {},
       ProductType = ProductType::compute);
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
  // A loss with exact sums on the host. `largest` is the largest magnitude of a term in any sum.
  struct Quanta {
    std::vector<std::int64_t> sums;
    float largest = 0;
  };
  static Quanta download_quanta(Backend&, const Tensor&);
  // Returns the logits [R, V] of x_RC for generation, without the soft cap.
  Tensor logits(const Run&, ConstView x_RC) const;
  ParamId weight() const { return params_[0]; }
  bool has_adapter() const { return low_.has_value(); }

 private:
  bool adapts(const Run& run) const { return low_ && run.pass.adapters; }
  // Returns s * rows * matrix. This is t if `rows` are drop(x) and `matrix` is a', and u if they
  // are dz and b.
  Tensor scaled_product(const Run&, const ConstView& rows, const ConstView& matrix) const;
  // Adds the adapter's product to the logits, if t is not absent.
  void add_adapter(const Run&, const Tensor& z, const Tensor& t) const;

  std::vector<ParamId> params_;
  std::int64_t vocab_;
  double softcap_;
  std::optional<LowRank> low_;
  ProductType type_;
};

}  // namespace trireme::ops
