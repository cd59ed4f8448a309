#include "lib/ops/experts.hpp"

#include <cstring>
#include <utility>

#include "lib/ops/expert_inputs.hpp"

namespace trireme::ops {

namespace {

// Indices of further tensors in Saved, after those of Kept.
// first_inner is the first of four tensors, which input_gradients() appends.
enum Here : std::uint8_t { gate_up = end_kept, activated, offset_on_host, first_inner };

// Copies offset_E1 to pinned memory, so that neither the products of this pass nor those of the
// backward pass wait for it. The host waits here, once. Returns an absent tensor if kernels run on
// the host.
Tensor copy_to_host(const Run& run, const Tensor& offset_E1) {
  auto& b = run.backend;
  if (b.host_readable()) return {};
  const Tensor pinned = Tensor::empty(b, offset_E1.shape(), DType::i32, MemoryKind::offloaded,
                                      Queue::compute, Memory::pinned);
  std::vector<std::int32_t> offset(static_cast<std::size_t>(offset_E1.shape().count()));
  const auto bytes = std::as_writable_bytes(std::span(offset));
  run.seq.synchronize();
  // After the download, no earlier work uses the pinned memory.
  b.download(Queue::compute, bytes, offset_E1.view());
  if (b.keeps_values()) std::memcpy(pinned.view().data, bytes.data(), bytes.size());
  return pinned;
}

// Returns the numbers that copy_to_host() copied, or an empty list if there are none.
std::vector<std::int32_t> known_offset(const Run& run, const Tensor& pinned) {
  if (!pinned || !run.backend.keeps_values()) return {};
  const auto* const first = reinterpret_cast<const std::int32_t*>(pinned.view().data);
  return {first, first + pinned.shape().count()};
}

}  // namespace

ExpertParams::ExpertParams(const ExpertMlp::Params& p)
    : in_adapter_(p.in_adapter),
      out_adapter_(p.out_adapter),
      biases_(!p.out_bias.empty()),
      experts_(std::ssize(p.in)),
      width_(p.width),
      gate_(p.gate) {
  for (const auto part : {p.in, p.out, p.in_bias, p.out_bias})
    params_.insert(params_.end(), part.begin(), part.end());
  for (const auto* low : {&in_adapter_, &out_adapter_})
    for (const auto* part : {&low->a, &low->b})
      params_.insert(params_.end(), part->begin(), part->end());
}

ExpertMlp ExpertParams::mlp(std::int64_t first, std::int64_t count) const {
  const auto part = [&](std::int64_t i) {
    return std::span(params_).subspan(static_cast<std::size_t>(i * experts_ + first),
                                      static_cast<std::size_t>(count));
  };
  ExpertMlp::Params p{.in = part(0), .out = part(1), .width = width_, .gate = gate_};
  if (biases_) p.in_bias = part(2), p.out_bias = part(3);
  p.in_adapter = in_adapter_.of(first, count);
  p.out_adapter = out_adapter_.of(first, count);
  return ExpertMlp(std::move(p));
}

std::vector<Tensor> Experts::forward(const Run& run, std::vector<Tensor> in, Saved* saved) const {
  const ExpertMlp experts = experts_.mlp();
  const auto kind = kind_of(saved);
  const auto shape = in[in_x].shape();
  const Tensor on_host = copy_to_host(run, in[in_offset]);
  ExpertRows rows{take_rows(run, as_rows(in[in_x]), in[in_token].view(), MemoryKind::transient),
                  take_rows(run, as_column(in[in_weight]), in[in_choice].view(), kind),
                  in[in_offset],
                  {},
                  in[in_token].shape()[0],
                  0,
                  known_offset(run, on_host)};
  auto made = experts.room_for_hidden(run, rows.count, kind);
  experts.hidden(run, rows, made);
  if (saved)
    *saved = {in[in_x],       in[in_offset], in[in_token], in[in_row],
              rows.weight_N1, made.gate_up,  made.h,       on_host};
  made.gate_up = rows.x_NC = {};
  const Tensor y_RC = room_for_rows(run, as_rows(in[in_x]), rows.count, MemoryKind::transient);
  experts.output(run, rows, made.h, y_RC);
  made = {};
  return {sum_rows(run, y_RC, in[in_row], shape, skip_of(in), kind)};
}

// Replaces gate_up in Saved by its gradient, and appends the inner rows of adapters. Both are for
// weight_gradients().
std::vector<Tensor> Experts::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                             Saved& saved,
                                             std::span<const std::uint8_t> wanted) const {
  const Tensor& dy = grad_out[0];
  const ExpertMlp experts = experts_.mlp();
  const ExpertRows rows{saved[kept_x],
                        saved[kept_weight],
                        saved[kept_offset],
                        {},
                        saved[kept_token].shape()[0],
                        0,
                        known_offset(run, saved[offset_on_host])};
  const auto taken = [&](const Tensor& t) {
    return take_rows(run, as_rows(t), saved[kept_token].view(), MemoryKind::transient);
  };
  const auto append = [&](const Tensor& dgate_up, const Tensor& dy_RC) {
    if (!experts.adapts(run)) return;
    ExpertRows with_x = rows;
    with_x.x_NC = experts.adapts_in(run) ? taken(saved[kept_x]) : Tensor{};
    auto inner = experts.inner_rows(run, with_x, saved[activated], dgate_up, dy_RC);
    saved.insert(saved.end(), {inner.in_t, inner.in_u, inner.out_t, inner.out_u});
  };
  if (!wanted[in_x] && !wanted[in_weight] && !experts.wants_in(run)) {
    if (experts.adapts(run)) append({}, taken(dy));
    return experts_input_gradients(run, saved, dy, {}, {}, wanted);
  }
  const Tensor dy_RC = taken(dy);
  const auto room = [&](const Tensor& t) {
    return room_for_rows(run, t.view(), rows.count, MemoryKind::transient);
  };
  const ExpertMlp::RowGradients g{room(saved[gate_up]), room(rows.weight_N1)};
  experts.row_gradients(run, rows, saved[gate_up], dy_RC, g);
  saved[gate_up] = g.gate_up;
  if (!experts.has_bias()) saved[kept_weight] = {};
  const Tensor dx_RC = wanted[in_x] ? room(dy_RC) : Tensor{};
  if (dx_RC) experts.x_gradient(run, rows, g.gate_up, dx_RC);
  append(g.gate_up, dy_RC);
  return experts_input_gradients(run, saved, dy, dx_RC, g.weight_N1, wanted);
}

void Experts::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  const ExpertMlp experts = experts_.mlp();
  const auto leaves = leaves_of(run, saved[kept_x], 1);
  const ExpertRows rows{{},
                        saved[kept_weight],
                        saved[kept_offset],
                        saved[kept_token],
                        saved[kept_token].shape()[0],
                        0,
                        known_offset(run, saved[offset_on_host])};
  const auto taken = [&](const Tensor& t) {
    return take_rows(run, as_rows(t), saved[kept_token].view(), MemoryKind::transient);
  };
  ExpertMlp::InnerRows inner;
  if (saved.size() > first_inner)
    inner = {saved[first_inner], saved[first_inner + 1], saved[first_inner + 2],
             saved[first_inner + 3]};
  if (experts.wants_out(run))
    experts.add_out_gradients(run, taken(grad_out[0]), saved[activated], inner, rows, leaves);
  saved[activated] = {};
  if (experts.wants_in(run))
    experts.add_in_gradients(run, saved[gate_up], taken(saved[kept_x]), inner, rows, leaves);
}

}  // namespace trireme::ops
