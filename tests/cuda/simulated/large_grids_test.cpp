// Grids on more than 2^31 elements.
#include <array>

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
  const std::array<DigestPart, 1> large{DigestPart{x.data(), bytes, 5}},
      small{DigestPart{x1.data(), part, 5 + (bytes - part) / digest::bytes_a_block}};
  auto scratch = nothing<std::byte>(static_cast<std::int64_t>(digest_scratch(large)));
  std::int64_t sum = 0, sum1 = 1;
  last_block([&](Stream s) { digest_parts(s, &sum, large, scratch.data()); });
  all_blocks([&](Stream s) { digest_parts(s, &sum1, small, scratch.data()); });
  EXPECT_EQ(sum, sum1);
}

TEST_F(LargeGrids, PartialSumsOfTwoArrays) {
  constexpr std::int64_t width = 8192, parts = two_31 / width + 4;
  const Large<float> partials(2 * parts * width);
  auto a = nothing<float>(width), b = a;
  partials.ends_in({3.5F});
  last_block([&](Stream s) {
    add_partials(s, a.data(), b.data(), Accumulate::overwrite, partials.data(), parts, width);
  });
  EXPECT_EQ(b.back(), 3.5F);
}

// Rows that would be more than 65,535 blocks along y.
TEST_F(LargeGrids, ColumnSumOfManyRows) {
  constexpr std::int64_t rows = 256 * 65536 + 1;
  const Large<float> x(rows);
  x.ends_in({2.5F});
  auto scratch = nothing<float>(rows / 256 + 1);
  float out = 0;
  last_block([&](Stream s) {
    column_sum(s, &out, Accumulate::overwrite, x.data(), rows, 1, scratch.data());
  });
  EXPECT_EQ(out, 2.5F);
}

// 2^40 threads' worth: 2^32 blocks before they are cut to what a device has use for.
TEST_F(LargeGrids, MoreBlocksThanANumberHolds) {
  const Large<bf16> x(64);
  const CopyShape same{2, {std::int64_t{1} << 40, 1}, {0, 1}, {0, 1}};
  const simulated::LastBlocks none(0);
  all_blocks([&](Stream s) { fill(s, x.data(), bf16(1.0F), same); });
}

// What a grid has no place for is refused: the rows left out would be wrong in silence.
TEST_F(LargeGrids, RefusesMoreRowsThanAGridHas) {
  constexpr std::int64_t many = (std::int64_t{1} << 32) + 8;
  float some = 0;
  double loss = 0;
  std::int32_t target = 0;
  const NormRows<float> rows{&some, &some, &some, &some, &some, &some, many, 1, 1, 1e-5F};
  const simulated::LastBlocks none(0);
  const auto how = Accumulate::add;
  all_blocks([&](Stream s) {
    EXPECT_THROW(norm(s, rows), Error);
    EXPECT_THROW(residual_norm(s, Dropped<float>{}, rows), Error);
    EXPECT_THROW(cross_entropy(s, &loss, how, &some, &target, many, 1, 1, false, &loss), Error);
    EXPECT_THROW(column_sum(s, &some, how, &some, many << 8, 1, &some), Error);
  });
  EXPECT_THROW(embedding_scratch(many), Error);
}

}  // namespace
}  // namespace trireme::cuda
