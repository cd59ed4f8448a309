#include "lib/ops/qk_norm.hpp"

#include <array>

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// Dense rows of heads, and one number per row.
struct NormedHeads {
  Tensor x{}, rstd{};
};
using QkNormKept = std::array<NormedHeads, 2>;  // queries and keys, in the order of params()

}  // namespace

// Copies heads into dense rows, because norm kernels require dense rows and a view of heads has
// gaps between tokens.
static Tensor dense(const Run& run, const View& x_BTHD, MemoryKind kind) {
  const auto& n = x_BTHD.extent;
  Tensor rows = Tensor::empty(run.backend, {n[0], n[1], n[2], n[3]}, x_BTHD.dtype, kind);
  run.backend.put(Queue::compute, kernel::Copy{.dst = rows.view(), .src = x_BTHD});
  return rows;
}

View QkNorm::as_rows_of_norm(const Tensor& x_BTHD) const {
  const auto& n = x_BTHD.shape();
  return over_ == QkNormOver::head ? as_rows(x_BTHD)
                                   : x_BTHD.view().reshaped({n[0] * n[1], n[2] * n[3]});
}

std::vector<Tensor> QkNorm::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  auto& b = run.backend;
  const Tensor qkv = owned(run, std::move(in[0]), kind_of(saved));
  const auto p = unpack(qkv, heads_);
  const std::array heads = {p.q_BTHD, p.k_BTGD};
  QkNormKept kept;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    const Tensor x = dense(run, heads[i], kind_of(saved));
    const View rows = as_rows_of_norm(x);
    const Tensor y = Tensor::empty(b, x.shape(), x.dtype(), MemoryKind::transient);
    const Tensor rstd = Tensor::empty(b, {rows.extent[0]}, wide(x.dtype()), kind_of(saved));
    b.put(Queue::compute, kernel::Norm{.y_TC = as_rows_of_norm(y),
                                       .rstd_T = rstd.view(),
                                       .x_TC = rows,
                                       .w_C = run.weights[params_[i]],
                                       .eps = eps_});
    b.put(Queue::compute, kernel::Copy{.dst = heads[i], .src = y.view()});
    if (saved) kept[i] = {x, rstd};
  }
  if (saved) saved->keep(std::move(kept));
  return {qkv};
}

Tensor QkNorm::differentiate(const Run& run, Tensor dqkv, Saved& saved, bool wanted,
                             Half half) const {
  const auto tokens = dqkv.shape()[0] * dqkv.shape()[1];
  std::array rows = {heads_.query, heads_.kv};  // rows of the norm per token
  if (over_ == QkNormOver::width) rows = {1, 1};
  const auto p = unpack(dqkv, heads_);
  const std::array d = {dense(run, p.q_BTHD, MemoryKind::transient),
                        dense(run, p.k_BTGD, MemoryKind::transient)};
  const auto& kept = saved.as<QkNormKept>();
  const auto fill = [&](Rows r, std::span<const View> dst, Accumulate how) {
    for (std::size_t i = 0; i < d.size(); ++i) {
      if (!wanted && !dst[i]) continue;
      const Rows own{r.begin * rows[i], r.end * rows[i]};
      const View dy = rows_of(as_rows_of_norm(d[i]), own);
      run.backend.put(Queue::compute,
                      kernel::NormGrad{.dx_TC = wanted ? dy : View{},
                                       .dw_C = dst[i],
                                       .how = how,
                                       .dy_TC = dy,
                                       .x_TC = rows_of(as_rows_of_norm(kept[i].x), own),
                                       .w_C = wanted ? run.weights[params_[i]] : ConstView{},
                                       .rstd_T = rows_of(kept[i].rstd.view(), own)});
    }
  };
  if (half != Half::input && wants_any(run, params_))
    run.gradients->add(params_, tokens, fill);
  else
    fill({0, tokens}, std::array<View, 2>{}, Accumulate::overwrite);
  if (!wanted) return {};
  Tensor dx = owned(run, std::move(dqkv), MemoryKind::transient);
  const auto to = unpack(dx, heads_);
  run.backend.put(Queue::compute, kernel::Copy{.dst = to.q_BTHD, .src = d[0].view()});
  run.backend.put(Queue::compute, kernel::Copy{.dst = to.k_BTGD, .src = d[1].view()});
  return dx;
}

std::vector<Tensor> QkNorm::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                            Saved& saved,
                                            std::span<const std::uint8_t> wanted) const {
  if (!wanted[0]) return {Tensor{}};
  // If weight_gradients() reads this gradient, share it, so that it is not overwritten.
  Tensor dqkv = wants_any(run, params_) ? grad_out[0] : std::move(grad_out[0]);
  return {differentiate(run, std::move(dqkv), saved, true, Half::input)};
}

void QkNorm::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  if (!wants_any(run, params_)) return;
  differentiate(run, std::move(grad_out[0]), saved, false, Half::weight);
}

std::vector<Tensor> QkNorm::backward(const Run& run, std::vector<Tensor> grad_out, Saved saved,
                                     std::span<const std::uint8_t> wanted) const {
  if (!wanted[0] && !wants_any(run, params_)) return {Tensor{}};
  return {differentiate(run, std::move(grad_out[0]), saved, wanted[0] != 0, Half::both)};
}

}  // namespace trireme::ops
