// What the comparison of backends does not see: a result's bits depend neither on the number of
// threads, nor on where an element stands in its array, nor on how much scratch there is. And
// copies of every stride.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/host/host.hpp"
#include "kernels/host/kernels.hpp"
#include "kernels/host/parallel.hpp"

namespace trireme {
namespace {

using Bytes = std::vector<std::byte>;

// Memory with one element of padding in front, so that it is not aligned.
class Array {
 public:
  Array(DType t, const Shape& s)
      : bytes_(static_cast<std::size_t>(s.count() + 1) * bytes_of(t)),
        view_(bytes_.data() + bytes_of(t), t, s) {}
  // Values in [-amplitude, amplitude).
  Array(DType t, const Shape& s, std::uint64_t seed, float amplitude = 3) : Array(t, s) {
    for (std::int64_t i = 0; i < s.count(); ++i) {
      const auto r = philox4x32(seed, static_cast<std::uint64_t>(i), 0);
      set(i, amplitude * (2 * unit_float(r[0]) - 1));
    }
  }
  Array(const Array& a) : bytes_(a.bytes_), view_(a.view_) {
    view_.data = bytes_.data() + bytes_of(view_.dtype);
  }
  Array& operator=(const Array&) = delete;

  View view() const { return view_; }
  operator View() const { return view_; }
  operator ConstView() const { return view_; }
  void set(std::int64_t i, float x) {
    const auto store = [&](auto v) {
      std::memcpy(view_.data + static_cast<std::size_t>(i) * sizeof v, &v, sizeof v);
    };
    if (view_.dtype == DType::bf16) {
      store(bf16(x));
    } else {
      store(x);
    }
  }
  float operator[](std::int64_t i) const {
    const auto* p = view_.data + static_cast<std::size_t>(i) * bytes_of(view_.dtype);
    if (view_.dtype == DType::bf16) {
      bf16 x;
      std::memcpy(&x, p, sizeof x);
      return static_cast<float>(x);
    }
    float x = 0;
    std::memcpy(&x, p, sizeof x);
    return x;
  }
  Bytes bytes() const { return bytes_of_view(view_); }
  // Of elements [begin, begin + n) of the outermost dim.
  Bytes bytes(std::int64_t begin, std::int64_t n) const {
    return bytes_of_view(view_.slice(0, begin, n));
  }

 private:
  static Bytes bytes_of_view(const View& v) { return {v.data, v.data + v.span_bytes()}; }

  Bytes bytes_;
  View view_;
};

template <class T>
struct List {  // ids, sample numbers, sums
  std::vector<T> values;
  View view() const {
    return View(reinterpret_cast<std::byte*>(const_cast<T*>(values.data())), dtype_of<T>,
                {static_cast<std::int64_t>(values.size())});
  }
};

class HostKernels : public testing::TestWithParam<DType> {
 protected:
  DType type() const { return GetParam(); }
  View scratch(std::size_t bytes = std::size_t{1} << 20) {
    scratch_.resize(bytes);
    return View(scratch_.data(), DType::f32, {static_cast<std::int64_t>(bytes / 4)});
  }
  // make() leaves the same bytes with one thread and with three.
  template <class Make>
  void expect_same_on_any_threads(const Make& make) {
    host::set_threads(1);
    const Bytes one = make();
    host::set_threads(3);
    EXPECT_EQ(one, make());
    host::set_threads(1);
  }

