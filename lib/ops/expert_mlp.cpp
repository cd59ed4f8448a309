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

View first_rows(const View& v, std::int64_t n) {
  return v.slice(0, 0, n);
}
View first_rows(const Tensor& t, std::int64_t n) {
  return first_rows(t.view(), n);
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

// Multiplies rows.count rows. `b_KN` has a matrix for each expert.
void multiply(const Run& run, const View& c_NM, const ConstView& a_NK, std::vector<ConstView> b_KN,
              const ExpertRows& rows) {
  run.backend.put(Queue::compute, kernel::GroupedMatmul{.c_RN = c_NM,
                                                        .a_RK = a_NK,
                                                        .offset_E1 = rows.offset_E1.view(),
                                                        .b_KN = std::move(b_KN),
                                                        .order = sum_order_of_rows(run),
                                                        .known_offset = rows.known_offset});
}

void multiply(const Run& run, const Tensor& c_NM, const Tensor& a_NK,
              std::span<const ParamId> params, ConstView (*view_of)(const ConstView&),
              const ExpertRows& rows) {
  multiply(run, first_rows(c_NM, rows.count), first_rows(a_NK, rows.count),
           weights_of(run, params, view_of, rows), rows);
}

// Allocates a temporary matrix with a row for each row, in the type of the adapter.
Tensor room(const Run& run, const ExpertLowRank& low, const ExpertRows& rows,
            std::int64_t columns) {
  return Tensor::empty(run.backend, {rows.most, columns}, run.weights[low.a[0]].dtype,
                       MemoryKind::transient);
}

// Allocates t or u, with the R columns of each product.
Tensor room_for_inner(const Run& run, const ExpertLowRank& low, const ExpertRows& rows) {
  return room(run, low, rows, low.rank * std::ssize(low.products));
}

// Returns the columns of t or u that belong to product i.
View of_product(const View& t_NR, const ExpertLowRank& low, std::size_t i) {
  return t_NR.slice(1, static_cast<std::int64_t>(i) * low.rank, low.rank);
}

// Returns the rows of b that belong to a product, for each expert.
std::vector<ConstView> b_of(const Run& run, const ExpertLowRank& low, const LowRank::Product& p,
                            ConstView (*view_of)(const ConstView&), const ExpertRows& rows) {
  auto all = weights_of(run, low.b, as_is, rows);
  for (auto& b : all) b = view_of(b.slice(0, p.row, p.channels));
  return all;
}

void scale(const Run& run, const View& t_NR, double factor) {
  if (factor != 1) run.backend.put(Queue::compute, kernel::Scale{.x_N = t_NR, .factor = factor});
}

// Adds the rows of `change` to y.
void add_rows(const Run& run, const View& y_NM, const View& change) {
  run.backend.put(Queue::compute, kernel::Copy{.dst = y_NM, .src = change, .how = Accumulate::add});
}

// Returns t_N(PR) = s x_NK a_(PR)K'.
Tensor inner(const Run& run, const ExpertLowRank& low, const Tensor& x_NK, const ExpertRows& rows) {
  const Tensor t = room_for_inner(run, low, rows);
  if (rows.count == 0) return t;
  multiply(run, t, x_NK, low.a, turned, rows);
  scale(run, first_rows(t, rows.count), low.scale);
  return t;
}

// Returns u_N(PR) = s dy_Nn b_nR.
Tensor inner_gradient(const Run& run, const ExpertLowRank& low, const Tensor& dy_NM,
                      const ExpertRows& rows) {
  const Tensor u = room_for_inner(run, low, rows);
  if (rows.count == 0) return u;
  const View dy = first_rows(dy_NM, rows.count), u_NR = first_rows(u, rows.count);
  for (std::size_t i = 0; i < low.products.size(); ++i) {
    const auto& p = low.products[i];
    multiply(run, of_product(u_NR, low, i), dy.slice(1, p.channel, p.channels),
             b_of(run, low, p, as_is, rows), rows);
  }
  scale(run, u_NR, low.scale);
  return u;
}

// Returns true if this pass computes the adapters.
bool adapts(const Run& run, const ExpertLowRank& low) {
  return !low.a.empty() && run.pass.adapters;
}

// Adds the adapters' products of x to y.
void add_adapters(const Run& run, const ExpertLowRank& low, const Tensor& y_NM, const Tensor& x_NK,
                  const ExpertRows& rows) {
  if (!adapts(run, low)) return;
  const Tensor t = inner(run, low, x_NK, rows);
  for (std::size_t i = 0; i < low.products.size(); ++i) {
    const auto& p = low.products[i];
    const Tensor change = room(run, low, rows, p.channels);
    if (rows.count == 0) continue;
    const View rows_of_change = first_rows(change, rows.count);
    multiply(run, rows_of_change, of_product(first_rows(t, rows.count), low, i),
             b_of(run, low, p, turned, rows), rows);
    add_rows(run, first_rows(y_NM, rows.count).slice(1, p.channel, p.channels), rows_of_change);
  }
}

// Adds the gradient of x that passes through the adapters to dx.
void add_adapters_gradient(const Run& run, const ExpertLowRank& low, const Tensor& dx_NK,
                           const Tensor& dy_NM, const ExpertRows& rows) {
  if (!adapts(run, low)) return;
  const Tensor u = inner_gradient(run, low, dy_NM, rows);
  const Tensor change = room(run, low, rows, run.weights[low.a[0]].extent[1]);
  if (rows.count == 0) return;
  multiply(run, change, u, low.a, as_is, rows);
  add_rows(run, first_rows(dx_NK, rows.count), first_rows(change, rows.count));
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

// Adds the products dy' x of all experts to gradients.
void multiply_gradients(const Run& run, std::vector<View> dst, std::span<const View> largest,
                        Accumulate how, const ConstView& dy_NM, const ConstView& x_NK,
                        const ExpertRows& rows) {
  kernel::GroupedMatmulGrad o{.c_MN = std::move(dst),
                              .how = how,
                              .a_RM = dy_NM,
                              .b_RN = x_NK,
                              .offset_E1 = rows.offset_E1.view(),
                              .known_offset = rows.known_offset};
  if (run.pass.exact_chunk > 0) {
    o.token_R = first_rows(rows.token_N, rows.count);
    o.leaf = run.pass.exact_chunk;
    o.largest = {largest.begin(), largest.end()};
  }
  run.backend.put(Queue::compute, o);
}

// Adds the weight gradients dy' x.
void add_gradients(const Run& run, std::span<const ParamId> params, const Tensor& dy_NM,
                   const Tensor& x_NK, const ExpertRows& rows, std::int64_t leaves,
                   std::size_t round) {
  if (nothing_to_add(run, params, rows, round)) return;
  run.gradients->add_whole(
      params, round > 0 ? 0 : leaves,
      [&](std::span<const View> dst, std::span<const View> largest, Accumulate how) {
        multiply_gradients(run, {dst.begin(), dst.end()}, largest, how,
                           first_rows(dy_NM, rows.count), first_rows(x_NK, rows.count), rows);
      });
}

// Adds the gradients of adapters, da = u' x and db = dy' t.
void add_adapter_gradients(const Run& run, const ExpertLowRank& low, const Tensor& dy_NM,
                           const Tensor& x_NK, const Tensor& t, const Tensor& u,
                           const ExpertRows& rows, std::int64_t leaves, std::size_t round) {
  add_gradients(run, low.a, u, x_NK, rows, leaves, round);
  if (nothing_to_add(run, low.b, rows, round)) return;
  const View dy = first_rows(dy_NM, rows.count);
  run.gradients->add_whole(
      low.b, round > 0 ? 0 : leaves,
      [&](std::span<const View> dst, std::span<const View> largest, Accumulate how) {
        for (std::size_t i = 0; i < low.products.size(); ++i) {
          const auto& p = low.products[i];
          std::vector<View> own;
          for (const auto& b : dst) own.push_back(b ? b.slice(0, p.row, p.channels) : View{});
          multiply_gradients(run, std::move(own), largest, how, dy.slice(1, p.channel, p.channels),
                             of_product(first_rows(t, rows.count), low, i), rows);
        }
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

ExpertLowRank ExpertLowRank::of(std::int64_t first, std::int64_t count) const {
  if (a.empty()) return {};
  const auto some = [&](const std::vector<ParamId>& all) {
    return std::vector(all.begin() + first, all.begin() + first + count);
  };
  return {some(a), some(b), rank, scale, products};
}

static bool wants(const Run& run, const ExpertLowRank& low) {
  return wants_any(run, low.a) || wants_any(run, low.b);
}

bool ExpertMlp::wants_in(const Run& run) const {
  return wants_any(run, p_.in) || wants_any(run, p_.in_bias) || wants(run, p_.in_adapter);
}

bool ExpertMlp::wants_out(const Run& run) const {
  return wants_any(run, p_.out) || wants_any(run, p_.out_bias) || wants(run, p_.out_adapter);
}

ExpertMlp::Hidden ExpertMlp::room_for_hidden(const Run& run, std::int64_t rows,
                                             MemoryKind kind) const {
  const auto type = run.weights[p_.in[0]].dtype;
  return {Tensor::empty(run.backend, {rows, 2 * p_.width}, type, kind),
          Tensor::empty(run.backend, {rows, p_.width}, type, kind)};
}

void ExpertMlp::hidden(const Run& run, const ExpertRows& rows, const Hidden& made) const {
  const auto n = rows.count;
  if (n > 0) multiply(run, made.gate_up, rows.x_NC, p_.in, turned, rows);
  add_adapters(run, p_.in_adapter, made.gate_up, rows.x_NC, rows);
  if (n == 0) return;
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
  if (rows.count > 0) multiply(run, y_NC, h, p_.out, turned, rows);
  add_adapters(run, p_.out_adapter, y_NC, h, rows);
  if (rows.count > 0) add_bias(run, y_NC, p_.out_bias, weights_of(rows), rows);
}

void ExpertMlp::row_gradients(const Run& run, const ExpertRows& rows, const Tensor& gate_up,
                              const Tensor& dy_NC, const RowGradients& g) const {
  const auto n = rows.count;
  const Tensor dh = Tensor::empty(run.backend, {g.weight_N1.shape()[0], p_.width},
                                  run.weights[p_.out[0]].dtype, MemoryKind::transient);
  if (n > 0) multiply(run, dh, dy_NC, p_.out, as_is, rows);
  add_adapters_gradient(run, p_.out_adapter, dh, dy_NC, rows);
  if (n == 0) return;
  const View dweight_N = first_rows(g.weight_N1, n).reshaped({n});
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
  add_adapters_gradient(run, p_.in_adapter, dx_NC, dgate_up, rows);
}

bool ExpertMlp::adapts(const Run& run) const {
  return adapts_in(run) || wants(run, p_.out_adapter);
}

bool ExpertMlp::adapts_in(const Run& run) const {
  return wants(run, p_.in_adapter);
}

ExpertMlp::InnerRows ExpertMlp::inner_rows(const Run& run, const ExpertRows& rows, const Tensor& h,
                                           const Tensor& dgate_up, const Tensor& dy_NC) const {
  InnerRows all;
  const auto &in = p_.in_adapter, &out = p_.out_adapter;
  if (wants(run, in)) {
    all.in_t = inner(run, in, rows.x_NC, rows);
    all.in_u = inner_gradient(run, in, dgate_up, rows);
  }
  if (wants(run, out)) {
    all.out_t = inner(run, out, h, rows);
    all.out_u = inner_gradient(run, out, dy_NC, rows);
  }
  return all;
}

void ExpertMlp::add_in_gradients(const Run& run, const Tensor& dgate_up, const Tensor& x_NC,
                                 const InnerRows& inner, const ExpertRows& rows,
                                 std::int64_t leaves, std::size_t round) const {
  add_gradients(run, p_.in, dgate_up, x_NC, rows, leaves, round);
  add_adapter_gradients(run, p_.in_adapter, dgate_up, x_NC, inner.in_t, inner.in_u, rows, leaves,
                        round);
  add_bias_gradients(run, p_.in_bias, dgate_up, {}, rows, leaves, round);
}

void ExpertMlp::add_out_gradients(const Run& run, const Tensor& dy_NC, const Tensor& h,
                                  const InnerRows& inner, const ExpertRows& rows,
                                  std::int64_t leaves, std::size_t round) const {
  add_gradients(run, p_.out, dy_NC, h, rows, leaves, round);
  add_adapter_gradients(run, p_.out_adapter, dy_NC, h, inner.out_t, inner.out_u, rows, leaves,
                        round);
  add_bias_gradients(run, p_.out_bias, dy_NC, weights_of(rows), rows, leaves, round);
}

}  // namespace trireme::ops
