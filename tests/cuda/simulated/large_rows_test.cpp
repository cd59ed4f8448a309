// Sums, embedding and loss, by rows, on more than 2^31 elements.
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
  auto out = nothing<float>(width);
  this->lend(4 * width * (rows / 256 + 1));
  this->last_block([&](const OnStream& s) {
    run(kernel::ColumnSum{.out_C = view_of(out.data(), {width}), .x_TC = x.view({rows, width})}, s);
  });
  EXPECT_EQ(out.back(), static_cast<float>(x1.back()));
}

TYPED_TEST(LargeRows, SumOfSquares) {
  using T = TypeParam;
  constexpr std::int64_t part = 8192, n = two_31 + part;
  const Large<T> x(n);
  const auto x1 = numbers<T>(part, 1);
  x.ends_in(x1);
  this->lend(8 * (n / part));
  double sum = 0, sum1 = 1;
  this->last_block([&](const OnStream& s) {
    run(kernel::SumSquares{.out_N = view_of(&sum, {1}), .x = {x.view({n})}}, s);
  });
  this->all_blocks([&](const OnStream& s) {
    run(kernel::SumSquares{.out_N = view_of(&sum1, {1}), .x = {view_of(x1.data(), {part})}}, s);
  });
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
  const View ids_T = view_of(ids.data(), {rows});
  this->last_block([&](const OnStream& s) {
    run(
        kernel::Embedding{
            .y_TC = y.view({rows, width}), .ids_T = ids_T, .table_VC = table.view({vocab, width})},
        s);
  });
  expect_same(y, std::vector<T>(row.end() - 256 * TestFixture::pack, row.end()), "y");

  this->lend(std::int64_t{1} << 26);
  this->last_block([&](const OnStream& s) {
    run(kernel::EmbeddingGrad{.dtable_VC = dtable.view({vocab, width}),
                              .how = Accumulate::add,
                              .dy_TC = y.view({rows, width}),
                              .ids_T = ids_T},
        s);
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
  this->lend(8 * rows);
  double loss = 0, loss1 = 1;
  const auto put = [&](const OnStream& s, double* sum, const View& logits_TV,
                       const std::int32_t* target) {
    run(kernel::CrossEntropy{.loss = view_of(sum, {1}),
                             .logits_TV = logits_TV,
                             .target_T = view_of(target, {logits_TV.extent[0]}),
                             .scale = 0.5,
                             .logits = Logits::become_gradient},
        s);
  };
  this->last_block([&](const OnStream& s) {
    put(s, &loss, z.view({rows, vocab}), targets.data());
  });
  this->all_blocks([&](const OnStream& s) {
    put(s, &loss1, view_of(z1.data(), {1, vocab}), &targets.back());
  });
  EXPECT_EQ(loss, loss1);
  expect_same(z, z1, "gradient");
}

}  // namespace
}  // namespace trireme::cuda