 private:
  Host host_{1};
  Bytes scratch_;
};

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
  compare([](View to, View, View from) { host::gelu(to, from); });
  compare([](View to, View above, View from) { host::gelu_grad(to, above, from); });
}

TEST_P(HostKernels, UpdateBitsDoNotDependOnThePlace) {
  const std::int64_t n = 200, shift = 37, rest = n - shift;
  const Array w(DType::f32, {n}, 1), m(DType::f32, {n}, 2), g(DType::f32, {n}, 4),
      copy(type(), {n});
  Array v(DType::f32, {n}, 3);
  for (std::int64_t i = 0; i < n; ++i) v.set(i, std::fabs(v[i]));
  const AdamW how{0.01, 0.9, 0.95, 1e-8, 0.1, 0.7, 3};
  const Array w2(w), m2(m), v2(v), copy2(type(), {n});
  host::adamw(w, m, v, copy, g, how);
  const auto tail = [&](const Array& a) { return a.view().slice(0, shift, rest); };
  host::adamw(tail(w2), tail(m2), tail(v2), tail(copy2), tail(g), how);
  for (const auto& [a, b] : {std::pair{&w, &w2}, {&m, &m2}, {&v, &v2}, {&copy, &copy2}}) {
    EXPECT_EQ(a->bytes(shift, rest), b->bytes(shift, rest));
  }
  const Sgd step{0.01, 0.1, 0.7};
  host::sgd(w, copy, g, step);
  host::sgd(tail(w2), tail(copy2), tail(g), step);
  EXPECT_EQ(w.bytes(shift, rest), w2.bytes(shift, rest));
  EXPECT_EQ(copy.bytes(shift, rest), copy2.bytes(shift, rest));
}

// A row's bits are the same in any matrix.
TEST_P(HostKernels, RowsDoNotDependOnTheirMatrix) {
  const std::int64_t rows = 9, width = 83, at = 5;
  const Array x(type(), {rows, width}, 1), w(type(), {width}, 2), b(type(), {width}, 3),
      dy(type(), {rows, width}, 4);
  const Array y(type(), {rows, width}), mean(DType::f32, {rows}), rstd(DType::f32, {rows});
  const auto row = [&](const Array& a) { return a.view().slice(0, at, 1); };
  const Array one(type(), {1, width}), one_mean(DType::f32, {1}), one_rstd(DType::f32, {1});

  host::layer_norm(y, mean, rstd, x, w, b, 1e-5);
  host::layer_norm(one, one_mean, one_rstd, row(x), w, b, 1e-5);
  EXPECT_EQ(one.bytes(), y.bytes(at, 1));
  EXPECT_EQ(one_mean[0], mean[at]);
  host::layer_norm_grad(y, {}, {}, Accumulate::overwrite, dy, x, w, mean, rstd, {});
  host::layer_norm_grad(one, {}, {}, Accumulate::overwrite, row(dy), row(x), w, row(mean),
                        row(rstd), {});
  EXPECT_EQ(one.bytes(), y.bytes(at, 1));

  List<std::int32_t> targets{std::vector<std::int32_t>(rows, 7)};
  List<double> loss{{0}};
  const Array logits(x), one_logits(type(), {1, width});
  host::copy(one_logits, row(x), Accumulate::overwrite);
  host::cross_entropy(loss.view(), Accumulate::overwrite, logits, targets.view(), 0.3,
                      Logits::become_gradient, scratch());
  host::cross_entropy(loss.view(), Accumulate::overwrite, one_logits, targets.view().slice(0, 0, 1),
                      0.3, Logits::become_gradient, scratch());
  EXPECT_EQ(one_logits.bytes(), logits.bytes(at, 1));
}

TEST_P(HostKernels, SumsDoNotDependOnThreadsOrScratch) {
  const std::int64_t rows = 1000, width = 70;
  const Array x(type(), {rows, width}, 1), dy(type(), {rows, width}, 2), w(type(), {width}, 3),
      mean(DType::f32, {rows}, 4), rstd(DType::f32, {rows}, 5);
  expect_same_on_any_threads([&] {
    const Array sum(DType::f32, {width});
    host::column_sum(sum, Accumulate::overwrite, x, scratch());
    return sum.bytes();
  });
  expect_same_on_any_threads([&] {
    const Array dx(type(), {rows, width}), d(DType::f32, {2, width});
    host::layer_norm_grad(dx, d.view().slice(0, 0, 1), d.view().slice(0, 1, 1),
                          Accumulate::overwrite, dy, x, w, mean, rstd, scratch());
    auto all = d.bytes();
    const auto dx_bytes = dx.bytes();
    all.insert(all.end(), dx_bytes.begin(), dx_bytes.end());
    return all;
  });
  expect_same_on_any_threads([&] {
    List<double> out{{0}};
    host::sum_squares(out.view(), x, scratch());
    Bytes bytes(8);
    std::memcpy(bytes.data(), out.values.data(), 8);
    return bytes;
  });

  // With room for three chunks at a time the partial sums are added in rounds: the same sum but for
  // the rounding of 63 additions of at most 1,000 * 3.
  const Array all(DType::f32, {width}), rounds(DType::f32, {width});
  host::column_sum(all, Accumulate::overwrite, x, scratch());
  host::column_sum(rounds, Accumulate::overwrite, x, scratch(3 * width * 4));
  for (std::int64_t c = 0; c < width; ++c) {
    EXPECT_NEAR(all[c], rounds[c], 2 * 63 * 3000 * 0x1p-24);
  }
  const Array once(DType::f32, {width});
  host::column_sum(once, Accumulate::overwrite, x.view().slice(0, 0, 0), scratch());
  EXPECT_EQ(once[0], 0);
}

TEST_P(HostKernels, SumOfSquaresIsFiniteWhenAllElementsAre) {
  const Array x(type(), {100}, 1);
  List<double> out{{0}};
  double exact = 0;
  for (std::int64_t i = 0; i < 100; ++i) exact += static_cast<double>(x[i]) * x[i];
  host::sum_squares(out.view(), x, scratch());
  EXPECT_NEAR(out.values[0], exact, 100 * exact * 0x1p-53);
  Array huge(x);
  huge.set(99, 3e38F);
  host::sum_squares(out.view(), huge, scratch());
  EXPECT_TRUE(std::isfinite(out.values[0]));
  huge.set(70, std::numeric_limits<float>::quiet_NaN());
  host::sum_squares(out.view(), huge, scratch());
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
  host::dropout(y, x, {}, key, {sample.view(), t0});
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
  host::dropout(added, x, skip, key, {sample.view(), t0});
  host::dropout(in_place, x, in_place, key, {sample.view(), t0});
  EXPECT_EQ(in_place.bytes(), added.bytes());
  const auto last = [&](const Array& a) {
    return a.view().slice(0, 0, 1).slice(1, tokens - 100, 100);
  };
  const Array part(type(), {1, 100, width}), expected(type(), {1, 100, width});
  host::dropout(part, last(x), last(skip), key, {sample.view().slice(0, 0, 1), t0 + tokens - 100});
  host::copy(expected, last(added), Accumulate::overwrite);
  EXPECT_EQ(part.bytes(), expected.bytes());

  // Nothing is dropped at p = 0.
  host::dropout(added, x, {}, {99, 0}, {sample.view(), t0});
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
  host::embedding_grad(table, Accumulate::add, dy, ids.view(), scratch());
  EXPECT_EQ(table.bytes(), expected.bytes());
  host::embedding_grad(table, Accumulate::overwrite, dy, ids.view(), scratch());
  EXPECT_EQ(table[3 * width], 0);  // no row has this id
}

// A view of `base` with its dims in another order.
template <class V>
V permuted(const V& base, std::span<const int> order) {
  V v = base;
  for (std::size_t d = 0; d < order.size(); ++d) {
    v.extent[d] = base.extent[static_cast<std::size_t>(order[d])];
    v.stride[d] = base.stride[static_cast<std::size_t>(order[d])];
  }
  return v;
}

std::int64_t offset(const View& v, std::int64_t i) {
  std::int64_t at = 0;
  for (int d = v.dims; d-- > 0;) {
    const auto n = v.extent[static_cast<std::size_t>(d)];
    at += i % n * v.stride[static_cast<std::size_t>(d)];
    i /= n;
  }
  return at;
}

// dst and src are views into the arrays; dst and expected start with the same elements.
void expect_copied(const Array& to, const View& dst, const Array& from, const View& src,
                   Accumulate how) {
  Array expected(to);
  const auto first = [](const Array& a, const View& v) {
    return (v.data - a.view().data) / static_cast<std::ptrdiff_t>(bytes_of(v.dtype));
  };
  for (std::int64_t i = 0; i < dst.count(); ++i) {
    const auto at = first(to, dst) + offset(dst, i);
    const float x = from[first(from, src) + offset(src, i)];
    expected.set(at, how == Accumulate::add ? expected[at] + x : x);
  }
  host::copy(dst, src, how);
  EXPECT_EQ(to.bytes(), expected.bytes());
}

TEST_P(HostKernels, CopiesBetweenAnyStrides) {
  const Shape shape{35, 3, 2, 1, 2, 41};
  constexpr int orders[][6] = {{0, 1, 2, 3, 4, 5}, {0, 2, 1, 3, 4, 5}, {5, 4, 3, 2, 1, 0},
                               {4, 1, 0, 3, 5, 2}, {1, 5, 0, 4, 2, 3}, {0, 3, 2, 1, 4, 5}};
  for (const auto to_type : {DType::f32, DType::bf16}) {
    for (const auto& order : orders) {
      for (const auto how : {Accumulate::overwrite, Accumulate::add}) {
        const Array from(type(), shape, 1);
        const View src = permuted(from.view(), order);
        // Into a dense view, and into one with gaps.
        const Array dense(to_type,
                          {src.extent[0], src.extent[1], src.extent[2], src.extent[3],
                           src.extent[4], src.extent[5]},
                          2);
        expect_copied(dense, dense, from, src, how);
        const Array wide(to_type,
                         {src.extent[0], src.extent[1] + 1, src.extent[2], src.extent[3],
                          src.extent[4] + 3, src.extent[5]},
                         2);
        expect_copied(wide, wide.view().slice(1, 1, src.extent[1]).slice(4, 2, src.extent[4]), from,
                      src, how);
        // And back: dst is permuted.
        const Array back(to_type, shape, 3);
        const Array source(type(),
                           {src.extent[0], src.extent[1], src.extent[2], src.extent[3],
                            src.extent[4], src.extent[5]},
                           4);
        expect_copied(back, permuted(back.view(), order), source, source, how);
      }
    }
  }
}

TEST_P(HostKernels, CopiesBroadcastLongRowsAndNothing) {
  const Array row(type(), {70}, 1), to(type(), {9, 70}, 2);
  View src = row.view();
  src.dims = 2;
  src.extent = {9, 70};
  src.stride = {0, 1};
  expect_copied(to, to, row, src, Accumulate::add);
  src.stride = {0, 0};
  expect_copied(to, to, row, src, Accumulate::overwrite);
  const Array a(type(), {2, 100'003}, 3), b(DType::f32, {2, 100'001}, 4);
  expect_copied(b, b, a, a.view().slice(1, 1, 100'001), Accumulate::overwrite);
  expect_copied(a, a.view().slice(1, 2, 100'001), b, b, Accumulate::add);
  host::copy(to.view().slice(0, 0, 0), row.view().reshaped({1, 70}).slice(0, 0, 0),
             Accumulate::add);
  const Array one(type(), {1, 1, 1}, 5), other(type(), {1, 1, 1}, 6);
  expect_copied(one, one, other, other, Accumulate::add);
}

// Large enough to go around the caches, and not aligned.
TEST_P(HostKernels, CopiesAndFillsLargeArrays) {
  const std::int64_t n = 4'300'007;
  const Array from(type(), {n}, 1), to(type(), {n});
  host::copy(to, from, Accumulate::overwrite);
  EXPECT_TRUE(to.bytes() == from.bytes());
  host::fill(to.view().slice(0, 3, n - 5), 0.5);
  for (const std::int64_t kept : {0L, 1L, 2L, n - 2, n - 1}) EXPECT_EQ(to[kept], from[kept]);
  std::int64_t wrong = 0;
  for (std::int64_t i = 3; i < n - 2; ++i) wrong += to[i] != 0.5F;
  EXPECT_EQ(wrong, 0);
}

TEST_P(HostKernels, FillsViewsOfAnyStrides) {
  const Array x(type(), {70, 9}, 1);
  Array expected(x);
  for (std::int64_t t = 0; t < 70; ++t) {
    for (std::int64_t c = 2; c < 7; ++c) expected.set(t * 9 + c, -1.5F);
  }
  host::fill(x.view().slice(1, 2, 5), -1.5);
  EXPECT_EQ(x.bytes(), expected.bytes());
  const List<std::int64_t> numbers{{1, 2, 3}};
  host::fill(numbers.view(), 7);
  EXPECT_EQ(numbers.values, std::vector<std::int64_t>(3, 7));
}

INSTANTIATE_TEST_SUITE_P(Types, HostKernels, testing::Values(DType::f32, DType::bf16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

}  // namespace
}  // namespace trireme
