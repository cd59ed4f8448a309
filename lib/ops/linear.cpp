#include "lib/ops/linear.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

Linear::Linear(ParamId weight, ParamId bias, std::int64_t outputs, Activation activation)
    : params_{weight}, outputs_(outputs), activation_(activation) {
  if (bias != ParamId{}) params_.push_back(bias);
}

// [B, T, C] -> [B, T, N]
static Shape with_width(const Shape& s, std::int64_t n) {
  return s.dims() == 3 ? Shape{s[0], s[1], n} : Shape{s.count() / s[s.dims() - 1], n};
}

std::vector<Tensor> Linear::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor& x = in[0];
  const auto shape = with_width(x.shape(), outputs_);
  Tensor z = Tensor::empty(b, shape, x.dtype(), kind_of(saved)), y = z;
  Epilogue epilogue;
  if (params_.size() > 1) epilogue.bias_N = run.weights[params_[1]];
  if (activation_ == Activation::gelu) {
    y = Tensor::empty(b, shape, x.dtype(), kind_of(saved));
    epilogue.gelu_MN = as_rows(y);
  }
  b.matmul(Queue::compute, as_rows(z), as_rows(x), run.weights[params_[0]].transposed(),
           Accumulate::overwrite, epilogue);
  if (saved) *saved = activation_ == Activation::gelu ? Saved{x, z} : Saved{x};
  return {y};
}

std::vector<Tensor> Linear::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                     std::span<const std::uint8_t> wanted) const {
  auto& b = run.backend;
  const Tensor x = std::move(saved[0]);
  Tensor dz = std::move(grad_out[0]);
  if (activation_ == Activation::gelu) {
    const Tensor dy = std::move(dz);
    dz = Tensor::empty(b, dy.shape(), dy.dtype(), Kind::transient);
    b.gelu_grad(Queue::compute, dz.view(), dy.view(), saved[1].view());
  }
  saved.clear();
  const ConstView dz_TN = as_rows(dz), x_TC = as_rows(x);
  if (wants_any(run, params_))
    run.gradients->add(
        params_, dz_TN.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
          const auto dz_RN = rows_of(dz_TN, r);
          if (dst[0]) b.matmul(Queue::compute, dst[0], dz_RN.transposed(), rows_of(x_TC, r), how);
          if (dst.size() > 1 && dst[1]) b.column_sum(Queue::compute, dst[1], how, dz_RN);
        });
  if (!wanted[0]) return {Tensor{}};
  Tensor dx = Tensor::empty(b, x.shape(), x.dtype(), Kind::transient);
  b.matmul(Queue::compute, as_rows(dx), dz_TN, run.weights[params_[0]]);
  return {dx};
}

}  // namespace trireme::ops
