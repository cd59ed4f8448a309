// What an operation has to do, against numbers counted by hand.
#include "kernels/work.hpp"

#include <gtest/gtest.h>

#include "kernels/operations.hpp"
#include "tests/kernels/pretended_views.hpp"

namespace trireme {
namespace {

View f64s(const Shape& s) {
  return pretended(DType::f64, s);
}
View ids(std::int64_t n) {
  return pretended(DType::i32, {n});
}
View numbers(std::int64_t n) {
  return pretended(DType::i64, {n});
}

TEST(Work, BytesOfWhatIsThere) {
  const auto y = bf16s({6, 10}), x = bf16s({6, 10}), w = bf16s({10});
  const auto mean = f32s({6}), rstd = f32s({6});
  // y and x 120 each, w and b 20 each, mean and rstd 24 each.
  EXPECT_EQ(
      work_of(
          kernel::Norm{
              .y_TC = y, .mean_T = mean, .rstd_T = rstd, .x_TC = x, .w_C = w, .b_C = w, .eps = 0})
          .bytes,
      2 * 120 + 2 * 20 + 2 * 24);
  EXPECT_EQ(work_of(kernel::Norm{.y_TC = y, .rstd_T = rstd, .x_TC = x, .w_C = w, .eps = 0}).bytes,
            2 * 120 + 20 + 24);
  EXPECT_EQ(work_of(kernel::Norm{}).bytes, 0);
}

TEST(Work, BytesOfAViewAreNotThoseBetween) {
  const auto x = bf16s({6, 10}).slice(1, 2, 3);
  EXPECT_EQ(work_of(kernel::Fill{.dst = x, .value = 1}).bytes, 6 * 3 * 2);
  EXPECT_EQ(work_of(kernel::Copy{.dst = f32s({6, 3}), .src = x}).bytes, 6 * 3 * (4 + 2));
}

TEST(Work, AResultThatIsAddedToIsReadToo) {
  const auto x = bf16s({4, 10}), sum = f32s({10});
  EXPECT_EQ(work_of(kernel::ColumnSum{.out_C = sum, .x_TC = x}).bytes, 80 + 40);
  EXPECT_EQ(work_of(kernel::ColumnSum{.out_C = sum, .how = Accumulate::add, .x_TC = x}).bytes,
            80 + 2 * 40);
}

// dx is written however dw and db are added; three of what is read is of dx's size, one is absent.
TEST(Work, OfANormsGradient) {
  const auto x = bf16s({6, 10}), w = bf16s({10});
  const auto rstd = f32s({6}), dw = f32s({10});
  kernel::NormGrad o{.dx_TC = x,
                     .dw_C = dw,
                     .db_C = dw,
                     .dy_TC = x,
                     .x_TC = x,
                     .w_C = w,
                     .mean_T = rstd,
                     .rstd_T = rstd};
  const double read = 120 + 120 + 20 + 24 + 24;
  EXPECT_EQ(work_of(o).bytes, read + 120 + 40 + 40);
  o.how = Accumulate::add;
  EXPECT_EQ(work_of(o).bytes, read + 120 + 2 * (40 + 40));
  o.dsum_TC = x;
  EXPECT_EQ(work_of(o).bytes, read + 120 + 120 + 2 * (40 + 40));
  o.dx_TC = o.dw_C = {};
  EXPECT_EQ(work_of(o).bytes, read + 120 + 2 * 40);
}

TEST(Work, ScratchIsNotCounted) {
  const AttentionShape s{2, 8, 4, 2, 16, 1};
  const auto q = bf16s({2, 8, 4, 16}), k = bf16s({2, 8, 2, 16}), lse = f32s({2, 4, 8});
  const kernel::Attention o{.o_BTHD = q,
                            .lse_BHT = lse,
                            .q_BTHD = q,
                            .k_BTGD = k,
                            .v_BTGD = k,
                            .shape = s,
                            .workspace = f32s({1000})};
  EXPECT_EQ(work_of(o).bytes, 2 * 2048 + 2 * 1024 + 256);
}

TEST(Work, ProductsOfAMatmul) {
  kernel::Matmul o{.c_MN = f32s({3, 7}), .a_MK = f32s({3, 5}), .b_KN = f32s({5, 7})};
  EXPECT_EQ(work_of(o).flops, 2 * 3 * 5 * 7);
  EXPECT_EQ(work_of(o).bytes, 4 * (3 * 7 + 3 * 5 + 5 * 7));
  o.how = Accumulate::add;
  EXPECT_EQ(work_of(o).bytes, 4 * (2 * 3 * 7 + 3 * 5 + 5 * 7));
  o.epilogue = {.bias_N = f32s({7}), .activated_MN = f32s({3, 7}), .row_sum_M = f32s({3})};
  EXPECT_EQ(work_of(o).bytes, 4 * (2 * 3 * 7 + 3 * 5 + 5 * 7 + 7 + 3 * 7 + 2 * 3));
  EXPECT_EQ(work_of(o).flops, 2 * 3 * 5 * 7);
}

TEST(Work, ProductsOfAttention) {
  const AttentionShape s{2, 8, 4, 2, 16, 1};
  const double square = 2 * 8 * 8 * 16;  // one T x T x D product of one head
  kernel::Attention forward{};
  forward.shape = s;
  kernel::AttentionGrad backward{};
  backward.shape = s;
  EXPECT_EQ(work_of(forward).flops, 2 * 4 * square);
  EXPECT_EQ(work_of(backward).flops, 2 * 4 * 2.5 * square);
}

TEST(Work, WhatComputesNoProductHasNoFlops) {
  const auto x = f32s({5});
  EXPECT_EQ(work_of(kernel::Activate{.activation = Activation::gelu, .y_N = x, .x_N = x}).flops, 0);
  EXPECT_EQ(work_of(kernel::Copy{.dst = x, .src = x}).flops, 0);
}

// Each row of the table at most once, whatever the ids are.
TEST(Work, RowsOfATableCountOnce) {
  const auto table = f32s({100, 4});
  EXPECT_EQ(kernel::bytes_of_rows(table, 30), 30 * 4 * 4);
  EXPECT_EQ(kernel::bytes_of_rows(table, 1000), 100 * 4 * 4);
  const auto embedding = [&](std::int64_t rows) {
    return work_of(
               kernel::Embedding{.y_TC = f32s({rows, 4}), .ids_T = ids(rows), .table_VC = table})
        .bytes;
  };
  EXPECT_EQ(embedding(30), 30 * 4 + 30 * 16 + 30 * 16);
  EXPECT_EQ(embedding(1000), 1000 * 4 + 1000 * 16 + 100 * 16);
}

// Rows are read and written; to overwrite, the table is cleared before.
TEST(Work, OfAnEmbeddingsGradient) {
  kernel::EmbeddingGrad o{.dtable_VC = f32s({100, 4}), .dy_TC = bf16s({30, 4}), .ids_T = ids(30)};
  EXPECT_EQ(work_of(o).bytes, 30 * 8 + 30 * 4 + 2 * 30 * 16 + 100 * 16);
  o.how = Accumulate::add;
  EXPECT_EQ(work_of(o).bytes, 30 * 8 + 30 * 4 + 2 * 30 * 16);
}

TEST(Work, OfCrossEntropyWithAndWithoutGradient) {
  kernel::CrossEntropy o{.loss = f64s({1}), .logits_TV = f32s({6, 50}), .target_T = ids(6)};
  EXPECT_EQ(work_of(o).bytes, 8 + 6 * 50 * 4 + 6 * 4);
  o.logits = Logits::become_gradient;
  EXPECT_EQ(work_of(o).bytes, 8 + 2 * 6 * 50 * 4 + 6 * 4);
  o.how = Accumulate::add;
  EXPECT_EQ(work_of(o).bytes, 2 * 8 + 2 * 6 * 50 * 4 + 6 * 4);
}

TEST(Work, OfAllShardsOfAnUpdate) {
  const auto w = f32s({10}), copy = bf16s({10}), other = f32s({3});
  const auto shard = [](const View& master, const View& narrow, std::vector<View> state) {
    return kernel::Update::Shard{.master_N = master,
                                 .copy_N = narrow,
                                 .grad_N = master,
                                 .state_N = std::move(state),
                                 .factors = {}};
  };
  EXPECT_EQ(work_of(kernel::Update{.rule = rule::Sgd{},
                                   .shards = {shard(w, copy, {}), shard(other, {}, {})}})
                .bytes,
            2 * 40 + 20 + 40 + 2 * 12 + 12);
  EXPECT_EQ(work_of(kernel::Update{.rule = rule::AdamW{}, .shards = {shard(w, {}, {w, w})}}).bytes,
            3 * 2 * 40 + 40);
  EXPECT_EQ(work_of(kernel::Update{}).bytes, 0);
}

TEST(Work, OfAllShardsOfAverages) {
  const auto w = f32s({10}), other = f64s({3});
  EXPECT_EQ(work_of(kernel::Average{.share = 0.1, .shards = {{w, w}, {other, other}}}).bytes,
            3 * 40 + 3 * 24);
}

TEST(Work, OfAllSumsOfSquares) {
  EXPECT_EQ(work_of(kernel::SumSquares{.out_N = f64s({2}), .x = {f32s({10}), bf16s({7})}}).bytes,
            2 * 8 + 40 + 14);
}

TEST(Work, SampleNumbersAreRead) {
  const auto x = bf16s({2, 3, 5});
  kernel::Dropout o{.y_BTC = x, .x_BTC = x, .key = {1, 0.5F}, .rows = {numbers(2), 0}};
  EXPECT_EQ(work_of(o).bytes, 2 * 60 + 2 * 8);
  o.skip_BTC = x;
  EXPECT_EQ(work_of(o).bytes, 3 * 60 + 2 * 8);
}

TEST(Work, Adds) {
  Work w{100, 7};
  w += {10, 1};
  EXPECT_EQ(w.bytes, 110);
  EXPECT_EQ(w.flops, 8);
}

}  // namespace
}  // namespace trireme
