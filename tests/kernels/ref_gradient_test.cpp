// Every gradient kernel of the reference against central differences of its forward kernel: f is
// the sum of outputs times fixed random numbers, which backward gets as the outputs' gradient.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "kernels/ref/kernels.hpp"
#include "tests/support/gradient_check.hpp"
#include "tests/support/values.hpp"

namespace trireme {
namespace {

constexpr auto overwrite = Accumulate::overwrite;

// A dense f64 array with its view.
struct Array {
  std::vector<double> values;
  Shape shape;

  explicit Array(const Shape& s) : values(static_cast<std::size_t>(s.count())), shape(s) {}
  Array(const Shape& s, std::uint64_t seed, double amplitude = 1)
      : values(random_values(s.count(), seed, amplitude)), shape(s) {}

  View view() { return {reinterpret_cast<std::byte*>(values.data()), DType::f64, shape}; }
};

double inner(const Array& a, const Array& b) {
  return std::inner_product(a.values.begin(), a.values.end(), b.values.begin(), 0.0);
}

struct Ids {
  std::vector<std::int32_t> values;
  ConstView view() {
    return {reinterpret_cast<const std::byte*>(values.data()),
            DType::i32,
            {static_cast<std::int64_t>(values.size())}};
  }
};

TEST(RefGradient, Matmul) {
  Array a({3, 4}, 1), b({4, 5}, 2), bias({5}, 3), c({3, 5}), dc({3, 5}, 4);
  Array da({3, 4}), db({4, 5}), dbias({5});
  const auto f = [&] {
    ref::run(kernel::Matmul{
        .c_MN = c.view(), .a_MK = a.view(), .b_KN = b.view(), .epilogue = {bias.view(), {}}});
    return inner(c, dc);
  };
  ref::run(kernel::Matmul{.c_MN = da.view(), .a_MK = dc.view(), .b_KN = b.view().transposed()});
  ref::run(kernel::Matmul{.c_MN = db.view(), .a_MK = a.view().transposed(), .b_KN = dc.view()});
  ref::run(kernel::ColumnSum{.out_C = dbias.view(), .x_TC = dc.view()});
  expect_gradient(f, a.values, da.values);
  expect_gradient(f, b.values, db.values);
  expect_gradient(f, bias.values, dbias.values);
}

// Of queries, keys, values and sinks.
static void attention(std::int64_t window, double softcap) {
  const AttentionShape s{2, 5, 6, 2, 3, 0.7, window, 0, 0, 0, false, softcap};
  const Shape heads{2, 5, 6, 3}, kv_heads{2, 5, 2, 3};
  Array q(heads, 1, 2), k(kv_heads, 2, 2), v(kv_heads, 3), o(heads), d_o(heads, 4), lse({2, 6, 5});
  Array dq(heads), dk(kv_heads), dv(kv_heads), work({100});
  Array sink({6}, 5, 2), dsink({6});
  const auto f = [&] {
    ref::run(kernel::Attention{.o_BTHD = o.view(),
                               .lse_BHT = lse.view(),
                               .q_BTHD = q.view(),
                               .k_BTGD = k.view(),
                               .v_BTGD = v.view(),
                               .shape = s,
                               .workspace = work.view(),
                               .sink_H = sink.view()});
    return inner(o, d_o);
  };
  ASSERT_LE(ref::attention_bytes(s, Direction::backward).workspace, 100 * sizeof(double));
  f();
  ref::run(kernel::AttentionGrad{.dq_BTHD = dq.view(),
                                 .dk_BTGD = dk.view(),
                                 .dv_BTGD = dv.view(),
                                 .do_BTHD = d_o.view(),
                                 .o_BTHD = o.view(),
                                 .lse_BHT = lse.view(),
                                 .q_BTHD = q.view(),
                                 .k_BTGD = k.view(),
                                 .v_BTGD = v.view(),
                                 .shape = s,
                                 .workspace = work.view()});
  ref::run(kernel::SinkGrad{.dsink_H = dsink.view(),
                            .do_BTHD = d_o.view(),
                            .o_BTHD = o.view(),
                            .lse_BHT = lse.view(),
                            .sink_H = sink.view()});
  expect_gradient(f, sink.values, dsink.values);
  f();
  expect_gradient(f, q.values, dq.values);
  expect_gradient(f, k.values, dk.values);
  expect_gradient(f, v.values, dv.values);
}

TEST(RefGradient, Attention) {
  for (const std::int64_t window : {0, 2})
    for (const double softcap : {0.0, 0.4}) attention(window, softcap);
}

TEST(RefGradient, LayerNorm) {
  Array x({3, 7}, 1), w({7}, 2), b({7}, 3), y({3, 7}), dy({3, 7}, 4), mean({3}), rstd({3});
  Array dx({3, 7}), dw({7}), db({7});
  const auto f = [&] {
    ref::run(kernel::Norm{.y_TC = y.view(),
                          .mean_T = mean.view(),
                          .rstd_T = rstd.view(),
                          .x_TC = x.view(),
                          .w_C = w.view(),
                          .b_C = b.view(),
                          .eps = 0.1});
    return inner(y, dy);
  };
  f();
  ref::run(kernel::NormGrad{.dx_TC = dx.view(),
                            .dw_C = dw.view(),
                            .db_C = db.view(),
                            .dy_TC = dy.view(),
                            .x_TC = x.view(),
                            .w_C = w.view(),
                            .mean_T = mean.view(),
                            .rstd_T = rstd.view()});
  expect_gradient(f, x.values, dx.values);
  expect_gradient(f, w.values, dw.values);
  expect_gradient(f, b.values, db.values);
}

TEST(RefGradient, RmsNorm) {
  Array x({3, 7}, 1), w({7}, 2), y({3, 7}), dy({3, 7}, 3), rstd({3}), dx({3, 7}), dw({7});
  const auto f = [&] {
    ref::run(kernel::Norm{
        .y_TC = y.view(), .rstd_T = rstd.view(), .x_TC = x.view(), .w_C = w.view(), .eps = 0.1});
    return inner(y, dy);
  };
  f();
  ref::run(kernel::NormGrad{.dx_TC = dx.view(),
                            .dw_C = dw.view(),
                            .dy_TC = dy.view(),
                            .x_TC = x.view(),
                            .w_C = w.view(),
                            .rstd_T = rstd.view()});
  expect_gradient(f, x.values, dx.values);
  expect_gradient(f, w.values, dw.values);
}

TEST(RefGradient, Rotary) {
  const Shape s{2, 3, 2, 4};
  Array x(s, 1), table({3, 2, 2}), turned(s), dy(s, 2), dx = dy;
  for (std::size_t t = 0; t < 3; ++t)
    for (std::size_t e = 0; e < 2; ++e) {
      table.values[t * 4 + e] = std::cos(0.3 * static_cast<double>(t * (e + 1)));
      table.values[t * 4 + 2 + e] = std::sin(0.3 * static_cast<double>(t * (e + 1)));
    }
  const auto f = [&] {
    turned = x;
    ref::run(kernel::Rotary{.x_BTHD = turned.view(), .table_T2E = table.view()});
    return inner(turned, dy);
  };
  ref::run(kernel::Rotary{
      .x_BTHD = dx.view(), .table_T2E = table.view(), .direction = Direction::backward});
  expect_gradient(f, x.values, dx.values);
}

TEST(RefGradient, Gelu) {
  Array x({40}, 1, 4), y({40}), dy({40}, 2), dx({40});
  const auto f = [&] {
    ref::run(kernel::Activate{.activation = Activation::gelu, .y_N = y.view(), .x_N = x.view()});
    return inner(y, dy);
  };
  ref::run(kernel::ActivateGrad{
      .activation = Activation::gelu, .dx_N = dx.view(), .dy_N = dy.view(), .x_N = x.view()});
  expect_gradient(f, x.values, dx.values);
}

TEST(RefGradient, Swiglu) {
  Array x({3, 2, 5}, 1, 4), y({3, 5}), dy({3, 5}, 2), dx({3, 2, 5});
  const auto f = [&] {
    ref::run(kernel::Swiglu{.y_TF = y.view(), .gate_up_T2F = x.view()});
    return inner(y, dy);
  };
  ref::run(
      kernel::SwigluGrad{.dgate_up_T2F = dx.view(), .dy_TF = dy.view(), .gate_up_T2F = x.view()});
  expect_gradient(f, x.values, dx.values);
}

TEST(RefGradient, Geglu) {
  Array x({3, 2, 5}, 1, 4), y({3, 5}), dy({3, 5}, 2), dx({3, 2, 5});
  constexpr auto gate = GateFunction::gelu;
  const auto f = [&] {
    ref::run(kernel::Swiglu{.y_TF = y.view(), .gate_up_T2F = x.view(), .gate = gate});
    return inner(y, dy);
  };
  ref::run(kernel::SwigluGrad{
      .dgate_up_T2F = dx.view(), .dy_TF = dy.view(), .gate_up_T2F = x.view(), .gate = gate});
  expect_gradient(f, x.values, dx.values);
}

// Some inputs are beyond the limits of 7, and none are near them.
TEST(RefGradient, ClampedSwiglu) {
  Array x({3, 2, 5}, 1, 9), w({3}, 2), y({3, 5}), dy({3, 5}, 3), dx({3, 2, 5}), dw({3});
  constexpr auto gate = GateFunction::clamped_silu;
  const auto f = [&] {
    ref::run(kernel::Swiglu{
        .y_TF = y.view(), .gate_up_T2F = x.view(), .weight_T = w.view(), .gate = gate});
    return inner(y, dy);
  };
  ref::run(kernel::SwigluGrad{.dgate_up_T2F = dx.view(),
                              .dweight_T = dw.view(),
                              .dy_TF = dy.view(),
                              .gate_up_T2F = x.view(),
                              .weight_T = w.view(),
                              .gate = gate});
  expect_gradient(f, x.values, dx.values);
  expect_gradient(f, w.values, dw.values);
}

TEST(RefGradient, GroupedBias) {
  constexpr std::int64_t R = 7, N = 5;
  Array before({R, N}, 1), y({R, N}), w({R}, 2), dy({R, N}, 3), dw({R});
  Array bias[] = {Array({N}, 4), Array({N}, 5), Array({N}, 6)},
        dbias[] = {Array({N}), Array({N}), Array({N})};
  Ids offset{{0, 4, 4, 7}};
  const auto f = [&] {
    y.values = before.values;
    ref::run(kernel::GroupedBias{.y_RN = y.view(),
                                 .offset_E1 = offset.view(),
                                 .bias_N = {bias[0].view(), bias[1].view(), bias[2].view()},
                                 .weight_R = w.view()});
    return inner(y, dy);
  };
  dw.values.assign(R, 0);  // is added to
  ref::run(kernel::GroupedBiasGrad{.dbias_N = {dbias[0].view(), dbias[1].view(), dbias[2].view()},
                                   .dweight_R = dw.view(),
                                   .dy_RN = dy.view(),
                                   .offset_E1 = offset.view(),
                                   .bias_N = {bias[0].view(), bias[1].view(), bias[2].view()},
                                   .weight_R = w.view()});
  expect_gradient(f, w.values, dw.values);
  for (const int e : {0, 2}) expect_gradient(f, bias[e].values, dbias[e].values);
  for (const double d : dbias[1].values) EXPECT_EQ(d, 0);  // has no rows
}

TEST(RefGradient, WeightedSwiglu) {
  Array x({3, 2, 5}, 1, 4), w({3}, 2), y({3, 5}), dy({3, 5}, 3), dx({3, 2, 5}), dw({3});
  const auto f = [&] {
    ref::run(kernel::Swiglu{.y_TF = y.view(), .gate_up_T2F = x.view(), .weight_T = w.view()});
    return inner(y, dy);
  };
  ref::run(kernel::SwigluGrad{.dgate_up_T2F = dx.view(),
                              .dweight_T = dw.view(),
                              .dy_TF = dy.view(),
                              .gate_up_T2F = x.view(),
                              .weight_T = w.view()});
  expect_gradient(f, x.values, dx.values);
  expect_gradient(f, w.values, dw.values);
}

// Of weights, normalized or not, and of both losses, each by itself and all at once. Choices are
// constants: logits are further apart than the differences go.
TEST(RefGradient, Router) {
  constexpr std::int64_t B = 2, T = 6, K = 3, E = 7;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(B * E));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = static_cast<std::int64_t>(5 * i % 8);
  const ConstView count_BE(reinterpret_cast<const std::byte*>(counts.data()), DType::i64, {B, E});
  Ids counted_as{{0, 1, -1, 3, 0, 3}};
  struct Terms {
    double weights, balance, z;
    bool padding = false;
  };
  for (const auto scores : {RouterScores::softmax, RouterScores::sigmoid})
    for (const bool normalize : {false, true})
      for (const Terms t :
           {Terms{1, 0, 0}, {0, 0.3, 0}, {0, 0, 0.2}, {1, 0.3, 0.2}, {1, 0.3, 0.2, true}}) {
        SCOPED_TRACE(testing::Message()
                     << "sigmoid " << (scores == RouterScores::sigmoid) << " normalize "
                     << normalize << " weights " << t.weights << " balance " << t.balance << " z "
                     << t.z << " padding " << t.padding);
        Array z({T, E}, 1, 3), bias({E}, 2), weight({T, K}), dweight({T, K}, 3), dz({T, E});
        Ids choice{std::vector<std::int32_t>(T * K)};
        const View choice_TK(reinterpret_cast<std::byte*>(choice.values.data()), DType::i32,
                             {T, K});
        const ConstView counted = t.balance != 0 ? count_BE : ConstView{};
        const ConstView counted_T = t.padding ? counted_as.view() : ConstView{};
        const auto f = [&] {
          ref::run(kernel::Route{.weight_TK = weight.view(),
                                 .choice_TK = choice_TK,
                                 .logits_TE = z.view(),
                                 .bias_E = bias.view(),
                                 .counted_T = counted_T,
                                 .scores = scores,
                                 .normalize = normalize});
          Array losses({2});
          ref::run(kernel::RouterLosses{.sums = losses.view(),
                                        .logits_TE = z.view(),
                                        .count_BE = counted,
                                        .counted_T = counted_T,
                                        .scores = scores});
          return t.weights * inner(weight, dweight) + t.balance * losses.values[0] +
                 t.z * losses.values[1];
        };
        f();
        ref::run(kernel::RouteGrad{
            .dlogits_TE = dz.view(),
            .dweight_TK = t.weights != 0 ? ConstView(dweight.view()) : ConstView{},
            .choice_TK = choice_TK,
            .logits_TE = z.view(),
            .count_BE = counted,
            .counted_T = counted_T,
            .scores = scores,
            .normalize = normalize,
            .balance_scale = t.balance,
            .z_scale = t.z});
        expect_gradient(f, z.values, dz.values);
      }
}

// Of rows by expert, one of which has none.
TEST(RefGradient, GroupedMatmul) {
  Ids offset{{0, 2, 2, 5}};
  Array a({5, 4}, 1), c({5, 6}), dc({5, 6}, 2), da({5, 4}), db0({4, 6}), db1({4, 6}), db2({4, 6});
  Array b0({4, 6}, 3), b1({4, 6}, 4), b2({4, 6}, 5);
  const auto f = [&] {
    ref::run(kernel::GroupedMatmul{.c_RN = c.view(),
                                   .a_RK = a.view(),
                                   .offset_E1 = offset.view(),
                                   .b_KN = {b0.view(), b1.view(), b2.view()}});
    return inner(c, dc);
  };
  ref::run(kernel::GroupedMatmul{
      .c_RN = da.view(),
      .a_RK = dc.view(),
      .offset_E1 = offset.view(),
      .b_KN = {b0.view().transposed(), b1.view().transposed(), b2.view().transposed()}});
  ref::run(kernel::GroupedMatmulGrad{.c_MN = {db0.view(), db1.view(), db2.view()},
                                     .a_RM = a.view(),
                                     .b_RN = dc.view(),
                                     .offset_E1 = offset.view()});
  expect_gradient(f, a.values, da.values);
  expect_gradient(f, b0.values, db0.values);
  EXPECT_EQ(db1.values, std::vector<double>(24, 0.0));
  expect_gradient(f, b2.values, db2.values);
}

TEST(RefGradient, SumRows) {
  Ids place{{3, 0, 2, 5, 1, 4}};
  Array x({6, 3}, 1), skip({2, 3}, 2), y({2, 3}), dy({2, 3}, 3), dx({6, 3});
  const auto f = [&] {
    ref::run(kernel::SumRows{.y_TC = y.view(),
                             .x_RC = x.view(),
                             .row_TK = place.view().reshaped({2, 3}),
                             .skip_TC = skip.view()});
    return inner(y, dy);
  };
  // Row r is of token_R[r].
  Ids token{{0, 1, 0, 0, 1, 1}};
  ref::run(kernel::Embedding{.y_TC = dx.view(), .ids_T = token.view(), .table_VC = dy.view()});
  expect_gradient(f, x.values, dx.values);
  expect_gradient(f, skip.values, dy.values);
}

TEST(RefGradient, Dropout) {
  const Shape s{2, 3, 7};
  Array x(s, 1), skip(s, 2), y(s), dy(s, 3), dx(s);
  const std::vector<std::int64_t> samples{3, 9};
  const SampleRows rows{{reinterpret_cast<const std::byte*>(samples.data()), DType::i64, {2}}, 4};
  const DropoutKey key{5, 0.5F};
  const auto f = [&] {
    ref::run(kernel::Dropout{
        .y_BTC = y.view(), .x_BTC = x.view(), .skip_BTC = skip.view(), .key = key, .rows = rows});
    return inner(y, dy);
  };
  ref::run(kernel::Dropout{.y_BTC = dx.view(), .x_BTC = dy.view(), .key = key, .rows = rows});
  expect_gradient(f, x.values, dx.values);
  expect_gradient(f, skip.values, dy.values);
}

TEST(RefGradient, Embedding) {
  Ids ids{{4, 0, 4, 2}};
  Array table({5, 3}, 1), y({4, 3}), dy({4, 3}, 2), dtable({5, 3});
  const auto f = [&] {
    ref::run(kernel::Embedding{.y_TC = y.view(), .ids_T = ids.view(), .table_VC = table.view()});
    return inner(y, dy);
  };
  ref::run(
      kernel::EmbeddingGrad{.dtable_VC = dtable.view(), .dy_TC = dy.view(), .ids_T = ids.view()});
  expect_gradient(f, table.values, dtable.values);
}

TEST(RefGradient, CrossEntropy) {
  Ids target{{6, -1, 0}};
  Array z({3, 7}, 1, 3), loss({1});
  const double scale = 0.3;
  for (const double softcap : {0.0, 2.0}) {
    const auto f = [&] {
      ref::run(kernel::CrossEntropy{.loss = loss.view(),
                                    .logits_TV = z.view(),
                                    .target_T = target.view(),
                                    .scale = scale,
                                    .softcap = softcap});
      return scale * loss.values[0];
    };
    Array dz = z;
    ref::run(kernel::CrossEntropy{.loss = loss.view(),
                                  .logits_TV = dz.view(),
                                  .target_T = target.view(),
                                  .scale = scale,
                                  .logits = Logits::become_gradient,
                                  .softcap = softcap});
    expect_gradient(f, z.values, dz.values);
  }
}

}  // namespace
}  // namespace trireme
