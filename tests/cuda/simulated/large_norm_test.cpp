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
  const auto norm_of = [&](T* to, float* mean, float* rstd, const T* from, std::int64_t n) {
    return NormRows<T>{
        to,   mean, rstd, from, w.data(), b.data(), n, width, 1.0F / static_cast<float>(width),
        1e-5F};
  };
  this->last_block(
      [&](Stream s) { norm(s, norm_of(y.data(), means.data(), rstds.data(), x.data(), rows)); });
  this->all_blocks(
      [&](Stream s) { norm(s, norm_of(y1.data(), mean1.data(), rstd1.data(), x1.data(), 1)); });
  expect_same(y, y1, "y");
  expect_same(means, mean1, "mean");
  expect_same(rstds, rstd1, "rstd");

  this->last_block([&](Stream s) {
    residual_norm(s,
                  Dropped<T>{sum.data(), x.data(), skip.data(), key,
                             DropoutRows{1, rows, width, 0, sample.data()}},
                  norm_of(y.data(), means.data(), rstds.data(), sum.data(), rows));
  });
  this->all_blocks([&](Stream s) {
    residual_norm(s,
                  Dropped<T>{sum1.data(), x1.data(), skip1.data(), key,
                             DropoutRows{1, 1, width, rows - 1, sample.data()}},
                  norm_of(y1.data(), mean1.data(), rstd1.data(), sum1.data(), 1));
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
  auto db = nothing<float>(width), scratch = nothing<float>(2 * 528 * width);
  this->last_block([&](Stream s) {
    norm_grad(s, NormGradRows<T>{dx.data(), nullptr, db.data(), Accumulate::overwrite, onto.data(),
                                 dy.data(), x.data(), w.data(), means.data(), rstds.data(), rows,
                                 width, 1.0F / static_cast<float>(width), scratch.data()});
  });
  this->all_blocks([&](Stream s) {
    norm_grad(s, NormGradRows<T>{dx1.data(), nullptr, nullptr, Accumulate::overwrite, onto1.data(),
                                 dy1.data(), x1.data(), w.data(), mean1.data(), rstd1.data(), 1,
                                 width, 1.0F / static_cast<float>(width), scratch.data()});
  });
  expect_same(dx, dx1, "dx");
  EXPECT_EQ(db.back(), static_cast<float>(dy1.back()));
}

}  // namespace
}  // namespace trireme::cuda
