// What comparing backends does not show: a result's bits depend neither on the number of
// threads, nor on where an element stands in its array, nor on how much scratch there is.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/host/kernels.hpp"
#include "tests/kernels/examples/updates.hpp"
#include "tests/kernels/host_array.hpp"

namespace trireme {
namespace {

// The same elements somewhere else in the array, in its vector part or in its rest.
TEST_P(HostKernels, PointwiseBitsDoNotDependOnThePlace) {
  const std::int64_t n = 200, shift = 37;
  const Array x(type(), {n}, 1), dy(type(), {n}, 2), y(type(), {n});
  const auto compare = [&](const auto& kernel) {
    kernel(y.view(), dy.view(), x.view());
    const Array part(type(), {n - shift});
    kernel(part.view(), dy.view().slice(0, shift, n - shift), x.view().slice(0, shift, n - shift));
    EXPECT_EQ(part.bytes(), y.bytes(shift, n - shift));
  };
  compare([](View to, View, View from) {
    host::run(kernel::Activate{.activation = Activation::gelu, .y_N = to, .x_N = from}, {});
  });
  compare([](View to, View above, View from) {
    host::run(
        kernel::ActivateGrad{
            .activation = Activation::gelu, .dx_N = to, .dy_N = above, .x_N = from},
        {});
  });
}

TEST_P(HostKernels, UpdateBitsDoNotDependOnThePlace) {
  const std::int64_t n = 200, shift = 37, rest = n - shift;
  for (const UpdateRule& rule : every_update_rule) {
    const Array w(DType::f32, {n}, 1), m(DType::f32, {n}, 2), g(DType::f32, {n}, 4),
        copy(type(), {n});
    Array v(DType::f32, {n}, 3);
    for (std::int64_t i = 0; i < n; ++i) v.set(i, std::fabs(v[i]));
    const Array w2(w), m2(m), v2(v), copy2(type(), {n});
    const auto step = [&](const View& master, const View& narrow, const View& grad,
                          std::vector<View> state) {
      state.resize(arrays_of(rule).size());
      host::run(kernel::Update{.rule = rule,
                               .shards = {{.master_N = master,
                                           .copy_N = narrow,
                                           .grad_N = grad,
                                           .state_N = std::move(state),
                                           .factors = {0.01, 0.1, 0.7, 3}}}},
                {});
    };
    const auto tail = [&](const Array& a) { return a.view().slice(0, shift, rest); };
    step(w, copy, g, {m, v});
    step(tail(w2), tail(copy2), tail(g), {tail(m2), tail(v2)});
    for (const auto& [a, b] : {std::pair{&w, &w2}, {&m, &m2}, {&v, &v2}, {&copy, &copy2}})
      EXPECT_EQ(a->bytes(shift, rest), b->bytes(shift, rest));
  }
}

// A row's bits are the same in any matrix.
TEST_P(HostKernels, RowsDoNotDependOnTheirMatrix) {
  const std::int64_t rows = 9, width = 83, at = 5;
  const Array x(type(), {rows, width}, 1), w(type(), {width}, 2), b(type(), {width}, 3),
      dy(type(), {rows, width}, 4);
  const Array y(type(), {rows, width}), mean(DType::f32, {rows}), rstd(DType::f32, {rows});
  const auto row = [&](const Array& a) { return a.view().slice(0, at, 1); };
  const Array one(type(), {1, width}), one_mean(DType::f32, {1}), one_rstd(DType::f32, {1});

  host::run(
      kernel::Norm{
          .y_TC = y, .mean_T = mean, .rstd_T = rstd, .x_TC = x, .w_C = w, .b_C = b, .eps = 1e-5},
      {});
  host::run(kernel::Norm{.y_TC = one,
                         .mean_T = one_mean,
                         .rstd_T = one_rstd,
                         .x_TC = row(x),
                         .w_C = w,
                         .b_C = b,
                         .eps = 1e-5},
            {});
  EXPECT_EQ(one.bytes(), y.bytes(at, 1));
  EXPECT_EQ(one_mean[0], mean[at]);
  host::run(
      kernel::NormGrad{
          .dx_TC = y, .dy_TC = dy, .x_TC = x, .w_C = w, .mean_T = mean, .rstd_T = rstd},
      {});
  host::run(kernel::NormGrad{.dx_TC = one,
                             .dy_TC = row(dy),
                             .x_TC = row(x),
                             .w_C = w,
                             .mean_T = row(mean),
                             .rstd_T = row(rstd)},
            {});
  EXPECT_EQ(one.bytes(), y.bytes(at, 1));

  List<std::int32_t> targets{std::vector<std::int32_t>(rows, 7)};
  List<double> loss{{0}};
  const Array logits(x), one_logits(type(), {1, width});
  host::run(kernel::Copy{.dst = one_logits, .src = row(x)}, {});
  host::run(kernel::CrossEntropy{.loss = loss.view(),
                                 .logits_TV = logits,
                                 .target_T = targets.view(),
                                 .scale = 0.3,
                                 .logits = Logits::become_gradient},
            scratch());
  host::run(kernel::CrossEntropy{.loss = loss.view(),
                                 .logits_TV = one_logits,
                                 .target_T = targets.view().slice(0, 0, 1),
                                 .scale = 0.3,
                                 .logits = Logits::become_gradient},
            scratch());
  EXPECT_EQ(one_logits.bytes(), logits.bytes(at, 1));
}

TEST_P(HostKernels, SumsDoNotDependOnThreadsOrScratch) {
  const std::int64_t rows = 1000, width = 70;
  const Array x(type(), {rows, width}, 1), dy(type(), {rows, width}, 2), w(type(), {width}, 3),
      mean(DType::f32, {rows}, 4), rstd(DType::f32, {rows}, 5);
  expect_same_on_any_threads([&] {
    const Array sum(DType::f32, {width});
    host::run(kernel::ColumnSum{.out_C = sum, .x_TC = x}, scratch());
    return sum.bytes();
  });
  expect_same_on_any_threads([&] {
    const Array dx(type(), {rows, width}), d(DType::f32, {2, width});
    host::run(kernel::NormGrad{.dx_TC = dx,
                               .dw_C = d.view().slice(0, 0, 1),
                               .db_C = d.view().slice(0, 1, 1),
                               .dy_TC = dy,
                               .x_TC = x,
                               .w_C = w,
                               .mean_T = mean,
                               .rstd_T = rstd},
              scratch());
    auto all = d.bytes();
    const auto dx_bytes = dx.bytes();
    all.insert(all.end(), dx_bytes.begin(), dx_bytes.end());
    return all;
  });
  expect_same_on_any_threads([&] {
    List<double> out{{0}};
    host::run(kernel::SumSquares{.out_N = out.view(), .x = {x}}, scratch());
    Bytes bytes(8);
    std::memcpy(bytes.data(), out.values.data(), 8);
    return bytes;
  });

  // With room for three chunks at a time the partial sums are added in rounds: the same sum but for
  // the rounding of 63 additions of at most 1,000 * 3.
  const Array all(DType::f32, {width}), rounds(DType::f32, {width});
  host::run(kernel::ColumnSum{.out_C = all, .x_TC = x}, scratch());
  host::run(kernel::ColumnSum{.out_C = rounds, .x_TC = x}, scratch(3 * width * 4));
  for (std::int64_t c = 0; c < width; ++c) {
    EXPECT_NEAR(all[c], rounds[c], 2 * 63 * 3000 * 0x1p-24);
  }
  const Array once(DType::f32, {width});
  host::run(kernel::ColumnSum{.out_C = once, .x_TC = x.view().slice(0, 0, 0)}, scratch());
  EXPECT_EQ(once[0], 0);
}

TEST_P(HostKernels, SumOfSquaresIsFiniteWhenAllElementsAre) {
  const Array x(type(), {100}, 1);
  List<double> out{{0}};
  double exact = 0;
  for (std::int64_t i = 0; i < 100; ++i) exact += static_cast<double>(x[i]) * x[i];
  host::run(kernel::SumSquares{.out_N = out.view(), .x = {x}}, scratch());
  EXPECT_NEAR(out.values[0], exact, 100 * exact * 0x1p-53);
  Array huge(x);
  huge.set(99, 3e38F);
  host::run(kernel::SumSquares{.out_N = out.view(), .x = {huge}}, scratch());
  EXPECT_TRUE(std::isfinite(out.values[0]));
  huge.set(70, std::numeric_limits<float>::quiet_NaN());
  host::run(kernel::SumSquares{.out_N = out.view(), .x = {huge}}, scratch());
  EXPECT_FALSE(std::isfinite(out.values[0]));
}

// Each element has the number of its place in the sample, also where groups of four straddle rows
// and where the rows are cut out of the sequence.
TEST_P(HostKernels, DropoutDrawsByPlaceInTheSample) {
  const std::int64_t samples = 2, tokens = 700, width = 13, t0 = 3;
  const Array x(type(), {samples, tokens, width}, 1), skip(type(), {samples, tokens, width}, 2),
      y(type(), {samples, tokens, width});
  const List<std::int64_t> sample{{5, std::int64_t{1} << 40}};
  const DropoutKey key{99, 0.3F};
  host::run(kernel::Dropout{.y_BTC = y, .x_BTC = x, .key = key, .rows = {sample.view(), t0}}, {});
  std::int64_t wrong = 0;
  for (std::int64_t b = 0; b < samples; ++b) {
    for (std::int64_t e = 0; e < tokens * width; ++e) {
      const auto place = static_cast<std::uint64_t>(t0 * width + e);
      const auto r =
          philox4x32(key.key, place / 4,
                     static_cast<std::uint64_t>(sample.values[static_cast<std::size_t>(b)]));
      const auto i = b * tokens * width + e;
      const bool kept = unit_float(r[place % 4]) >= key.p;
      wrong += (y[i] != 0) != (kept && x[i] != 0);
    }
  }
  EXPECT_EQ(wrong, 0);

  // With a skip connection, also in place; and the last 100 positions of the first sample alone.
  const Array added(type(), {samples, tokens, width}), in_place(skip);
  host::run(
      kernel::Dropout{
          .y_BTC = added, .x_BTC = x, .skip_BTC = skip, .key = key, .rows = {sample.view(), t0}},
      {});
  host::run(kernel::Dropout{.y_BTC = in_place,
                            .x_BTC = x,
                            .skip_BTC = in_place,
                            .key = key,
                            .rows = {sample.view(), t0}},
            {});
  EXPECT_EQ(in_place.bytes(), added.bytes());
  const auto last = [&](const Array& a) {
    return a.view().slice(0, 0, 1).slice(1, tokens - 100, 100);
  };
  const Array part(type(), {1, 100, width}), expected(type(), {1, 100, width});
  host::run(kernel::Dropout{.y_BTC = part,
                            .x_BTC = last(x),
                            .skip_BTC = last(skip),
                            .key = key,
                            .rows = {sample.view().slice(0, 0, 1), t0 + tokens - 100}},
            {});
  host::run(kernel::Copy{.dst = expected, .src = last(added)}, {});
  EXPECT_EQ(part.bytes(), expected.bytes());

  // Nothing is dropped at p = 0.
  host::run(
      kernel::Dropout{.y_BTC = added, .x_BTC = x, .key = {99, 0}, .rows = {sample.view(), t0}}, {});
  EXPECT_EQ(added.bytes(), x.bytes());
}

TEST_P(HostKernels, EmbeddingGradientAddsRowsOfAnIdInOrder) {
  const std::int64_t rows = 50, vocab = 4, width = 70;
  const Array dy(type(), {rows, width}, 1), table(DType::f32, {vocab, width}, 2);
  List<std::int32_t> ids{std::vector<std::int32_t>(rows)};
  for (std::size_t t = 0; t < ids.values.size(); ++t) ids.values[t] = static_cast<int>(t * t % 3);
  Array expected(table);
  for (std::int64_t t = 0; t < rows; ++t) {
    for (std::int64_t c = 0; c < width; ++c) {
      const auto at = ids.values[static_cast<std::size_t>(t)] * width + c;
      expected.set(at, expected[at] + dy[t * width + c]);
    }
  }
  host::run(
      kernel::EmbeddingGrad{
          .dtable_VC = table, .how = Accumulate::add, .dy_TC = dy, .ids_T = ids.view()},
      scratch());
  EXPECT_EQ(table.bytes(), expected.bytes());
  host::run(kernel::EmbeddingGrad{.dtable_VC = table, .dy_TC = dy, .ids_T = ids.view()}, scratch());
  EXPECT_EQ(table[3 * width], 0);  // no row has this id
}

INSTANTIATE_TEST_SUITE_P(Types, HostKernels, testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

}  // namespace
}  // namespace trireme
