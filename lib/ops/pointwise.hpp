#pragma once
// Ops that process each element, or each pair of elements, separately:
//   Swiglu    y_TF = silu(gate) * up, with gate and up next to each other in x_T(2F) (Shazeer
//             2020); GeGLU uses gelu(gate) * up; multiplied by weight_T if that is a second input
//   Activate  y = f(x) with an activation f
//   Multiply  y = factor x
//   Residual  y = skip + dropout(branch);  dskip = dy, dbranch = dropout(dy)
//   Dropout   y = dropout(x)
//
// Dropout masks are a function of (seed, step, site, sample, position, channel). The backward pass
// recomputes the mask, so masks are not stored.
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

// A gated activation: SwiGLU or GeGLU.
class Swiglu final : public Op {
 public:
  explicit Swiglu(GateFunction gate = GateFunction::silu) : gate_(gate) {}
  std::string_view name() const override { return "swiglu"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  GateFunction gate_;
};

// Multiplication by a constant.
class Multiply final : public Op {
 public:
  explicit Multiply(double factor) : factor_(factor) {}
  std::string_view name() const override { return "multiply"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  double factor_;
};

// An ungated activation function.
class Activate final : public Op {
 public:
  explicit Activate(Activation f) : f_(f) {}
  std::string_view name() const override { return "activate"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  Activation f_;
};

// A dropout layer of the model: its index and the probability of dropping an element.
struct DropoutSite {
  std::int64_t site;
  double p;
  // Returns the key of this dropout layer's random numbers in `pass`. In evaluation, the key
  // disables dropout.
  DropoutKey key(const PassContext&) const;
};

// Returns skip + dropout(x). If no other Tensor shares x's memory, the result uses that memory.
// `skip` may be absent.
Tensor drop(const Run&, const DropoutSite&, Tensor x, ConstView skip, MemoryKind);

// Adds a branch to the residual stream, with dropout on the branch. Inputs: skip, branch.
class Residual final : public Op {
 public:
  explicit Residual(DropoutSite site) : site_(site) {}
  std::string_view name() const override { return "residual"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  DropoutSite site_;
};

// Dropout: sets random elements to zero and scales the others.
class Dropout final : public Op {
 public:
  explicit Dropout(DropoutSite site) : site_(site) {}
  std::string_view name() const override { return "dropout"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  DropoutSite site_;
};

}  // namespace trireme::ops
