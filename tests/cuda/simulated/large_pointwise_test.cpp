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
  const auto put = [](const OnStream& s, const View& to_y, const View& to_dx, const ConstView& by,
                      const ConstView& from) {
    run(kernel::Activate{.activation = Activation::gelu, .y_N = to_y, .x_N = from}, s);
    run(
        kernel::ActivateGrad{
            .activation = Activation::gelu, .dx_N = to_dx, .dy_N = by, .x_N = from},
        s);
  };
  this->last_block(
      [&](const OnStream& s) { put(s, y.view({n}), dx.view({n}), dy.view({n}), x.view({n})); });
  this->all_blocks([&](const OnStream& s) {
    put(s, view_of(y1.data(), {some}), view_of(dx1.data(), {some}), view_of(dy1.data(), {some}),
        view_of(x1.data(), {some}));
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
  const auto put = [](const OnStream& s, const View& to_y, const View& to_d, const ConstView& by,
                      const ConstView& from) {
    run(kernel::Swiglu{.y_TF = to_y, .gate_up_T2F = from}, s);
    run(kernel::SwigluGrad{.dgate_up_T2F = to_d, .dy_TF = by, .gate_up_T2F = from}, s);
  };
  const Shape out{rows, width}, in{rows, 2, width}, out1{1, width}, in1{1, 2, width};
  this->last_block(
      [&](const OnStream& s) { put(s, y.view(out), d.view(in), dy.view(out), gate_up.view(in)); });
  this->all_blocks([&](const OnStream& s) {
    put(s, view_of(y1.data(), out1), view_of(d1.data(), in1), view_of(dy1.data(), out1),
        view_of(gate_up1.data(), in1));
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
  this->last_block([&](const OnStream& s) {
    run(kernel::Rotary{.x_BTHD = x.view({1, tokens, 1, dim}),
                       .table_T2E = table.view({tokens, 2, dim / 2})},
        s);
  });
  this->all_blocks([&](const OnStream& s) {
    run(kernel::Rotary{.x_BTHD = view_of(x1.data(), {1, 1, 1, dim}),
                       .table_T2E = view_of(table1.data(), {1, 2, dim / 2})},
        s);
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
  const Shape all{1, rows, width}, one{1, 1, width};
  this->last_block([&](const OnStream& s) {
    run(kernel::Dropout{.y_BTC = y.view(all),
                        .x_BTC = x.view(all),
                        .skip_BTC = skip.view(all),
                        .key = key,
                        .rows = {view_of(sample.data(), {1}), 0}},
        s);
  });
  this->all_blocks([&](const OnStream& s) {
    run(kernel::Dropout{.y_BTC = view_of(y1.data(), one),
                        .x_BTC = view_of(x1.data(), one),
                        .skip_BTC = view_of(skip1.data(), one),
                        .key = key,
                        .rows = {view_of(sample.data(), {1}), rows - 1}},
        s);
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
  this->last_block([&](const OnStream& s) {
    run(kernel::Copy{.dst = y.view({n}), .src = x.view({n})}, s);
    run(kernel::Copy{.dst = sum.view({n}), .src = x.view({n}), .how = Accumulate::add}, s);
  });
  expect_same(y, x1, "whole");
  auto twice = nothing<T>(some);
  for (std::size_t i = 0; i < twice.size(); ++i) twice[i] = T(2 * static_cast<float>(x1[i]));
  expect_same(sum, twice, "added");

  // One by one, with gaps: the columns of a matrix become the rows of another.
  constexpr std::int64_t rows = 8, columns = two_31 / rows + most_threads / rows;
  const Large<T> turned(rows * columns);
  const Large<T> matrix(rows * columns);
  matrix.ends_in(x1);
  this->last_block([&](const OnStream& s) {
    run(kernel::Copy{.dst = turned.view({columns, rows}).transposed(),
                     .src = matrix.view({rows, columns})},
        s);
  });
  expect_same(turned, std::vector<T>{x1.back()}, "turned");

  this->last_block([&](const OnStream& s) {
    run(kernel::Fill{.dst = y.view({n}), .value = static_cast<float>(one[0])}, s);
  });
  expect_same(y, std::vector<T>(64, one[0]), "filled");
}

}  // namespace
}  // namespace trireme::cuda
