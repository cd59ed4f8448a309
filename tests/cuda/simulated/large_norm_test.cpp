// Norms on more than 2^31 elements.
#include <array>

#include "tests/cuda/simulated/large.hpp"

namespace trireme::cuda {
namespace {

template <class T>
class LargeNorm : public LargeArrays<T> {};
TYPED_TEST_SUITE(LargeNorm, LargeTypes);

TYPED_TEST(LargeNorm, Norm) {
  using T = TypeParam;
  constexpr std::int64_t width = 8192, rows = two_31 / width + 8;
  const Large<T> x(rows * width), y(rows * width), skip(rows * width), sum(rows * width);
  const Large<float> means(rows), rstds(rows);
  const auto x1 = numbers<T>(width, 1), skip1 = numbers<T>(width, 2), w = numbers<T>(width, 3),
             b = numbers<T>(width, 4);
  auto y1 = nothing<T>(width), sum1 = y1;
  auto mean1 = nothing<float>(1), rstd1 = mean1;
  x.ends_in(x1);
  skip.ends_in(skip1);
  const std::array<std::int64_t, 1> sample{3};
  const DropoutKey key{99, 0.3F};
  const auto put = [&](const OnStream& s, T* to, float* mean, float* rstd, const T* from,
                       std::int64_t n) {
    run(kernel::Norm{.y_TC = view_of(to, {n, width}),
                     .mean_T = view_of(mean, {n}),
                     .rstd_T = view_of(rstd, {n}),
                     .x_TC = view_of(from, {n, width}),
                     .w_C = view_of(w.data(), {width}),
                     .b_C = view_of(b.data(), {width}),
                     .eps = 1e-5},
        s);
  };
  this->last_block(
      [&](const OnStream& s) { put(s, y.data(), means.data(), rstds.data(), x.data(), rows); });
  this->all_blocks(
      [&](const OnStream& s) { put(s, y1.data(), mean1.data(), rstd1.data(), x1.data(), 1); });
  expect_same(y, y1, "y");
  expect_same(means, mean1, "mean");
  expect_same(rstds, rstd1, "rstd");

  const auto put_both = [&](const OnStream& s, T* to_sum, T* to, float* mean, float* rstd,
                            const T* from, const T* beside, std::int64_t n) {
    const Shape all{1, n, width};
    run(kernel::ResidualNorm{.sum_BTC = view_of(to_sum, all),
                             .y_BTC = view_of(to, all),
                             .mean_T = view_of(mean, {n}),
                             .rstd_T = view_of(rstd, {n}),
                             .x_BTC = view_of(from, all),
                             .skip_BTC = view_of(beside, all),
                             .w_C = view_of(w.data(), {width}),
                             .b_C = view_of(b.data(), {width}),
                             .eps = 1e-5,
                             .key = key,
                             .rows = {view_of(sample.data(), {1}), rows - n}},
        s);
  };
  this->last_block([&](const OnStream& s) {
    put_both(s, sum.data(), y.data(), means.data(), rstds.data(), x.data(), skip.data(), rows);
  });
  this->all_blocks([&](const OnStream& s) {
    put_both(s, sum1.data(), y1.data(), mean1.data(), rstd1.data(), x1.data(), skip1.data(), 1);
  });
  expect_same(sum, sum1, "sum");
  expect_same(y, y1, "y of the sum");
  expect_same(rstds, rstd1, "rstd of the sum");
}

TYPED_TEST(LargeNorm, NormGradient) {
  using T = TypeParam;
  // The 528 blocks take rows in turns, one each at this width: the last row is the last block's.
  constexpr std::int64_t width = 8192, rows = 528 * 497;
  static_assert(rows * width > two_31);
  const Large<T> dx(rows * width), onto(rows * width), dy(rows * width), x(rows * width);
  const Large<float> means(rows), rstds(rows);
  const auto onto1 = numbers<T>(width, 1), dy1 = numbers<T>(width, 2), x1 = numbers<T>(width, 3),
             w = numbers<T>(width, 4);
  const std::vector<float> mean1{0.25F}, rstd1{1.5F};
  onto.ends_in(onto1);
  dy.ends_in(dy1);
  x.ends_in(x1);
  means.ends_in(mean1);
  rstds.ends_in(rstd1);
  auto dx1 = nothing<T>(width);
  auto db = nothing<float>(width);
  this->lend(4 * 2 * 528 * width);
  this->last_block([&](const OnStream& s) {
    run(kernel::NormGrad{.dx_TC = dx.view({rows, width}),
                         .db_C = view_of(db.data(), {width}),
                         .dsum_TC = onto.view({rows, width}),
                         .dy_TC = dy.view({rows, width}),
                         .x_TC = x.view({rows, width}),
                         .w_C = view_of(w.data(), {width}),
                         .mean_T = means.view({rows}),
                         .rstd_T = rstds.view({rows})},
        s);
  });
  this->all_blocks([&](const OnStream& s) {
    run(kernel::NormGrad{.dx_TC = view_of(dx1.data(), {1, width}),
                         .dsum_TC = view_of(onto1.data(), {1, width}),
                         .dy_TC = view_of(dy1.data(), {1, width}),
                         .x_TC = view_of(x1.data(), {1, width}),
                         .w_C = view_of(w.data(), {width}),
                         .mean_T = view_of(mean1.data(), {1}),
                         .rstd_T = view_of(rstd1.data(), {1})},
        s);
  });
  expect_same(dx, dx1, "dx");
  EXPECT_EQ(db.back(), static_cast<float>(dy1.back()));
}

}  // namespace
}  // namespace trireme::cuda
