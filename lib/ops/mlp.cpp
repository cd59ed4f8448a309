#include "lib/ops/mlp.hpp"

#include <utility>

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

struct MlpKept {
  Tensor x{}, z{}, h{};
  Tensor dz{};  // replaces z in the first half of the backward pass
};

}  // namespace

Mlp::Mlp(Linear in, Activation activation, Linear out)
    : in_(std::move(in)), out_(std::move(out)), activation_(activation) {
  for (const auto* layer : {&in_, &out_})
    params_.insert(params_.end(), layer->params().begin(), layer->params().end());
}

std::vector<Tensor> Mlp::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  Tensor x = std::move(in[0]);
  const auto hidden = in_.output_shape(x.shape());
  Tensor z = Tensor::empty(b, hidden, x.dtype(), kind_of(saved));
  Tensor h = Tensor::empty(b, hidden, x.dtype(), kind_of(saved));
  in_.multiply(run, z, x, {.activation = activation_, .activated_MN = as_rows(h)});
  if (saved) saved->keep(MlpKept{.x = x, .z = z, .h = h});
  x = z = {};
  Tensor y = Tensor::empty(b, out_.output_shape(hidden), h.dtype(), kind_of(saved));
  out_.multiply(run, y, h);
  return {y};
}

// Returns dz, the gradient of the pre-activation z.
Tensor Mlp::hidden_gradient(const Run& run, const Tensor& dy, const Tensor& z) const {
  Tensor dz = Tensor::empty(run.backend, z.shape(), z.dtype(), MemoryKind::transient);
  out_.multiply_grad(run, dz, dy, {.activation = activation_, .activated_at_MN = as_rows(z)});
  return dz;
}

Tensor Mlp::input_gradient(const Run& run, const Tensor& dz, const Shape& x) const {
  Tensor dx = Tensor::empty(run.backend, x, dz.dtype(), MemoryKind::transient);
  in_.multiply_grad(run, dx, dz);
  return dx;
}

std::vector<Tensor> Mlp::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                         Saved& saved, std::span<const std::uint8_t> wanted) const {
  if (!wanted[0] && !wants_any(run, in_.params())) return {Tensor{}};
  auto& kept = saved.as<MlpKept>();
  kept.dz = hidden_gradient(run, grad_out[0], kept.z);
  kept.z = {};
  if (!wanted[0]) return {Tensor{}};
  return {input_gradient(run, kept.dz, kept.x.shape())};
}

void Mlp::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  const auto& kept = saved.as<MlpKept>();
  out_.add_gradients(run, grad_out[0], kept.h);
  in_.add_gradients(run, kept.dz, kept.x);
}

// Computes the second layer's weight gradients first, so that h is freed before dz is allocated.
std::vector<Tensor> Mlp::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                  std::span<const std::uint8_t> wanted) const {
  auto& [x, z, h, dz] = saved.as<MlpKept>();
  Tensor dy = std::move(grad_out[0]);
  out_.add_gradients(run, dy, h);
  h = {};
  if (!wanted[0] && !wants_any(run, in_.params())) return {Tensor{}};
  dz = hidden_gradient(run, dy, z);
  z = dy = {};
  in_.add_gradients(run, dz, x);
  if (!wanted[0]) return {Tensor{}};
  return {input_gradient(run, dz, x.shape())};
}

}  // namespace trireme::ops
