// What goes element by element on more than 2^31 elements.
#include <array>

#include "tests/cuda/simulated/large.hpp"

namespace trireme::cuda {
namespace {

template <class T>
class LargePointwise : public LargeArrays<T> {};
TYPED_TEST_SUITE(LargePointwise, LargeTypes);

TYPED_TEST(LargePointwise, Activate) {
  using T = TypeParam;
  constexpr std::int64_t n = TestFixture::strided, some = 64;
  const Large<T> x(n), y(n), dy(n), dx(n);
  const auto x1 = numbers<T>(some, 1), dy1 = numbers<T>(some, 2);
  auto y1 = nothing<T>(some), dx1 = y1;
  x.ends_in(x1);
  dy.ends_in(dy1);
  const auto gelu = Activation::gelu;
  this->last_block([&](Stream s) {
    activate(s, gelu, y.data(), x.data(), n);
    activate_grad(s, gelu, dx.data(), dy.data(), x.data(), n);
  });
  this->all_blocks([&](Stream s) {
    activate(s, gelu, y1.data(), x1.data(), some);
    activate_grad(s, gelu, dx1.data(), dy1.data(), x1.data(), some);
  });
  expect_same(y, y1, "y");
  expect_same(dx, dx1, "dx");
}

TYPED_TEST(LargePointwise, Swiglu) {
  using T = TypeParam;
  constexpr std::int64_t width = 64, rows = TestFixture::strided / width;
  const Large<T> gate_up(rows * 2 * width), y(rows * width), dy(rows * width), d(rows * 2 * width);
  const auto gate_up1 = numbers<T>(2 * width, 1), dy1 = numbers<T>(width, 2);
  auto y1 = nothing<T>(width), d1 = nothing<T>(2 * width);
  gate_up.ends_in(gate_up1);
  dy.ends_in(dy1);
  this->last_block([&](Stream s) {
    swiglu(s, y.data(), gate_up.data(), rows, width);
    swiglu_grad(s, d.data(), dy.data(), gate_up.data(), rows, width);
  });
  this->all_blocks([&](Stream s) {
    swiglu(s, y1.data(), gate_up1.data(), 1, width);
    swiglu_grad(s, d1.data(), dy1.data(), gate_up1.data(), 1, width);
  });
  expect_same(y, y1, "y");
  expect_same(d, d1, "dgate_up");
}

TYPED_TEST(LargePointwise, Rotary) {
  using T = TypeParam;
  constexpr std::int64_t dim = 128, tokens = (two_31 + most_threads * dim) / dim;
  const Large<T> x(tokens * dim);
  const Large<float> table(tokens * dim);
  auto x1 = numbers<T>(dim, 1);
  const auto table1 = numbers<float>(dim, 2);
  x.ends_in(x1);
  table.ends_in(table1);
  this->last_block([&](Stream s) {
    rotary(s, Heads<T>{x.data(), 0, dim, dim}, table.data(), 1, 1, tokens, 1, dim);
  });
  this->all_blocks([&](Stream s) {
    rotary(s, Heads<T>{x1.data(), 0, dim, dim}, table1.data(), 1, 1, 1, 1, dim);
  });
  expect_same(x, x1, "x");
}

TYPED_TEST(LargePointwise, Dropout) {
  using T = TypeParam;
  constexpr std::int64_t width = 512, rows = TestFixture::strided / width;
  const std::array<std::int64_t, 1> sample{(std::int64_t{1} << 40) + 7};
  const DropoutKey key{1234567, 0.5F};
  const Large<T> x(rows * width), skip(rows * width), y(rows * width);
  const auto x1 = numbers<T>(width, 1), skip1 = numbers<T>(width, 2);
  auto y1 = nothing<T>(width);
  x.ends_in(x1);
  skip.ends_in(skip1);
  this->last_block([&](Stream s) {
    dropout(s,
            Dropped<T>{y.data(), x.data(), skip.data(), key, {1, rows, width, 0, sample.data()}});
  });
  this->all_blocks([&](Stream s) {
    dropout(s,
            Dropped<T>{
                y1.data(), x1.data(), skip1.data(), key, {1, 1, width, rows - 1, sample.data()}});
  });
  expect_same(y, y1, "y");
}

TYPED_TEST(LargePointwise, Copy) {
  using T = TypeParam;
  constexpr std::int64_t n = TestFixture::strided, some = 64;
  const auto x1 = numbers<T>(some, 1), one = numbers<T>(1, 2);
  const Large<T> x(n), y(n), sum(n);
  x.ends_in(x1);
  sum.ends_in(x1);
  const CopyShape whole{1, {n}, {1}, {1}};
  this->last_block([&](Stream s) {
    copy(s, y.data(), x.data(), whole, Accumulate::overwrite);
    copy(s, sum.data(), x.data(), whole, Accumulate::add);
  });
  expect_same(y, x1, "whole");
  auto twice = nothing<T>(some);
  for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = T(2 * static_cast<float>(x1[i]));
  expect_same(sum, twice, "added");

  // One by one, with gaps: the columns of a matrix become the rows of another.
  constexpr std::int64_t rows = 8, columns = two_31 / rows + most_threads / rows;
  const Large<T> turned(rows * columns);
  const CopyShape turn{2, {rows, columns}, {1, rows}, {columns, 1}};
  const Large<T> matrix(rows * columns);
  matrix.ends_in(x1);
  this->last_block(
      [&](Stream s) { copy(s, turned.data(), matrix.data(), turn, Accumulate::overwrite); });
  expect_same(turned, std::vector<T>{x1.back()}, "turned");

  this->last_block([&](Stream s) { fill(s, y.data(), one[0], whole); });
  expect_same(y, std::vector<T>(64, one[0]), "filled");
}

}  // namespace
}  // namespace trireme::cuda
