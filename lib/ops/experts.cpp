#include "lib/ops/experts.hpp"

#include <cstring>
#include <utility>

#include "lib/ops/expert_inputs.hpp"

namespace trireme::ops {

namespace {

struct ExpertsKept {
  Tensor x_BTC{}, offset_E1{}, token_R{}, row_TK{};
  Tensor weight_R1{};            // the weights of the sorted rows
  ExpertMlp::Hidden made{};      // input_gradients() replaces gate_up by its gradient
  Tensor offset_on_host{};       // from copy_to_host()
  ExpertMlp::InnerRows inner{};  // from input_gradients(), for the gradients of adapters
};

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

// Returns the sorted rows without x.
ExpertRows rows_of(const Run& run, const ExpertsKept& kept) {
  return {{},
          kept.weight_R1,
          kept.offset_E1,
          kept.token_R,
          kept.token_R.shape()[0],
          0,
          known_offset(run, kept.offset_on_host)};
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

std::vector<Tensor> Experts::forward(const Run& run, std::vector<Tensor> inputs,
                                     Saved* saved) const {
  const ExpertInputs in = inputs_of(std::move(inputs));
  const auto& order = in.order;
  const ExpertMlp experts = experts_.mlp();
  const auto kind = kind_of(saved);
  const Tensor on_host = copy_to_host(run, order.offset_E1);
  ExpertRows rows{take_rows(run, as_rows(in.x_BTC), order.token_R.view(), MemoryKind::transient),
                  take_rows(run, as_column(in.weight_TK), order.choice_R.view(), kind),
                  order.offset_E1,
                  {},
                  order.token_R.shape()[0],
                  0,
                  known_offset(run, on_host)};
  auto made = experts.room_for_hidden(run, rows.count, kind);
  experts.hidden(run, rows, made);
  if (saved)
    saved->keep(ExpertsKept{in.x_BTC, order.offset_E1, order.token_R, order.row_TK, rows.weight_N1,
                            made, on_host});
  made.gate_up = rows.x_NC = {};
  const Tensor y_RC = room_for_rows(run, as_rows(in.x_BTC), rows.count, MemoryKind::transient);
  experts.output(run, rows, made.h, y_RC);
  made = {};
  return {sum_rows(run, y_RC, order.row_TK, in.x_BTC.shape(), skip_of(in), kind)};
}

std::vector<Tensor> Experts::input_gradients(const Run& run, std::vector<Tensor>& grad_out,
                                             Saved& saved,
                                             std::span<const std::uint8_t> wanted) const {
  const Tensor& dy = grad_out[0];
  const ExpertMlp experts = experts_.mlp();
  auto& kept = saved.as<ExpertsKept>();
  const ExpertRows rows = rows_of(run, kept);
  const auto taken = [&](const Tensor& t) {
    return take_rows(run, as_rows(t), kept.token_R.view(), MemoryKind::transient);
  };
  const auto keep_inner = [&](const Tensor& dgate_up, const Tensor& dy_RC) {
    if (!experts.adapts(run)) return;
    ExpertRows with_x = rows;
    with_x.x_NC = experts.adapts_in(run) ? taken(kept.x_BTC) : Tensor{};
    kept.inner = experts.inner_rows(run, with_x, kept.made.h, dgate_up, dy_RC);
  };
  if (!wanted[in_x] && !wanted[in_weight] && !experts.wants_in(run)) {
    if (experts.adapts(run)) keep_inner({}, taken(dy));
    return experts_input_gradients(run, kept.row_TK, dy, {}, {}, wanted);
  }
  const Tensor dy_RC = taken(dy);
  const auto room = [&](const Tensor& t) {
    return room_for_rows(run, t.view(), rows.count, MemoryKind::transient);
  };
  const ExpertMlp::RowGradients g{room(kept.made.gate_up), room(rows.weight_N1)};
  experts.row_gradients(run, rows, kept.made.gate_up, dy_RC, g);
  kept.made.gate_up = g.gate_up;
  if (!experts.has_bias()) kept.weight_R1 = {};
  const Tensor dx_RC = wanted[in_x] ? room(dy_RC) : Tensor{};
  if (dx_RC) experts.x_gradient(run, rows, g.gate_up, dx_RC);
  keep_inner(g.gate_up, dy_RC);
  return experts_input_gradients(run, kept.row_TK, dy, dx_RC, g.weight_N1, wanted);
}

void Experts::weight_gradients(const Run& run, std::vector<Tensor> grad_out, Saved saved) const {
  const ExpertMlp experts = experts_.mlp();
  auto& kept = saved.as<ExpertsKept>();
  const auto leaves = leaves_of(run, kept.x_BTC, 1);
  const ExpertRows rows = rows_of(run, kept);
  const auto taken = [&](const Tensor& t) {
    return take_rows(run, as_rows(t), kept.token_R.view(), MemoryKind::transient);
  };
  if (experts.wants_out(run))
    experts.add_out_gradients(run, taken(grad_out[0]), kept.made.h, kept.inner, rows, leaves);
  kept.made.h = {};
  if (experts.wants_in(run))
    experts.add_in_gradients(run, kept.made.gate_up, taken(kept.x_BTC), kept.inner, rows, leaves);
}

}  // namespace trireme::ops
