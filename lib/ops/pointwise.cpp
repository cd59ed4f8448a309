#include "lib/ops/pointwise.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

struct SwigluKept {
  Tensor x{}, weight{};  // `weight` is absent if rows have no weights
};

}  // namespace

std::vector<Tensor> Swiglu::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const Tensor& x = in[0];
  const Shape& s = x.shape();
  const auto f = s[2] / 2;
  Tensor y = Tensor::empty(run.backend, {s[0], s[1], f}, x.dtype(), kind_of(saved));
  kernel::Swiglu o{.y_TF = y.view().reshaped({s[0] * s[1], f}),
                   .gate_up_T2F = x.view().reshaped({s[0] * s[1], 2, f}),
                   .gate = gate_};
  if (in.size() > 1) o.weight_T = in[1].view().reshaped({s[0] * s[1]});
  run.backend.put(Queue::compute, o);
  if (saved) saved->keep(SwigluKept{std::move(in[0]), in.size() > 1 ? std::move(in[1]) : Tensor{}});
  return {y};
}

std::vector<Tensor> Swiglu::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                            Saved& saved, std::span<const std::uint8_t>) const {
  const auto& [x, weight] = saved.as<SwigluKept>();
  const Shape& s = x.shape();
  const auto f = s[2] / 2;
  std::vector<Tensor> dx = {Tensor::empty(run.backend, s, x.dtype(), MemoryKind::transient)};
  kernel::SwigluGrad o{.dgate_up_T2F = dx[0].view().reshaped({s[0] * s[1], 2, f}),
                       .dy_TF = grad_out[0].view().reshaped({s[0] * s[1], f}),
                       .gate_up_T2F = x.view().reshaped({s[0] * s[1], 2, f}),
                       .gate = gate_};
  if (weight) {
    dx.push_back(Tensor::empty(run.backend, weight.shape(), weight.dtype(), MemoryKind::transient));
    o.weight_T = weight.view().reshaped({s[0] * s[1]});
    o.dweight_T = dx[1].view().reshaped({s[0] * s[1]});
  }
  run.backend.put(Queue::compute, o);
  return dx;
}

static Tensor times(const Run& run, double factor, Tensor x, MemoryKind kind) {
  const Tensor y = owned(run, std::move(x), kind);
  run.backend.put(Queue::compute, kernel::Scale{.x_N = y.view(), .factor = factor});
  return y;
}

std::vector<Tensor> Multiply::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  return {times(run, factor_, std::move(in[0]), kind_of(saved))};
}

std::vector<Tensor> Multiply::input_gradients(const Run& run, std::vector<Tensor>& grad_out, Saved&,
                                              std::span<const std::uint8_t>) const {
  return {times(run, factor_, std::move(grad_out[0]), MemoryKind::transient)};
}

std::vector<Tensor> Activate::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const Tensor& x = in[0];
  const Tensor y = Tensor::empty(run.backend, x.shape(), x.dtype(), kind_of(saved));
  run.backend.put(Queue::compute,
                  kernel::Activate{.activation = f_, .y_N = y.view(), .x_N = x.view()});
  if (saved) saved->keep(std::move(in[0]));
  return {y};
}

// Writes dx into dy's memory if no other tensor shares it.
std::vector<Tensor> Activate::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                              Saved& saved, std::span<const std::uint8_t>) const {
  const auto& x = saved.as<Tensor>();
  Tensor dy = std::move(grad_out[0]);
  const Tensor dx =
      dy.unique() ? dy : Tensor::empty(run.backend, x.shape(), x.dtype(), MemoryKind::transient);
  run.backend.put(Queue::compute,
                  kernel::ActivateGrad{
                      .activation = f_, .dx_N = dx.view(), .dy_N = dy.view(), .x_N = x.view()});
  return {dx};
}

DropoutKey DropoutSite::key(const PassContext& pass) const {
  return {
      hash64(pass.seed, static_cast<std::uint64_t>(pass.step), static_cast<std::uint64_t>(site)),
      pass.phase == Phase::train ? static_cast<float>(p) : 0};
}

Tensor drop(const Run& run, const DropoutSite& site, Tensor x, ConstView skip, MemoryKind kind) {
  Tensor y = x.unique() ? x : Tensor::empty(run.backend, x.shape(), x.dtype(), kind);
  run.backend.put(Queue::compute, kernel::Dropout{.y_BTC = y.view(),
                                                  .x_BTC = x.view(),
                                                  .skip_BTC = skip,
                                                  .key = site.key(run.pass),
                                                  .rows = run.pass.rows});
  return y;
}

std::vector<Tensor> Residual::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  return {drop(run, site_, std::move(in[1]), in[0].view(), kind_of(saved))};
}

std::vector<Tensor> Residual::input_gradients(const Run& run, std::vector<Tensor>& grad_out, Saved&,
                                              std::span<const std::uint8_t>) const {
  const Tensor& dy = grad_out[0];
  if (site_.p == 0) return {dy, dy};
  return {dy, drop(run, site_, dy, {}, MemoryKind::transient)};
}

std::vector<Tensor> Dropout::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  if (site_.key(run.pass).p == 0) return in;
  return {drop(run, site_, std::move(in[0]), {}, kind_of(saved))};
}

std::vector<Tensor> Dropout::input_gradients(const Run& run, std::vector<Tensor>& grad_out, Saved&,
                                             std::span<const std::uint8_t>) const {
  if (site_.p == 0) return std::move(grad_out);
  return {drop(run, site_, std::move(grad_out[0]), {}, MemoryKind::transient)};
}

}  // namespace trireme::ops
