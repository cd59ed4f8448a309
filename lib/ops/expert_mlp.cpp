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

// Returns the rows' weights, or an absent view if there are none.
ConstView weights_of(const ExpertRows& rows) {
  if (!rows.weight_N1) return {};
  return first_rows(rows.weight_N1, rows.count).reshaped({rows.count});
}

// Returns views of the parameters of the experts whose rows are processed.
std::vector<ConstView> weights_of(const Run& run, std::span<const ParamId> params,
                                  ConstView (*view_of)(const ConstView&), const ExpertRows& rows) {
  const auto first = static_cast<std::size_t>(rows.first_expert),
             experts = static_cast<std::size_t>(rows.offset_E1.shape()[0] - 1);
  std::vector<ConstView> views;
  for (const ParamId p : params.subspan(first, experts)) views.push_back(view_of(run.weights[p]));
  return views;
}

void multiply(const Run& run, const Tensor& c_NM, const Tensor& a_NK,
              std::span<const ParamId> params, ConstView (*view_of)(const ConstView&),
              const ExpertRows& rows) {
  run.backend.put(Queue::compute,
                  kernel::GroupedMatmul{.c_RN = first_rows(c_NM, rows.count),
                                        .a_RK = first_rows(a_NK, rows.count),
                                        .offset_E1 = rows.offset_E1.view(),
                                        .b_KN = weights_of(run, params, view_of, rows),
                                        .order = sum_order_of_rows(run),
                                        .known_offset = rows.known_offset});
}

// Adds the experts' biases, if there are any, to the rows of y.
void add_bias(const Run& run, const Tensor& y_NM, std::span<const ParamId> biases,
              const ConstView& weight_N, const ExpertRows& rows) {
  if (biases.empty()) return;
  run.backend.put(Queue::compute,
                  kernel::GroupedBias{.y_RN = first_rows(y_NM, rows.count),
                                      .offset_E1 = rows.offset_E1.view(),
                                      .bias_N = weights_of(run, biases, as_is, rows),
                                      .weight_R = weight_N});
}

// Returns true if there is nothing to add: no gradient is wanted, or a later round has no rows.
bool nothing_to_add(const Run& run, std::span<const ParamId> params, const ExpertRows& rows,
                    std::size_t round) {
  return !wants_any(run, params) || (round > 0 && rows.count == 0);
}

// Adds the weight gradients dy' x.
void add_gradients(const Run& run, std::span<const ParamId> params, const Tensor& dy_NM,
                   const Tensor& x_NK, const ExpertRows& rows, std::int64_t leaves,
                   std::size_t round) {
  if (nothing_to_add(run, params, rows, round)) return;
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

// Adds the gradients of biases. With exact sums, each row is one term. A token has at most one row
// of each expert, so a leaf has at most `exact_chunk` terms.
void add_bias_gradients(const Run& run, std::span<const ParamId> params, const Tensor& dy_NM,
                        const ConstView& weight_N, const ExpertRows& rows, std::int64_t leaves,
                        std::size_t round) {
  if (nothing_to_add(run, params, rows, round)) return;
  run.gradients->add_whole(
      params, round > 0 ? 0 : leaves * run.pass.exact_chunk,
      [&](std::span<const View> dst, std::span<const View> largest, Accumulate how) {
        run.backend.put(Queue::compute,
                        kernel::GroupedBiasGrad{.dbias_N = {dst.begin(), dst.end()},
                                                .how = how,
                                                .dy_RN = first_rows(dy_NM, rows.count),
                                                .offset_E1 = rows.offset_E1.view(),
                                                .weight_R = weight_N,
                                                .largest = {largest.begin(), largest.end()}});
      });
}

}  // namespace

bool ExpertMlp::wants_in(const Run& run) const {
  return wants_any(run, p_.in) || wants_any(run, p_.in_bias);
}

