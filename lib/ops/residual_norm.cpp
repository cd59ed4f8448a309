#include "lib/ops/residual_norm.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

ResidualNorm::ResidualNorm(DropoutSite site, Norm norm, ParamId weight, ParamId bias, double eps)
    : site_(site), norm_(norm), params_{weight}, eps_(eps) {
  if (bias != ParamId{}) params_.push_back(bias);
}

std::vector<Tensor> ResidualNorm::forward(const Run& run, std::vector<Tensor> in,
                                          Saved* saved) const {
  const Tensor x = std::move(in[1]);
  const auto kind = kind_of(saved);
  const auto like_x = [&] { return Tensor::empty(run.backend, x.shape(), x.dtype(), kind); };
  const auto a_token = [&] {
    const auto tokens = x.shape()[0] * x.shape()[1];
    return Tensor::empty(run.backend, {tokens}, wide(x.dtype()), kind);
  };
  const Tensor sum = x.unique() ? x : like_x(), y = like_x();
  const Tensor mean = norm_ == Norm::layer ? a_token() : Tensor(), rstd = a_token();
  const auto b_C = params_.size() > 1 ? run.weights[params_[1]] : ConstView{};
  run.backend.put(Queue::compute, kernel::ResidualNorm{.sum_BTC = sum.view(),
                                                       .y_BTC = y.view(),
                                                       .mean_T = mean.view(),
                                                       .rstd_T = rstd.view(),
                                                       .x_BTC = x.view(),
                                                       .skip_BTC = in[0].view(),
                                                       .w_C = run.weights[params_[0]],
                                                       .b_C = b_C,
                                                       .eps = eps_,
                                                       .key = site_.key(run.place),
                                                       .rows = run.place.rows});
  if (saved) *saved = {sum, mean, rstd};
  return {sum, y};
}

// dsum + n(dy)
Tensor ResidualNorm::norm_backward(const Run& run, std::vector<Tensor> grad_out, const Saved& saved,
                                   bool wanted) const {
  const Tensor &dsum = grad_out[0], &dy = grad_out[1];
  if (!dy) return dsum;
  const Tensor &sum = saved[0], &mean = saved[1], &rstd = saved[2];
  Tensor dx;
  if (wanted) dx = Tensor::empty(run.backend, sum.shape(), sum.dtype(), Kind::transient);
  const auto rows = [](const Tensor& t, Rows r) {
    if (!t) return View{};
    return t.shape().dims() == 1 ? rows_of(t.view(), r) : rows_of(as_rows(t), r);
  };
  add_gradients(
      run, params_, as_rows(dy).extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
        run.backend.put(Queue::compute, kernel::NormGrad{.dx_TC = rows(dx, r),
                                                         .dw_C = dst[0],
                                                         .db_C = dst.size() > 1 ? dst[1] : View{},
                                                         .how = how,
                                                         .dsum_TC = rows(dsum, r),
                                                         .dy_TC = rows(dy, r),
                                                         .x_TC = rows(sum, r),
                                                         .w_C = run.weights[params_[0]],
                                                         .mean_T = rows(mean, r),
                                                         .rstd_T = rows(rstd, r)});
      });
  return dx;
}

std::vector<Tensor> ResidualNorm::backward(const Run& run, std::vector<Tensor> grad_out,
                                           Saved saved,
                                           std::span<const std::uint8_t> wanted) const {
  Tensor dsum = norm_backward(run, std::move(grad_out), saved, wanted[0] || wanted[1]);
  saved.clear();
  if (!wanted[1]) return {dsum, Tensor{}};
  if (!dsum || site_.p == 0) return {dsum, dsum};
  return {dsum, drop(run, site_, dsum, {}, Kind::transient)};
}

}  // namespace trireme::ops
