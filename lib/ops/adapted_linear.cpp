#include "lib/ops/adapted_linear.hpp"

#include <utility>

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// In the first half of the backward pass, drop(x) replaces x, and u and dz are added.
// weight_gradients() may be called with another PassContext, so it cannot apply the dropout itself.
struct AdaptedLinearKept {
  Tensor x{}, t{}, u{};
  Tensor dz{};  // gradient of the output before DoRA scales it; dy without DoRA
  TrainedNorms::Kept norms{};
};

}  // namespace

AdaptedLinear::AdaptedLinear(Linear frozen, LowRank low, std::optional<TrainedNorms> norms)
    : frozen_(std::move(frozen)),
      low_(std::move(low)),
      norms_(std::move(norms)),
      params_{low_.a, low_.b} {
  if (norms_) params_.push_back(low_.norms);
}

// Returns the columns of t or u that belong to product i.
static View of_product(const Tensor& t, std::int64_t rank, std::size_t i) {
  return as_rows(t).slice(1, static_cast<std::int64_t>(i) * rank, rank);
}

// Allocates t or u: one row per token, with the R columns of each product.
static Tensor ranks_of(const Run& run, const Tensor& x, const LowRank& low, MemoryKind kind) {
  const auto rows = as_rows(x).extent[0], ranks = low.rank * std::ssize(low.products);
  return Tensor::empty(run.backend, {rows, ranks}, x.dtype(), kind);
}

std::vector<Tensor> AdaptedLinear::forward(const Run& run, std::vector<Tensor> in,
                                           Saved* saved) const {
  const Tensor& x = in[0];
  const Tensor y =
      Tensor::empty(run.backend, frozen_.output_shape(x.shape()), x.dtype(), kind_of(saved));
  frozen_.multiply(run, y, x);
  if (!run.pass.adapters) {
    expect(!saved, "a pass without adapters has no backward pass");
    if (norms_) norms_->add_bias(run, y);
    return {y};
  }
  const Tensor t = ranks_of(run, x, low_, kind_of(saved));
  multiply_rows(run, {.c_MN = as_rows(t),
                      .a_MK = as_rows(dropped(run, low_, x)),
                      .b_KN = run.weights[low_.a].transposed()});
  apply_scale(run, low_, as_rows(t));
  for (std::size_t i = 0; i < low_.products.size(); ++i) {
    const auto& p = low_.products[i];
    multiply_rows(run, {.c_MN = as_rows(y).slice(1, p.channel, p.channels),
                        .a_MK = of_product(t, low_.rank, i),
                        .b_KN = run.weights[low_.b].slice(0, p.row, p.channels).transposed(),
                        .how = Accumulate::add});
  }
  TrainedNorms::Kept norms;
  if (norms_) norms_->apply(run, y, saved ? &norms : nullptr);
  if (saved) saved->keep(AdaptedLinearKept{.x = x, .t = t, .norms = std::move(norms)});
  return {y};
}

std::vector<Tensor> AdaptedLinear::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                                   Saved& saved,
                                                   std::span<const std::uint8_t> wanted) const {
  auto& [x, t, u, dz, norms] = saved.as<AdaptedLinearKept>();
  if (!wanted[0] && !wants_any(run, params_)) return {Tensor{}};
  dz = norms_ ? norms_->input_gradient(run, grad_out[0], norms) : grad_out[0];
  if (!wanted[0] && !run.wants(low_.a)) return {Tensor{}};
  u = ranks_of(run, x, low_, MemoryKind::transient);
  for (std::size_t i = 0; i < low_.products.size(); ++i) {
    const auto& p = low_.products[i];
    multiply_rows(run, {.c_MN = of_product(u, low_.rank, i),
                        .a_MK = as_rows(dz).slice(1, p.channel, p.channels),
                        .b_KN = run.weights[low_.b].slice(0, p.row, p.channels)});
  }
  apply_scale(run, low_, as_rows(u));
  Tensor dx;
  if (wanted[0]) {
    dx = Tensor::empty(run.backend, x.shape(), x.dtype(), MemoryKind::transient);
    frozen_.multiply_grad(run, dx, dz);
    const bool drops = low_.dropout.key(run.pass).p > 0;
    Tensor back =
        drops ? Tensor::empty(run.backend, x.shape(), x.dtype(), MemoryKind::transient) : dx;
    multiply_rows(run, {.c_MN = as_rows(back),
                        .a_MK = as_rows(u),
                        .b_KN = run.weights[low_.a],
                        .how = drops ? Accumulate::overwrite : Accumulate::add});
    if (drops) dx = drop(run, low_.dropout, std::move(back), dx.view(), MemoryKind::transient);
  }
  if (run.wants(low_.a)) x = dropped(run, low_, x);
  return {dx};
}

void AdaptedLinear::weight_gradients(const Run& run, std::vector<Tensor> grad_out,
                                     Saved saved) const {
  if (!wants_any(run, params_)) return;
  const auto& kept = saved.as<AdaptedLinearKept>();
  const ConstView dy_TN = as_rows(grad_out[0]), dz_TN = as_rows(kept.dz), x_TC = as_rows(kept.x),
                  t_TR = as_rows(kept.t);
  run.gradients->add(
      params_, dy_TN.extent[0], [&](Rows r, std::span<const View> dst, Accumulate how) {
        const auto product = [&](const View& c, const ConstView& left_TM, const ConstView& right) {
          run.backend.put(Queue::compute, kernel::Matmul{.c_MN = c,
                                                         .a_MK = rows_of(left_TM, r).transposed(),
                                                         .b_KN = rows_of(right, r),
                                                         .how = how,
                                                         .order = sum_order(run)});
        };
        if (dst[0]) product(dst[0], as_rows(kept.u), x_TC);
        for (std::size_t i = 0; dst[1] && i < low_.products.size(); ++i) {
          const auto& p = low_.products[i];
          product(dst[1].slice(0, p.row, p.channels), dz_TN.slice(1, p.channel, p.channels),
                  t_TR.slice(1, static_cast<std::int64_t>(i) * low_.rank, low_.rank));
        }
        if (norms_ && dst[2]) norms_->add_gradient(run, dst[2], how, dy_TN, kept.norms, r);
      });
}

}  // namespace trireme::ops