bool ExpertMlp::wants_out(const Run& run) const {
  return wants_any(run, p_.out) || wants_any(run, p_.out_bias);
}

ExpertMlp::Hidden ExpertMlp::room_for_hidden(const Run& run, std::int64_t rows,
                                             MemoryKind kind) const {
  const auto type = run.weights[p_.in[0]].dtype;
  return {Tensor::empty(run.backend, {rows, 2 * p_.width}, type, kind),
          Tensor::empty(run.backend, {rows, p_.width}, type, kind)};
}

void ExpertMlp::hidden(const Run& run, const ExpertRows& rows, const Hidden& made) const {
  const auto n = rows.count;
  if (n == 0) return;
  multiply(run, made.gate_up, rows.x_NC, p_.in, turned, rows);
  add_bias(run, made.gate_up, p_.in_bias, {}, rows);
  run.backend.put(
      Queue::compute,
      kernel::Swiglu{.y_TF = first_rows(made.h, n),
                     .gate_up_T2F = first_rows(made.gate_up, n).reshaped({n, 2, p_.width}),
                     .weight_T = weights_of(rows),
                     .gate = p_.gate});
}

void ExpertMlp::output(const Run& run, const ExpertRows& rows, const Tensor& h,
                       const Tensor& y_NC) const {
  if (rows.count == 0) return;
  multiply(run, y_NC, h, p_.out, turned, rows);
  add_bias(run, y_NC, p_.out_bias, weights_of(rows), rows);
}

void ExpertMlp::row_gradients(const Run& run, const ExpertRows& rows, const Tensor& gate_up,
                              const Tensor& dy_NC, const RowGradients& g) const {
  const auto n = rows.count;
  const Tensor dh = Tensor::empty(run.backend, {g.weight_N1.shape()[0], p_.width},
                                  run.weights[p_.out[0]].dtype, MemoryKind::transient);
  if (n == 0) return;
  const View dweight_N = first_rows(g.weight_N1, n).reshaped({n});
  multiply(run, dh, dy_NC, p_.out, as_is, rows);
  run.backend.put(
      Queue::compute,
      kernel::SwigluGrad{.dgate_up_T2F = first_rows(g.gate_up, n).reshaped({n, 2, p_.width}),
                         .dweight_T = dweight_N,
                         .dy_TF = first_rows(dh, n),
                         .gate_up_T2F = first_rows(gate_up, n).reshaped({n, 2, p_.width}),
                         .weight_T = weights_of(rows),
                         .gate = p_.gate});
  if (!has_bias()) return;
  run.backend.put(Queue::compute,
                  kernel::GroupedBiasGrad{.dweight_R = dweight_N,
                                          .dy_RN = first_rows(dy_NC, n),
                                          .offset_E1 = rows.offset_E1.view(),
                                          .bias_N = weights_of(run, p_.out_bias, as_is, rows)});
}

void ExpertMlp::x_gradient(const Run& run, const ExpertRows& rows, const Tensor& dgate_up,
                           const Tensor& dx_NC) const {
  if (rows.count > 0) multiply(run, dx_NC, dgate_up, p_.in, as_is, rows);
}

void ExpertMlp::add_in_gradients(const Run& run, const Tensor& dgate_up, const Tensor& x_NC,
                                 const ExpertRows& rows, std::int64_t leaves,
                                 std::size_t round) const {
  add_gradients(run, p_.in, dgate_up, x_NC, rows, leaves, round);
  add_bias_gradients(run, p_.in_bias, dgate_up, {}, rows, leaves, round);
}

void ExpertMlp::add_out_gradients(const Run& run, const Tensor& dy_NC, const Tensor& h,
                                  const ExpertRows& rows, std::int64_t leaves,
                                  std::size_t round) const {
  add_gradients(run, p_.out, dy_NC, h, rows, leaves, round);
  add_bias_gradients(run, p_.out_bias, dy_NC, weights_of(rows), rows, leaves, round);
}

}  // namespace trireme::ops
