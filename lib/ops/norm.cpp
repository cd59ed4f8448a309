#include "lib/ops/norm.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

NormWeights::NormWeights(NormKind kind, ParamId weight, ParamId bias, double eps)
    : kind_(kind), params_{weight}, eps_(eps) {
  if (bias != ParamId{}) params_.push_back(bias);
}

ConstView NormWeights::bias(const Run& run) const {
  return params_.size() > 1 ? run.weights[params_[1]] : ConstView{};
}

NormWeights::Statistics NormWeights::statistics(const Run& run, const Tensor& x,
                                                const Saved* saved) const {
  const auto tokens = x.shape().count() / x.shape()[x.shape().dims() - 1];
  const auto a_token = [&] {
    return Tensor::empty(run.backend, {tokens}, wide(x.dtype()), kind_of(saved));
  };
  Tensor mean = kind_ == NormKind::layer ? a_token() : Tensor();
  return {std::move(mean), a_token()};
}

static View part(const Tensor& t, Rows r) {
  if (!t) return {};
  return t.shape().dims() == 1 ? rows_of(t.view(), r) : rows_of(as_rows(t), r);
}

Tensor NormWeights::backward(const Run& run, const Grad& grad, const Kept& kept, bool wanted,
                             Half half) const {
  if (!grad.dy) return wanted ? grad.dsum : Tensor{};
  const Tensor& x = kept.x;
  Tensor dx;
  if (wanted && half != Half::weight)
    dx = Tensor::empty(run.backend, x.shape(), x.dtype(), MemoryKind::transient);
  const auto rows = as_rows(grad.dy).extent[0];
  const ConstView w_C = half == Half::weight ? ConstView{} : weight(run);
  const auto fill = [&](Rows r, std::span<const View> dst, Accumulate how) {
    run.backend.put(Queue::compute, kernel::NormGrad{.dx_TC = part(dx, r),
                                                     .dw_C = dst[0],
                                                     .db_C = dst.size() > 1 ? dst[1] : View{},
                                                     .how = how,
                                                     .dsum_TC = dx ? part(grad.dsum, r) : View{},
                                                     .dy_TC = part(grad.dy, r),
                                                     .x_TC = part(x, r),
                                                     .w_C = w_C,
                                                     .mean_T = part(kept.of_x.mean_T, r),
                                                     .rstd_T = part(kept.of_x.rstd_T, r)});
  };
  if (half != Half::input && wants_any(run, params_)) {
    run.gradients->add(params_, rows, fill);
  } else if (dx) {
    const std::vector<View> absent(params_.size());
    fill({0, rows}, absent, Accumulate::overwrite);
  }
  return dx;
}

std::vector<Tensor> Norm::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const Tensor x = std::move(in[0]);
  Tensor y = Tensor::empty(run.backend, x.shape(), x.dtype(), kind_of(saved));
  const auto of_x = weights_.statistics(run, x, saved);
  run.backend.put(Queue::compute, kernel::Norm{.y_TC = as_rows(y),
                                               .mean_T = of_x.mean_T.view(),
                                               .rstd_T = of_x.rstd_T.view(),
                                               .x_TC = as_rows(x),
                                               .w_C = weights_.weight(run),
                                               .b_C = weights_.bias(run),
                                               .eps = weights_.eps()});
  if (saved) saved->keep(NormWeights::Kept{x, of_x});
  return {x, y};
}

std::vector<Tensor> Norm::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                          Saved& saved,
                                          std::span<const std::uint8_t> wanted) const {
  const Tensor dsum = std::move(grad_out[0]);
  return {weights_.backward(run, {dsum, grad_out[1]}, saved.as<NormWeights::Kept>(), wanted[0],
                            NormWeights::Half::input)};
}

void Norm::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  weights_.backward(run, {{}, grad_out[1]}, saved.as<NormWeights::Kept>(), false,
                    NormWeights::Half::weight);
}

std::vector<Tensor> Norm::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                   std::span<const std::uint8_t> wanted) const {
  return {weights_.backward(run, {grad_out[0], grad_out[1]}, saved.as<NormWeights::Kept>(),
                            wanted[0], NormWeights::Half::both)};
}

}  // namespace trireme::ops
