#include "lib/ops/head.hpp"

#include <algorithm>

#include "lib/ops/support.hpp"

namespace trireme::ops {

Tensor Head::logits(const Run& run, ConstView x_RC) const {
  Tensor z = Tensor::empty(run.backend, {x_RC.extent[0], vocab_}, x_RC.dtype, Kind::transient);
  run.backend.put(
      Queue::compute,
      kernel::Matmul{.c_MN = z.view(), .a_MK = x_RC, .b_KN = run.weights[params_[0]].transposed()});
  return z;
}

std::vector<Tensor> Head::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor x = std::move(in[0]);
  const ConstView x_TC = as_rows(x);
  const auto tokens = x_TC.extent[0];
  const ConstView target_T = run.place.targets_BT.reshaped({tokens});
  Tensor loss = Tensor::empty(b, {1}, DType::f64, Kind::transient);
  Tensor dx;
  if (saved) dx = Tensor::empty(b, x.shape(), x.dtype(), Kind::saved);
  const auto most = b.head_rows();
  for (std::int64_t begin = 0; begin < tokens; begin += most) {
    const Rows chunk{begin, std::min(tokens, begin + most)};
    const ConstView x_RC = rows_of(x_TC, chunk);
    const Tensor z = logits(run, x_RC);
    b.put(Queue::compute,
          kernel::CrossEntropy{.loss = loss.view(),
                               .how = begin ? Accumulate::add : Accumulate::overwrite,
                               .logits_TV = z.view(),
                               .target_T = rows_of(target_T, chunk),
                               .scale = run.place.scale,
                               .logits = saved ? Logits::become_gradient : Logits::keep});
    if (!saved) continue;
    const ConstView dz_RV = z.view();
    b.put(Queue::compute,
          kernel::Matmul{
              .c_MN = rows_of(as_rows(dx), chunk), .a_MK = dz_RV, .b_KN = run.weights[params_[0]]});
    if (wants_any(run, params_))
      run.gradients->add(
          params_, dz_RV.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
            b.put(Queue::compute, kernel::Matmul{.c_MN = dst[0],
                                                 .a_MK = rows_of(dz_RV, r).transposed(),
                                                 .b_KN = rows_of(x_RC, r),
                                                 .how = how});
          });
  }
  if (saved) *saved = {dx};
  return {loss};
}

std::vector<Tensor> Head::input_gradients(const Run&, std::vector<Tensor>&, Saved& saved,
                                          std::span<const std::uint8_t>) const {
  return {std::move(saved[0])};
}

}  // namespace trireme::ops
