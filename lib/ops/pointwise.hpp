#pragma once
// Swiglu    y_TF = silu(gate) * up, with gate and up side by side in x_T(2F) (Shazeer 2020), or,
//           of GeGLU, gelu(gate) * up; times weight_T where that is a second input
// Activate  y = f(x) of an activation f
// Multiply  y = factor x
// Residual  y = skip + dropout(branch);  dskip = dy, dbranch = dropout(dy)
// Dropout   y = dropout(x)
// What is dropped is a function of (seed, step, site, sample, position, channel), so backward makes
// the same mask again instead of keeping it.
#include <vector>

#include "lib/autograd/op.hpp"

namespace trireme::ops {

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

// One place in the model where dropout is applied.
struct DropoutSite {
  std::int64_t site;
  double p;
  DropoutKey key(const Place&) const;
};

// y = skip + dropout(x), in x's memory if that is unique; skip may be absent.
Tensor drop(const Run&, const DropoutSite&, Tensor x, ConstView skip, Kind);

class Residual final : public Op {  // in: skip, branch
 public:
  explicit Residual(DropoutSite site) : site_(site) {}
  std::string_view name() const override { return "residual"; }
  std::vector<Tensor> forward(const Run&, std::vector<Tensor> in, Saved*) const override;
  std::vector<Tensor> input_gradients(const Run&, std::vector<Tensor>& grad_out, Saved&,
                                      std::span<const std::uint8_t> wanted) const override;

 private:
  DropoutSite site_;
};

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
