// The reference kernels against values worked out by hand.
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/ref/kernels.hpp"
#include "tests/kernels/by_hand.hpp"

namespace trireme {
namespace {

constexpr auto overwrite = Accumulate::overwrite, add = Accumulate::add;

TEST(RefCopy, PermutesCastsAndAdds) {
  std::vector<float> src{1, 2, 3, 4, 5, 6};
  std::vector<double> dst{10, 10, 10, 10, 10, 10};
  const auto src_32 = view(src, {2, 3}).transposed();
  ref::run(kernel::Copy{.dst = view(dst, {3, 2}), .src = src_32, .how = add});
  expect_values(dst, {11, 14, 12, 15, 13, 16}, 0);
  auto halves = bf16s({0, 0, 0, 0, 0, 0});
  ref::run(kernel::Copy{.dst = view(halves, {3, 2}), .src = src_32});
  expect_values(halves, {1, 4, 2, 5, 3, 6}, 0);
}

TEST(RefCopy, RoundsToNearestEven) {
  // bf16 has 8 bits: between 256 and 512 only even numbers.
  std::vector<float> src{257, 259, 258.5F};
  auto dst = bf16s({0, 0, 0});
  ref::run(kernel::Copy{.dst = view(dst, {3}), .src = view(src, {3})});
  expect_values(dst, {256, 260, 258}, 0);
}

TEST(RefCopy, MovesNumbersBitForBit) {
  std::vector<std::int64_t> src{(1LL << 61) + 1, -7}, dst(2);
  ref::run(kernel::Copy{.dst = view(dst, {2}), .src = view(src, {2})});
  EXPECT_EQ(dst, src);
  ref::run(kernel::Copy{.dst = view(dst, {2}), .src = view(src, {2}), .how = add});
  EXPECT_EQ(dst[1], -14);
}

TEST(RefCopy, RepeatsRowsOfStrideZero) {
  std::vector<double> src{1, 2}, dst(6);
  ConstView rows = view(src, {2});
  rows.dims = 2;
  rows.extent = {3, 2};
  rows.stride = {0, 1};
  ref::run(kernel::Copy{.dst = view(dst, {3, 2}), .src = rows});
  expect_values(dst, {1, 2, 1, 2, 1, 2}, 0);
}

TEST(RefCopy, FillsEveryType) {
  std::vector<std::int32_t> ids(3);
  ref::run(kernel::Fill{.dst = view(ids, {3}), .value = -1});
  EXPECT_EQ(ids, (std::vector<std::int32_t>{-1, -1, -1}));
  std::vector<float> x(4);
  ref::run(kernel::Fill{.dst = view(x, {2, 2}).slice(1, 1, 1), .value = 2.5});
  expect_values(x, {0, 2.5, 0, 2.5}, 0);
}

TEST(RefMatmul, TakesTransposesBiasAndSums) {
  std::vector<double> a{1, 2, 3, 4}, b{5, 6, 7, 8}, c(4), bias{100, 200};
  const auto A = view(a, {2, 2}), B = view(b, {2, 2}), C = view(c, {2, 2});
  ref::run(kernel::Matmul{.c_MN = C, .a_MK = A, .b_KN = B});
  expect_values(c, {19, 22, 43, 50}, 0);
  ref::run(kernel::Matmul{.c_MN = C, .a_MK = A, .b_KN = B, .how = add});
  expect_values(c, {38, 44, 86, 100}, 0);
  ref::run(kernel::Matmul{.c_MN = C, .a_MK = A.transposed(), .b_KN = B});
  expect_values(c, {26, 30, 38, 44}, 0);
  ref::run(kernel::Matmul{.c_MN = C.transposed(),
                          .a_MK = A,
                          .b_KN = B.transposed(),
                          .epilogue = {.bias_N = view(bias, {2})}});
  expect_values(c, {117, 139, 223, 253}, 0);  // c' = a b' + bias
}

TEST(RefMatmul, WidensWeightGradients) {
  auto a = bf16s({257, 1}), b = bf16s({1, 1});  // 257 becomes 256
  std::vector<float> wide(1);
  ref::run(
      kernel::Matmul{.c_MN = view(wide, {1, 1}), .a_MK = view(a, {1, 2}), .b_KN = view(b, {2, 1})});
  expect_values(wide, {257}, 0);
  auto narrow = bf16s({0});
  ref::run(kernel::Matmul{
      .c_MN = view(narrow, {1, 1}), .a_MK = view(a, {1, 2}), .b_KN = view(b, {2, 1})});
  expect_values(narrow, {256}, 0);
}

TEST(RefMatmul, AppliesGeluToTheStoredResult) {
  std::vector<double> a{1, -2}, b{1}, c(2), y(2);
  ref::run(kernel::Matmul{.c_MN = view(c, {2, 1}),
                          .a_MK = view(a, {2, 1}),
                          .b_KN = view(b, {1, 1}),
                          .epilogue = {.activated_MN = view(y, {2, 1})}});
  expect_values(c, {1, -2}, 0);
  expect_values(y, {0.8411919906082768, -0.04540230591222494}, tiny);
}

TEST(RefAttention, IsCausalSoftmax) {
  // t = 1: scores 0 and ln 3, so weights 1/4 and 3/4.
  std::vector<double> q{5, 2}, k{0, std::log(3.0)}, v{4, 8}, o(2), lse(2), work(64);
  const AttentionShape s{1, 2, 1, 1, 1, 0.5};
  const Shape shape{1, 2, 1, 1};
  ref::run(kernel::Attention{.o_BTHD = view(o, shape),
                             .lse_BHT = view(lse, {1, 1, 2}),
                             .q_BTHD = view(q, shape),
                             .k_BTGD = view(k, shape),
                             .v_BTGD = view(v, shape),
                             .shape = s,
                             .workspace = view(work, {64})});
  expect_values(o, {4, 7}, tiny);
  expect_values(lse, {0, std::log(4.0)}, tiny);
}

TEST(RefAttention, MapsQueryHeadsToKeyHeads) {
  std::vector<float> q(6), k(2), v{10, 20}, o(6), lse(6);
  std::vector<double> work(64);
  const AttentionShape s{1, 1, 6, 2, 1, 1};
  ref::run(kernel::Attention{.o_BTHD = view(o, {1, 1, 6, 1}),
                             .lse_BHT = view(lse, {1, 6, 1}),
                             .q_BTHD = view(q, {1, 1, 6, 1}),
                             .k_BTGD = view(k, {1, 1, 2, 1}),
                             .v_BTGD = view(v, {1, 1, 2, 1}),
                             .shape = s,
                             .workspace = view(work, {64})});
  expect_values(o, {10, 10, 10, 20, 20, 20}, 0);
}

TEST(RefNorm, LayerNormOfTwoRows) {
  std::vector<double> x{1, 3, 2, 2}, w{2, 1}, b{0.5, -1}, y(4), mean(2), rstd(2);
  ref::run(kernel::Norm{.y_TC = view(y, {2, 2}),
                        .mean_T = view(mean, {2}),
                        .rstd_T = view(rstd, {2}),
                        .x_TC = view(x, {2, 2}),
                        .w_C = view(w, {2}),
                        .b_C = view(b, {2}),
                        .eps = 3});
  expect_values(y, {-0.5, -0.5, 0.5, -1}, tiny);  // variances 1 and 0
  expect_values(mean, {2, 2}, tiny);
  expect_values(rstd, {0.5, 1 / std::sqrt(3.0)}, tiny);
  ref::run(kernel::Norm{.y_TC = view(y, {2, 2}),
                        .mean_T = view(mean, {2}),
                        .rstd_T = view(rstd, {2}),
                        .x_TC = view(x, {2, 2}),
                        .w_C = view(w, {2}),
                        .eps = 3});
  expect_values(y, {-1, 0.5, 0, 0}, tiny);
}

TEST(RefNorm, RmsNormOfOneRow) {
  std::vector<double> x{1, 7}, w{10, 5}, y(2), rstd(1);
  ref::run(kernel::Norm{.y_TC = view(y, {1, 2}),
                        .rstd_T = view(rstd, {1}),
                        .x_TC = view(x, {1, 2}),
                        .w_C = view(w, {2}),
                        .eps = 0});
  expect_values(y, {2, 7}, tiny);
  expect_values(rstd, {0.2}, tiny);
}

TEST(RefNorm, AddsWeightGradientsOfRows) {
  // Rows normalised to (-1, 1): mean 0, rstd 1 are given.
  std::vector<float> x{-1, 1, -1, 1}, w{1, 1}, dy{1, 2, 3, 4}, mean{0, 0}, rstd{1, 1}, dw{9, 9},
      db{100, 100};
  ref::run(kernel::NormGrad{.dw_C = view(dw, {2}),
                            .dy_TC = view(dy, {2, 2}),
                            .x_TC = view(x, {2, 2}),
                            .w_C = view(w, {2}),
                            .mean_T = view(mean, {2}),
                            .rstd_T = view(rstd, {2})});
  expect_values(dw, {-4, 6}, 0);
  ref::run(kernel::NormGrad{.dw_C = view(dw, {2}),
                            .db_C = view(db, {2}),
                            .how = add,
                            .dy_TC = view(dy, {2, 2}),
                            .x_TC = view(x, {2, 2}),
                            .w_C = view(w, {2}),
                            .mean_T = view(mean, {2}),
                            .rstd_T = view(rstd, {2})});
  expect_values(dw, {-8, 12}, 0);
  expect_values(db, {104, 106}, 0);
}

TEST(RefRotary, TurnsHalvesByTheirPosition) {
  // Position 0 stays, position 1 turns by 90 and 180 degrees.
  std::vector<double> x{1, 2, 3, 4, 1, 2, 3, 4}, table{1, 1, 0, 0, 0, -1, 1, 0};
  const auto X = view(x, {1, 2, 1, 4});
  ref::run(kernel::Rotary{.x_BTHD = X, .table_T2E = view(table, {2, 2, 2})});
  expect_values(x, {1, 2, 3, 4, -3, -2, 1, -4}, 0);
  ref::run(kernel::Rotary{
      .x_BTHD = X, .table_T2E = view(table, {2, 2, 2}), .direction = Direction::backward});
  expect_values(x, {1, 2, 3, 4, 1, 2, 3, 4}, 0);
}

TEST(RefPointwise, GeluAtKnownPlaces) {
  std::vector<double> x{0, 1, -2, 40, -40}, y(5), dy{1, 1, 1, 1, 1}, dx(5);
  ref::run(
      kernel::Activate{.activation = Activation::gelu, .y_N = view(y, {5}), .x_N = view(x, {5})});
  expect_values(y, {0, 0.8411919906082768, -0.04540230591222494, 40, 0}, tiny);
  ref::run(kernel::ActivateGrad{.activation = Activation::gelu,
                                .dx_N = view(dx, {5}),
                                .dy_N = view(dy, {5}),
                                .x_N = view(x, {5})});
  EXPECT_NEAR(dx[0], 0.5, tiny);
  EXPECT_NEAR(dx[3], 1, tiny);
  EXPECT_NEAR(dx[4], 0, tiny);
}

TEST(RefPointwise, SwigluAtKnownPlaces) {
  const double ln3 = std::log(3.0);  // sigmoid(ln 3) = 3/4
  std::vector<double> gate_up{0, ln3, 5, 4}, y(2);
  ref::run(kernel::Swiglu{.y_TF = view(y, {1, 2}), .gate_up_T2F = view(gate_up, {1, 2, 2})});
  expect_values(y, {0, 3 * ln3}, tiny);
}

TEST(RefPointwise, SwigluOfRowsWithWeights) {
  const double ln3 = std::log(3.0);
  std::vector<double> gate_up{ln3, 4, ln3, 4}, weight{2, -1}, y(2), dy{1, 10}, dx(4), dweight(2);
  const auto x = view(gate_up, {2, 2, 1}), w = view(weight, {2});
  ref::run(kernel::Swiglu{.y_TF = view(y, {2, 1}), .gate_up_T2F = x, .weight_T = w});
  expect_values(y, {6 * ln3, -3 * ln3}, tiny);
  ref::run(kernel::SwigluGrad{.dgate_up_T2F = view(dx, {2, 2, 1}),
                              .dweight_T = view(dweight, {2}),
                              .dy_TF = view(dy, {2, 1}),
                              .gate_up_T2F = x,
                              .weight_T = w});
  expect_values(dweight, {3 * ln3, 30 * ln3}, tiny * 10);
  // silu' = 3/4 (1 + ln 3 / 4), silu = 3/4 ln 3
  const double slope = 3 * (1 + ln3 / 4), silu = 0.75 * ln3;
  expect_values(dx, {2 * slope, 2 * silu, -10 * slope, -10 * silu}, tiny * 10);
}

TEST(RefDropout, KeepsWhatPhiloxKeeps) {
  const DropoutKey key{77, 0.25F};
  std::vector<std::int64_t> samples{5, 1LL << 40};
  std::vector<double> x(2 * 3 * 6, 3.0), y(x.size());
  const SampleRows rows{view(samples, {2}), 10};
  ref::run(kernel::Dropout{
      .y_BTC = view(y, {2, 3, 6}), .x_BTC = view(x, {2, 3, 6}), .key = key, .rows = rows});
  std::size_t i = 0;
  for (auto sample : samples)
    for (std::uint64_t element = 10 * 6; element < 13 * 6; ++element, ++i) {
      const auto r = philox4x32(77, element / 4, static_cast<std::uint64_t>(sample))[element % 4];
      EXPECT_NEAR(y[i], unit_float(r) < 0.25F ? 0 : 4, tiny);
    }
}

TEST(RefDropout, DropsItsShareAndAddsTheSkip) {
  const DropoutKey key{1, 0.1F};
  std::vector<std::int64_t> samples{0};
  std::vector<float> x(100 * 100, 0.9F), skip(x.size(), 1.0F);
  const Shape s{1, 100, 100};
  ref::run(kernel::Dropout{.y_BTC = view(skip, s),
                           .x_BTC = view(x, s),
                           .skip_BTC = view(skip, s),
                           .key = key,
                           .rows = {view(samples, {1}), 0}});
  double dropped = 0;
  for (float v : skip) {
    if (v == 1.0F)
      ++dropped;
    else
      EXPECT_NEAR(v, 2.0, 1e-6);
  }
  EXPECT_NEAR(dropped, 1000, 150);  // five standard deviations of 30
}

TEST(RefEmbedding, PicksRowsAndAddsRepeatedIds) {
  std::vector<std::int32_t> ids{2, 0, 2};
  std::vector<double> table{1, 2, 3, 4, 5, 6}, y(6), dy{1, 2, 10, 20, 100, 200};
  ref::run(kernel::Embedding{
      .y_TC = view(y, {3, 2}), .ids_T = view(ids, {3}), .table_VC = view(table, {3, 2})});
  expect_values(y, {5, 6, 1, 2, 5, 6}, 0);
  std::vector<double> dtable(6, 7.0);
  ref::run(kernel::EmbeddingGrad{
      .dtable_VC = view(dtable, {3, 2}), .dy_TC = view(dy, {3, 2}), .ids_T = view(ids, {3})});
  expect_values(dtable, {10, 20, 0, 0, 101, 202}, 0);
  ref::run(kernel::EmbeddingGrad{.dtable_VC = view(dtable, {3, 2}),
                                 .how = add,
                                 .dy_TC = view(dy, {3, 2}),
                                 .ids_T = view(ids, {3})});
  expect_values(dtable, {20, 40, 0, 0, 202, 404}, 0);
}

TEST(RefCrossEntropy, OfTwoClasses) {
  const double ln3 = std::log(3.0);
  std::vector<double> z{0, 0, 0, ln3, 9, 9}, loss{100};
  std::vector<std::int32_t> target{1, 0, -1};
  ref::run(kernel::CrossEntropy{.loss = view(loss, {1}),
                                .logits_TV = view(z, {3, 2}),
                                .target_T = view(target, {3}),
                                .scale = 2});
  EXPECT_NEAR(loss[0], std::log(2.0) + std::log(4.0), tiny);
  expect_values(z, {0, 0, 0, ln3, 9, 9}, 0);
  ref::run(kernel::CrossEntropy{.loss = view(loss, {1}),
                                .how = add,
                                .logits_TV = view(z, {3, 2}),
                                .target_T = view(target, {3}),
                                .scale = 2,
                                .logits = Logits::become_gradient});
  EXPECT_NEAR(loss[0], 2 * std::log(8.0), tiny);
  expect_values(z, {1, -1, -1.5, 1.5, 0, 0}, tiny);
}

TEST(RefCrossEntropy, HugeLogitsDoNotOverflow) {
  std::vector<float> z{3e38F, -3e38F};
  std::vector<double> loss(1);
  std::vector<std::int32_t> target{0};
  ref::run(kernel::CrossEntropy{.loss = view(loss, {1}),
                                .logits_TV = view(z, {1, 2}),
                                .target_T = view(target, {1}),
                                .scale = 1,
                                .logits = Logits::become_gradient});
  EXPECT_EQ(loss[0], 0);
  expect_values(z, {0, 0}, 0);
}

TEST(RefReduce, AddsColumnsAndSquares) {
  std::vector<float> x{1, 2, 3, 4, 5, 6}, out{1000, 1000, 1000};
  ref::run(kernel::ColumnSum{.out_C = view(out, {3}), .x_TC = view(x, {2, 3})});
  expect_values(out, {5, 7, 9}, 0);
  ref::run(kernel::ColumnSum{.out_C = view(out, {3}), .how = add, .x_TC = view(x, {2, 3})});
  expect_values(out, {10, 14, 18}, 0);
  std::vector<double> sum(1);
  ref::run(kernel::SumSquares{.out_N = view(sum, {1}), .x = {view(x, {2, 3})}});
  EXPECT_EQ(sum[0], 91);
  x[4] = 3e38F;  // its square is beyond f32
  ref::run(kernel::SumSquares{.out_N = view(sum, {1}), .x = {view(x, {2, 3})}});
  EXPECT_TRUE(std::isfinite(sum[0]));
  x[4] = std::numeric_limits<float>::infinity();
  ref::run(kernel::SumSquares{.out_N = view(sum, {1}), .x = {view(x, {2, 3})}});
  EXPECT_FALSE(std::isfinite(sum[0]));
}

}  // namespace
}  // namespace trireme
