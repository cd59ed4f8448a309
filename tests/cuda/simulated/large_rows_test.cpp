// Sums, embedding and loss, by rows, on more than 2^31 elements.
#include <array>

#include "tests/cuda/simulated/large.hpp"

namespace trireme::cuda {
namespace {

template <class T>
class LargeRows : public LargeArrays<T> {};
TYPED_TEST_SUITE(LargeRows, LargeTypes);

TYPED_TEST(LargeRows, ColumnSum) {
  using T = TypeParam;
  constexpr std::int64_t width = 8192, rows = two_31 / width + 200;
  const Large<T> x(rows * width);
  const auto x1 = numbers<T>(width, 1);
  x.ends_in(x1);
  auto out = nothing<float>(width), scratch = nothing<float>(width * (rows / 256 + 1));
  this->last_block([&](Stream s) {
    column_sum(s, out.data(), Accumulate::overwrite, x.data(), rows, width, scratch.data());
  });
  EXPECT_EQ(out.back(), static_cast<float>(x1.back()));
}

TYPED_TEST(LargeRows, SumOfSquares) {
  using T = TypeParam;
  constexpr std::int64_t part = 8192, n = two_31 + part;
  const Large<T> x(n);
  const auto x1 = numbers<T>(part, 1);
  x.ends_in(x1);
  const std::array<Array<T>, 1> large{Array<T>{x.data(), n}}, small{Array<T>{x1.data(), part}};
  auto scratch = nothing<double>(n / part);
  double sum = 0, sum1 = 1;
  this->last_block([&](Stream s) { sum_squares<T>(s, &sum, large, scratch.data()); });
  this->all_blocks([&](Stream s) { sum_squares<T>(s, &sum1, small, scratch.data()); });
  EXPECT_EQ(sum, sum1);
}

TYPED_TEST(LargeRows, Embedding) {
  using T = TypeParam;
  constexpr std::int64_t width = 8192, rows = two_31 / width + 2048, vocab = rows;
  const Large<T> table(vocab * width), y(rows * width);
  const Large<float> dtable(vocab * width);
  const auto row = numbers<T>(width, 1);
  table.ends_in(row);
  auto ids = nothing<std::int32_t>(rows);
  ids.back() = static_cast<std::int32_t>(vocab - 1);
  this->last_block(
      [&](Stream s) { embedding(s, y.data(), ids.data(), table.data(), rows, width); });
  expect_same(y, std::vector<T>(row.end() - 256 * TestFixture::pack, row.end()), "y");

  auto scratch = nothing<std::byte>(static_cast<std::int64_t>(embedding_scratch(rows)));
  this->last_block([&](Stream s) {
    embedding_grad(s, dtable.data(), y.data(), ids.data(), rows, width, vocab, scratch.data());
  });
  expect_same(dtable, std::vector<float>{static_cast<float>(row.back())}, "dtable");
}

TYPED_TEST(LargeRows, CrossEntropy) {
  using T = TypeParam;
  constexpr std::int64_t vocab = 65536, rows = two_31 / vocab + 4;
  const Large<T> z(rows * vocab);
  auto z1 = numbers<T>(vocab, 1);
  z.ends_in(z1);
  auto targets = nothing<std::int32_t>(rows);
  targets.back() = static_cast<std::int32_t>(vocab - 1);
  auto of_rows = nothing<double>(rows);
  double loss = 0, loss1 = 1;
  const auto how = Accumulate::overwrite;
  this->last_block([&](Stream s) {
    cross_entropy(s, &loss, how, z.data(), targets.data(), rows, vocab, 0.5F, true, of_rows.data());
  });
  this->all_blocks([&](Stream s) {
    cross_entropy(s, &loss1, how, z1.data(), &targets.back(), 1, vocab, 0.5F, true, of_rows.data());
  });
  EXPECT_EQ(loss, loss1);
  expect_same(z, z1, "gradient");
}

}  // namespace
}  // namespace trireme::cuda
