#include "lib/ops/residual_norm.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

std::vector<Tensor> ResidualNorm::forward(const Run& run, std::vector<Tensor> in,
                                          Saved* saved) const {
  const Tensor x = std::move(in[1]);
  const auto kind = kind_of(saved);
  const auto like_x = [&] { return Tensor::empty(run.backend, x.shape(), x.dtype(), kind); };
  const Tensor sum = x.unique() ? x : like_x(), y = like_x();
  const auto of_sum = weights_.statistics(run, x, saved);
  run.backend.put(Queue::compute, kernel::ResidualNorm{.sum_BTC = sum.view(),
                                                       .y_BTC = y.view(),
                                                       .mean_T = of_sum.mean_T.view(),
                                                       .rstd_T = of_sum.rstd_T.view(),
                                                       .x_BTC = x.view(),
                                                       .skip_BTC = in[0].view(),
                                                       .w_C = weights_.weight(run),
                                                       .b_C = weights_.bias(run),
                                                       .eps = weights_.eps(),
                                                       .key = site_.key(run.pass),
                                                       .rows = run.pass.rows});
  if (saved) saved->keep(NormWeights::Kept{sum, of_sum});
  return {sum, y};
}

std::vector<Tensor> ResidualNorm::split(const Run& run, Tensor dsum,
                                        std::span<const std::uint8_t> wanted) const {
  if (!wanted[1]) return {dsum, Tensor{}};
  if (!dsum || site_.p == 0) return {dsum, dsum};
  return {dsum, drop(run, site_, dsum, {}, MemoryKind::transient)};
}

std::vector<Tensor> ResidualNorm::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                                  Saved& saved,
                                                  std::span<const std::uint8_t> wanted) const {
  const Tensor dsum = std::move(grad_out[0]);
  const bool any = wanted[0] || wanted[1];
  return split(run,
               weights_.backward(run, {dsum, grad_out[1]}, saved.as<NormWeights::Kept>(), any,
                                 NormWeights::Half::input),
               wanted);
}

void ResidualNorm::weight_gradients(const Run& run, std::vector<Tensor> grad_out,
                                    Saved saved) const {
  weights_.backward(run, {{}, grad_out[1]}, saved.as<NormWeights::Kept>(), false,
                    NormWeights::Half::weight);
}

std::vector<Tensor> ResidualNorm::backward(const Run& run, std::vector<Tensor> grad_out,
                                           Saved saved,
                                           std::span<const std::uint8_t> wanted) const {
  const bool any = wanted[0] || wanted[1];
  Tensor dsum = weights_.backward(run, {grad_out[0], grad_out[1]}, saved.as<NormWeights::Kept>(),
                                  any, NormWeights::Half::both);
  grad_out.clear();
  saved = {};
  return split(run, std::move(dsum), wanted);
}

}  // namespace trireme::ops
