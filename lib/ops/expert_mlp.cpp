#include "lib/ops/expert_mlp.hpp"

#include "lib/ops/support.hpp"

namespace trireme::ops {

namespace {

// Weights [out, in], and what a row is multiplied with forward.
ConstView as_is(const ConstView& w) {
  return w;
}
ConstView turned(const ConstView& w) {
  return w.transposed();
}

// The first n rows.
View first_rows(const Tensor& t, std::int64_t n) {
  return t.view().slice(0, 0, n);
}

Tensor multiply(const Run& run, const Tensor& a_NK, std::int64_t columns,
                std::span<const ParamId> params, ConstView (*view_of)(const ConstView&),
                const Tensor& offset_E1, std::int64_t rows, Kind kind) {
  Tensor c = Tensor::empty(run.backend, {a_NK.shape()[0], columns}, a_NK.dtype(), kind);
  if (rows == 0) return c;
  kernel::GroupedMatmul o{.c_RN = first_rows(c, rows),
                          .a_RK = first_rows(a_NK, rows),
                          .offset_E1 = offset_E1.view(),
                          .b_KN = {},
                          .order = sum_order_of_rows(run)};
  for (const ParamId p : params) o.b_KN.push_back(view_of(run.weights[p]));
  run.backend.put(Queue::compute, o);
  return c;
}

}  // namespace

ExpertMlp::Hidden ExpertMlp::hidden(const Run& run, const ExpertRows& rows, Kind kind) const {
  const auto room = rows.x_NC.shape()[0], n = rows.count;
  Hidden made{multiply(run, rows.x_NC, 2 * width_, in_, turned, rows.offset_E1, n, kind),
              Tensor::empty(run.backend, {room, width_}, rows.x_NC.dtype(), kind)};
  if (n > 0)
    run.backend.put(
        Queue::compute,
        kernel::Swiglu{.y_TF = first_rows(made.h, n),
                       .gate_up_T2F = first_rows(made.gate_up, n).reshaped({n, 2, width_}),
                       .weight_T = first_rows(rows.weight_N1, n).reshaped({n})});
  return made;
}

Tensor ExpertMlp::output(const Run& run, const ExpertRows& rows, const Tensor& h) const {
  const auto channels = run.weights[out_[0]].extent[0];
  return multiply(run, h, channels, out_, turned, rows.offset_E1, rows.count, Kind::transient);
}

ExpertMlp::RowGradients ExpertMlp::row_gradients(const Run& run, const ExpertRows& rows,
                                                 const Tensor& gate_up, const Tensor& dy_NC,
                                                 bool want_x) const {
  const auto n = rows.count;
  auto& b = run.backend;
  RowGradients g;
  {
    const Tensor dh = multiply(run, dy_NC, width_, out_, as_is, rows.offset_E1, n, Kind::transient);
    g.gate_up = Tensor::empty(b, gate_up.shape(), dy_NC.dtype(), Kind::transient);
    g.weight_N1 = Tensor::empty(b, rows.weight_N1.shape(), rows.weight_N1.dtype(), Kind::transient);
    if (n > 0)
      b.put(Queue::compute,
            kernel::SwigluGrad{.dgate_up_T2F = first_rows(g.gate_up, n).reshaped({n, 2, width_}),
                               .dweight_T = first_rows(g.weight_N1, n).reshaped({n}),
                               .dy_TF = first_rows(dh, n),
                               .gate_up_T2F = first_rows(gate_up, n).reshaped({n, 2, width_}),
                               .weight_T = first_rows(rows.weight_N1, n).reshaped({n})});
  }
  if (want_x)
    g.x_NC =
        multiply(run, g.gate_up, dy_NC.shape()[1], in_, as_is, rows.offset_E1, n, Kind::transient);
  return g;
}

void ExpertMlp::add_gradients(const Run& run, std::span<const ParamId> params, const Tensor& dy_NM,
                              const Tensor& x_NK, const ExpertRows& rows, std::int64_t leaves,
                              std::size_t round) const {
  if (!wants_any(run, params) || (round > 0 && rows.count == 0)) return;
  run.gradients->add_counts(
      params, round > 0 ? 0 : leaves,
      [&](std::span<const View> dst, std::span<const View> largest, Accumulate how) {
        kernel::GroupedMatmulGrad o{.c_MN = {dst.begin(), dst.end()},
                                    .how = how,
                                    .a_RM = first_rows(dy_NM, rows.count),
                                    .b_RN = first_rows(x_NK, rows.count),
                                    .offset_E1 = rows.offset_E1.view()};
        if (run.place.exact_chunk > 0) {
          o.token_R = first_rows(rows.token_N, rows.count);
          o.leaf = run.place.exact_chunk;
          o.largest = {largest.begin(), largest.end()};
        }
        run.backend.put(Queue::compute, o);
      });
}

}  // namespace trireme::ops
