#include "lib/ops/norm.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

static Tensor statistic(const Run& run, const Tensor& x, const Saved* saved) {
  const auto tokens = x.shape().count() / x.shape()[x.shape().dims() - 1];
  return Tensor::empty(run.backend, {tokens}, wide(x.dtype()), kind_of(saved));
}

LayerNorm::LayerNorm(ParamId weight, ParamId bias, double eps) : params_{weight}, eps_(eps) {
  if (bias != ParamId{}) params_.push_back(bias);
}

std::vector<Tensor> LayerNorm::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const Tensor x = std::move(in[0]);
  Tensor y = Tensor::empty(run.backend, x.shape(), x.dtype(), kind_of(saved));
  const Tensor mean = statistic(run, x, saved), rstd = statistic(run, x, saved);
  const auto b_C = params_.size() > 1 ? run.weights[params_[1]] : ConstView{};
  run.backend.put(Queue::compute, kernel::Norm{.y_TC = as_rows(y),
                                               .mean_T = mean.view(),
                                               .rstd_T = rstd.view(),
                                               .x_TC = as_rows(x),
                                               .w_C = run.weights[params_[0]],
                                               .b_C = b_C,
                                               .eps = eps_});
  if (saved) *saved = {x, mean, rstd};
  return {y};
}

std::vector<Tensor> LayerNorm::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                        std::span<const std::uint8_t> wanted) const {
  const Tensor &x = saved[0], &mean = saved[1], &rstd = saved[2];
  Tensor dx;
  if (wanted[0]) dx = Tensor::empty(run.backend, x.shape(), x.dtype(), Kind::transient);
  const View dx_TC = dx ? as_rows(dx) : View{};
  const ConstView dy_TC = as_rows(grad_out[0]), x_TC = as_rows(x);
  add_gradients(
      run, params_, dy_TC.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
        run.backend.put(Queue::compute, kernel::NormGrad{.dx_TC = dx ? rows_of(dx_TC, r) : View{},
                                                         .dw_C = dst[0],
                                                         .db_C = dst.size() > 1 ? dst[1] : View{},
                                                         .how = how,
                                                         .dy_TC = rows_of(dy_TC, r),
                                                         .x_TC = rows_of(x_TC, r),
                                                         .w_C = run.weights[params_[0]],
                                                         .mean_T = rows_of(mean.view(), r),
                                                         .rstd_T = rows_of(rstd.view(), r)});
      });
  return {dx};
}

std::vector<Tensor> RmsNorm::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const Tensor x = std::move(in[0]);
  Tensor y = Tensor::empty(run.backend, x.shape(), x.dtype(), kind_of(saved));
  const Tensor rstd = statistic(run, x, saved);
  run.backend.put(Queue::compute, kernel::Norm{.y_TC = as_rows(y),
                                               .rstd_T = rstd.view(),
                                               .x_TC = as_rows(x),
                                               .w_C = run.weights[params_[0]],
                                               .eps = eps_});
  if (saved) *saved = {x, rstd};
  return {y};
}

std::vector<Tensor> RmsNorm::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                      std::span<const std::uint8_t> wanted) const {
  const Tensor &x = saved[0], &rstd = saved[1];
  Tensor dx;
  if (wanted[0]) dx = Tensor::empty(run.backend, x.shape(), x.dtype(), Kind::transient);
  const View dx_TC = dx ? as_rows(dx) : View{};
  const ConstView dy_TC = as_rows(grad_out[0]), x_TC = as_rows(x);
  add_gradients(
      run, params_, dy_TC.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
        run.backend.put(Queue::compute, kernel::NormGrad{.dx_TC = dx ? rows_of(dx_TC, r) : View{},
                                                         .dw_C = dst[0],
                                                         .how = how,
                                                         .dy_TC = rows_of(dy_TC, r),
                                                         .x_TC = rows_of(x_TC, r),
                                                         .w_C = run.weights[params_[0]],
                                                         .rstd_T = rows_of(rstd.view(), r)});
      });
  return {dx};
}

}  // namespace trireme::ops
