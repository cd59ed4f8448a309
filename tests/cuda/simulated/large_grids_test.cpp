// Grids on more than 2^31 elements.
#include "lib/base/digest.hpp"
#include "tests/cuda/simulated/large.hpp"

namespace trireme::cuda {
namespace {

class LargeGrids : public LargeArrays<float> {};

TEST_F(LargeGrids, Digest) {
  constexpr std::int64_t part = std::int64_t{1024} * digest::bytes_a_block,
                         bytes = (two_31 << 2) + part;
  const Large<std::byte> x(bytes);
  std::vector<std::byte> x1;
  for (std::int64_t i = 0; i < part; ++i)
    x1.push_back(static_cast<std::byte>(hash64(1, static_cast<std::uint64_t>(i))));
  x.ends_in(x1);
  lend(8 * (bytes / part));
  const auto put = [](const OnStream& s, std::int64_t* to, const std::byte* data, std::int64_t n,
                      std::int64_t first_block) {
    const ConstView words(data, DType::i32, {n / 4});
    run(kernel::Digest{.out_N = view_of(to, {1}),
                       .parts = {{words, first_block * digest::bytes_a_block / 4}}},
        s);
  };
  std::int64_t sum = 0, sum1 = 1;
  last_block([&](const OnStream& s) { put(s, &sum, x.data(), bytes, 5); });
  all_blocks([&](const OnStream& s) {
    put(s, &sum1, x1.data(), part, 5 + (bytes - part) / digest::bytes_a_block);
  });
  EXPECT_EQ(sum, sum1);
}

TEST_F(LargeGrids, PartialSumsOfTwoArrays) {
  constexpr std::int64_t width = 8192, parts = two_31 / width + 4;
  const Large<float> partials(2 * parts * width);
  auto a = nothing<float>(width), b = a;
  partials.ends_in({3.5F});
  last_block([&](const OnStream& s) {
    add_partials(s.stream, a.data(), b.data(), Accumulate::overwrite, partials.data(), parts,
                 width);
  });
  EXPECT_EQ(b.back(), 3.5F);
}

// Rows that would be more than 65,535 blocks along y.
TEST_F(LargeGrids, ColumnSumOfManyRows) {
  constexpr std::int64_t rows = 256 * 65536 + 1;
  const Large<float> x(rows);
  x.ends_in({2.5F});
  lend(4 * (rows / 256 + 1));
  float out = 0;
  last_block([&](const OnStream& s) {
    run(kernel::ColumnSum{.out_C = view_of(&out, {1}), .x_TC = x.view({rows, 1})}, s);
  });
  EXPECT_EQ(out, 2.5F);
}

// 2^40 threads' worth: 2^32 blocks before they are cut to what a device has use for.
TEST_F(LargeGrids, MoreBlocksThanANumberHolds) {
  const Large<bf16> x(64);
  auto same = x.view({std::int64_t{1} << 40, 1});
  same.stride[0] = 0;
  const simulated::LastBlocks none(0);
  all_blocks([&](const OnStream& s) { run(kernel::Fill{.dst = same, .value = 1}, s); });
}

// What a grid has no place for is refused: the rows left out would be wrong in silence.
TEST_F(LargeGrids, RefusesMoreRowsThanAGridHas) {
  constexpr std::int64_t many = (std::int64_t{1} << 32) + 8;
  float some = 0;
  double loss = 0;
  std::int32_t target = 0;
  const View rows = view_of(&some, {many, 1}), sample = view_of(&some, {1, many, 1}),
             each = view_of(&some, {many}), one = view_of(&some, {1});
  const simulated::LastBlocks none(0);
  all_blocks([&](OnStream s) {
    s.scratch = view_of(&loss, {many});  // nothing is written to it
    EXPECT_THROW(run(kernel::Norm{.y_TC = rows, .rstd_T = each, .x_TC = rows, .w_C = one}, s),
                 Error);
    EXPECT_THROW(run(kernel::ResidualNorm{.sum_BTC = sample,
                                          .y_BTC = sample,
                                          .rstd_T = each,
                                          .x_BTC = sample,
                                          .skip_BTC = sample,
                                          .w_C = one},
                     s),
                 Error);
    EXPECT_THROW(run(kernel::CrossEntropy{.loss = view_of(&loss, {1}),
                                          .logits_TV = rows,
                                          .target_T = view_of(&target, {many})},
                     s),
                 Error);
    EXPECT_THROW(run(kernel::Route{.weight_TK = view_of(&some, {many << 1, 1}),
                                   .choice_TK = view_of(&target, {many << 1, 1}),
                                   .logits_TE = view_of(&some, {many << 1, 1})},
                     s),
                 Error);
    EXPECT_THROW(run(kernel::SortChoices{.offset_E1 = view_of(&target, {2}),
                                         .token_R = view_of(&target, {many}),
                                         .choice_R = view_of(&target, {many}),
                                         .row_TK = view_of(&target, {many, 1}),
                                         .choice_TK = view_of(&target, {many, 1})},
                     s),
                 Error);
    EXPECT_THROW(run(kernel::ColumnSum{.out_C = one, .x_TC = view_of(&some, {many << 8, 1})}, s),
                 Error);
    EXPECT_THROW(run(
                     kernel::EmbeddingGrad{
                         .dtable_VC = rows, .dy_TC = rows, .ids_T = view_of(&target, {many})},
                     s),
                 Error);
  });
}

}  // namespace
}  // namespace trireme::cuda
