#include "lib/ops/expert_mlp.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// as_is() returns weights [out, in] unchanged. turned() transposes them for the forward pass.
ConstView as_is(const ConstView& w) {
  return w;
}
ConstView turned(const ConstView& w) {
  return w.transposed();
}

View first_rows(const Tensor& t, std::int64_t n) {
  return t.view().slice(0, 0, n);
}

void multiply(const Run& run, const Tensor& c_NM, const Tensor& a_NK,
              std::span<const ParamId> params, ConstView (*view_of)(const ConstView&),
              const ExpertRows& rows) {
  kernel::GroupedMatmul o{.c_RN = first_rows(c_NM, rows.count),
                          .a_RK = first_rows(a_NK, rows.count),
                          .offset_E1 = rows.offset_E1.view(),
                          .b_KN = {},
                          .order = sum_order_of_rows(run),
                          .known_offset = rows.known_offset};
  const auto first = static_cast<std::size_t>(rows.first_expert),
             experts = static_cast<std::size_t>(rows.offset_E1.shape()[0] - 1);
  for (const ParamId p : params.subspan(first, experts)) o.b_KN.push_back(view_of(run.weights[p]));
  run.backend.put(Queue::compute, o);
}

}  // namespace

ExpertMlp::Hidden ExpertMlp::room_for_hidden(const Run& run, std::int64_t rows,
                                             MemoryKind kind) const {
  const auto type = run.weights[in_[0]].dtype;
  return {Tensor::empty(run.backend, {rows, 2 * width_}, type, kind),
          Tensor::empty(run.backend, {rows, width_}, type, kind)};
}

void ExpertMlp::hidden(const Run& run, const ExpertRows& rows, const Hidden& made) const {
  const auto n = rows.count;
  if (n == 0) return;
  multiply(run, made.gate_up, rows.x_NC, in_, turned, rows);
  run.backend.put(
      Queue::compute,
      kernel::Swiglu{.y_TF = first_rows(made.h, n),
                     .gate_up_T2F = first_rows(made.gate_up, n).reshaped({n, 2, width_}),
                     .weight_T = first_rows(rows.weight_N1, n).reshaped({n})});
}

void ExpertMlp::output(const Run& run, const ExpertRows& rows, const Tensor& h,
                       const Tensor& y_NC) const {
  if (rows.count > 0) multiply(run, y_NC, h, out_, turned, rows);
}

void ExpertMlp::row_gradients(const Run& run, const ExpertRows& rows, const Tensor& gate_up,
                              const Tensor& dy_NC, const RowGradients& g) const {
  const auto n = rows.count;
  const Tensor dh = Tensor::empty(run.backend, {g.weight_N1.shape()[0], width_},
                                  run.weights[out_[0]].dtype, MemoryKind::transient);
  if (n == 0) return;
  multiply(run, dh, dy_NC, out_, as_is, rows);
  run.backend.put(
      Queue::compute,
      kernel::SwigluGrad{.dgate_up_T2F = first_rows(g.gate_up, n).reshaped({n, 2, width_}),
                         .dweight_T = first_rows(g.weight_N1, n).reshaped({n}),
                         .dy_TF = first_rows(dh, n),
                         .gate_up_T2F = first_rows(gate_up, n).reshaped({n, 2, width_}),
                         .weight_T = first_rows(rows.weight_N1, n).reshaped({n})});
}

void ExpertMlp::x_gradient(const Run& run, const ExpertRows& rows, const Tensor& dgate_up,
                           const Tensor& dx_NC) const {
  if (rows.count > 0) multiply(run, dx_NC, dgate_up, in_, as_is, rows);
}

void ExpertMlp::add_gradients(const Run& run, std::span<const ParamId> params, const Tensor& dy_NM,
                              const Tensor& x_NK, const ExpertRows& rows, std::int64_t leaves,
                              std::size_t round) const {
  if (!wants_any(run, params) || (round > 0 && rows.count == 0)) return;
  run.gradients->add_whole(
      params, round > 0 ? 0 : leaves,
      [&](std::span<const View> dst, std::span<const View> largest, Accumulate how) {
        kernel::GroupedMatmulGrad o{.c_MN = {dst.begin(), dst.end()},
                                    .how = how,
                                    .a_RM = first_rows(dy_NM, rows.count),
                                    .b_RN = first_rows(x_NK, rows.count),
                                    .offset_E1 = rows.offset_E1.view(),
                                    .known_offset = rows.known_offset};
        if (run.pass.exact_chunk > 0) {
          o.token_R = first_rows(rows.token_N, rows.count);
          o.leaf = run.pass.exact_chunk;
          o.largest = {largest.begin(), largest.end()};
        }
        run.backend.put(Queue::compute, o);
      });
}

}  // namespace trireme::ops
