#include "lib/ops/mlp.hpp"

#include <utility>

#include "lib/ops/support.hpp"

namespace trireme::ops {

Mlp::Mlp(Linear in, Linear out) : in_(std::move(in)), out_(std::move(out)) {
  for (const auto* layer : {&in_, &out_})
    params_.insert(params_.end(), layer->params().begin(), layer->params().end());
}

std::vector<Tensor> Mlp::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  Tensor x = std::move(in[0]);
  const auto hidden = in_.output_shape(x.shape());
  Tensor z = Tensor::empty(b, hidden, x.dtype(), kind_of(saved));
  Tensor h = Tensor::empty(b, hidden, x.dtype(), kind_of(saved));
  in_.multiply(run, z, x, {.gelu_MN = as_rows(h)});
  if (saved) *saved = {x, z};
  x = z = {};
  Tensor y = Tensor::empty(b, out_.output_shape(hidden), h.dtype(), kind_of(saved));
  out_.multiply(run, y, h);
  if (saved) saved->push_back(std::move(h));
  return {y};
}

std::vector<Tensor> Mlp::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                  std::span<const std::uint8_t> wanted) const {
  auto& b = run.backend;
  const Tensor x = std::move(saved[0]);
  Tensor z = std::move(saved[1]), h = std::move(saved[2]), dy = std::move(grad_out[0]);
  saved.clear();
  out_.add_gradients(run, dy, h);
  h = {};
  if (!wanted[0] && !wants_any(run, in_.params())) return {Tensor{}};
  const Tensor dz = Tensor::empty(b, z.shape(), z.dtype(), Kind::transient);
  out_.multiply_grad(run, dz, dy, {.gelu_input_MN = as_rows(z)});
  z = dy = {};
  in_.add_gradients(run, dz, x);
  if (!wanted[0]) return {Tensor{}};
  Tensor dx = Tensor::empty(b, x.shape(), x.dtype(), Kind::transient);
  in_.multiply_grad(run, dx, dz);
  return {dx};
}

}  // namespace trireme::ops
