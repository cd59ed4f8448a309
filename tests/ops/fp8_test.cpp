// A linear layer in fp8: its three products are those of operands that are rounded here, by the
// definition, with groups along the dimension that is summed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/host/host.hpp"
#include "kernels/ref/ref.hpp"
#include "lib/ops/head.hpp"
#include "lib/ops/linear.hpp"
#include "lib/ops/mlp.hpp"
#include "tests/support/op_check.hpp"

namespace trireme {
namespace {

constexpr std::int64_t T = 144, C = 160, N = 272;

struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;
  double operator()(std::int64_t r, std::int64_t c) const {
    return values[static_cast<std::size_t>(r * columns + c)];
  }
};

Matrix transposed(const Matrix& m) {
  Matrix t{m.columns, m.rows, {}};
  for (std::int64_t c = 0; c < m.columns; ++c)
    for (std::int64_t r = 0; r < m.rows; ++r) t.values.push_back(m(r, c));
  return t;
}

// The nearest number with 3 bits of mantissa and exponents from -6 on. Ties do not occur among
// random numbers.
double nearest(double x) {
  const int exponent = std::max(-6, x == 0 ? -6 : std::ilogb(x));
  return std::ldexp(std::nearbyint(std::ldexp(x, 3 - exponent)), exponent - 3);
}

// Groups have `rows` rows and 128 columns.
Matrix rounded(const Matrix& m, std::int64_t rows) {
  Matrix y = m;
  for (std::int64_t r0 = 0; r0 < m.rows; r0 += rows)
    for (std::int64_t c0 = 0; c0 < m.columns; c0 += 128) {
      const auto each = [&](const auto& f) {
        for (auto r = r0; r < std::min(m.rows, r0 + rows); ++r)
          for (auto c = c0; c < std::min(m.columns, c0 + 128); ++c)
            f(y.values[static_cast<std::size_t>(r * m.columns + c)]);
      };
      double largest = 0;
      each([&](double& x) { largest = std::max(largest, std::fabs(x)); });
      if (largest == 0) continue;
      const double scale = std::exp2(std::ceil(std::log2(largest / 448)));
      each([&](double& x) { x = nearest(x / scale) * scale; });
    }
  return y;
}

// a b' in double.
std::vector<double> product(const Matrix& a, const Matrix& b) {
  std::vector<double> c;
  for (std::int64_t m = 0; m < a.rows; ++m)
    for (std::int64_t n = 0; n < b.rows; ++n) {
      double sum = 0;
      for (std::int64_t k = 0; k < a.columns; ++k) sum += a(m, k) * b(n, k);
      c.push_back(sum);
    }
  return c;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double slack) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], slack) << i;
}

OpCase linear_in_fp8() {
  OpCase c;
  c.name = "linear in fp8";
  c.make = [](Backend&, DType) {
    return std::make_unique<ops::Linear>(ParamId{0}, ParamId{1}, N, ProductType::fp8);
  };
  c.in = {random_numbers({1, T, C}, 1)};
  c.params = {random_numbers({N, C}, 2), random_numbers({N}, 3)};
  c.grad_out = random_numbers({1, T, N}, 4);
  c.rows = T;
  c.slack = {.y = 0, .in = {0}, .params = {0, 0}};  // compared below
  return c;
}

// Sums of up to T, C or N terms below 1, in f32.
TEST(Fp8Linear, ProductsAreThoseOfRoundedOperands) {
  const auto c = linear_in_fp8();
  for (const bool host : {false, true}) {
    const auto run = run_op(
        [&]() -> std::unique_ptr<Backend> {
          if (host) return std::make_unique<Host>(2);
          return std::make_unique<Ref>();
        },
        DType::f32, c);
    // The numbers that the op saw are those of f32.
    const auto in_f32 = [](Matrix m) {
      for (auto& x : m.values) x = static_cast<double>(static_cast<float>(x));
      return m;
    };
    const Matrix x = in_f32({T, C, c.in[0].values}), w = in_f32({N, C, c.params[0].values}),
                 dy = in_f32({T, N, c.grad_out.values});
    constexpr std::int64_t tile = 128;
    auto y = product(rounded(x, 1), rounded(w, tile));
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] += static_cast<double>(static_cast<float>(c.params[1].values[i % N]));
    const auto slack = [](std::int64_t terms) {
      return sum_error(DType::f32, terms + 1, static_cast<double>(terms + 1));
    };
    expect_near(run["y"].values, y, slack(C));
    expect_near(run["dx0"].values, product(rounded(dy, 1), rounded(transposed(w), tile)), slack(N));
    expect_near(run["dw0"].values, product(rounded(transposed(dy), 1), rounded(transposed(x), 1)),
                slack(T));
    std::vector<double> bias_gradient(N, 0);
    for (std::int64_t t = 0; t < T; ++t)
      for (std::int64_t n = 0; n < N; ++n) bias_gradient[static_cast<std::size_t>(n)] += dy(t, n);
    expect_near(run["dw1"].values, bias_gradient, slack(T));
  }
}

// A sum over a leaf of 48 tokens has scales of its own, so a step's leaves decide its bits alone.
TEST(Fp8Linear, EachLeafIsRoundedAlone) {
  const auto c = linear_in_fp8();
  Ask ask;
  ask.cut.leaf = 48;
  const auto run = run_op([] { return std::make_unique<Ref>(); }, DType::f64, c, ask);
  std::vector<double> want(N * C, 0);
  for (std::int64_t begin = 0; begin < T; begin += 48) {
    const auto part = [&](const std::vector<double>& all, std::int64_t width) {
      return Matrix{48, width, {all.begin() + begin * width, all.begin() + (begin + 48) * width}};
    };
    const auto leaf = product(rounded(transposed(part(c.grad_out.values, N)), 1),
                              rounded(transposed(part(c.in[0].values, C)), 1));
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += leaf[i];
  }
  expect_near(run["dw0"].values, want, 1e-10);
}

// Two chunks of rows, the second one shorter. Each chunk's gradient of the weight has scales of its
// own.
TEST(Fp8Head, ProductsAreThoseOfRoundedOperands) {
  const auto rows = Ref().head_rows();
  const std::int64_t tokens = rows + 48, V = 144;
  OpCase c;
  c.name = "head in fp8";
  c.make = [=](Backend&, DType) {
    return std::make_unique<ops::Head>(ParamId{0}, V, 0, std::nullopt, ProductType::fp8);
  };
  c.in = {random_numbers({1, tokens, C}, 1)};
  c.params = {random_numbers({V, C}, 2)};
  c.grad_out.shape = {1};
  c.rows = tokens;
  for (std::int64_t t = 0; t < tokens; ++t)
    c.targets.push_back(t % 5 == 1 ? -1 : static_cast<std::int32_t>(7 * t % V));
  c.pass.scale = 0.3;
  c.slack = {.y = 0, .in = {0}, .params = {0}};
  const auto run = run_op([] { return std::make_unique<Ref>(); }, DType::f64, c);

  const Matrix x{tokens, C, c.in[0].values}, w{V, C, c.params[0].values};
  const auto z = product(rounded(x, 1), rounded(w, 128));
  Matrix dz{tokens, V, {}};
  double loss = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto* const row = z.data() + t * V;
    const auto target = c.targets[static_cast<std::size_t>(t)];
    double sum = 0;
    for (std::int64_t v = 0; v < V; ++v) sum += std::exp(row[v]);
    if (target >= 0) loss += std::log(sum) - row[target];
    for (std::int64_t v = 0; v < V; ++v)
      dz.values.push_back(target < 0 ? 0 : 0.3 * (std::exp(row[v]) / sum - (v == target)));
  }
  EXPECT_NEAR(run["y"].values[0], loss, 1e-9 * loss);
  // exp may differ in its last bit, which changes few codes of dz: each by 2^-4 of a term.
  const auto expect_mostly = [](const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    double off = 0, size = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      off += std::fabs(got[i] - want[i]);
      size += std::fabs(want[i]);
    }
    EXPECT_LT(off, 1e-5 * size);
  };
  expect_mostly(run["dx0"].values, product(rounded(dz, 1), rounded(transposed(w), 128)));
  std::vector<double> dw(static_cast<std::size_t>(V * C), 0);
  for (std::int64_t begin = 0; begin < tokens; begin += rows) {
    const auto n = std::min(rows, tokens - begin);
    const auto chunk = [&](const Matrix& m) {
      return Matrix{
          n,
          m.columns,
          {m.values.begin() + begin * m.columns, m.values.begin() + (begin + n) * m.columns}};
    };
    const auto part = product(rounded(transposed(chunk(dz)), 1), rounded(transposed(chunk(x)), 1));
    for (std::size_t i = 0; i < dw.size(); ++i) dw[i] += part[i];
  }
  expect_mostly(run["dw0"].values, dw);
}

// The MLP's activation and its derivative follow the products.
TEST(Fp8Linear, AnMlpIsItsLayersOneByOne) {
  constexpr std::int64_t F = 64;
  OpCase c;
  c.name = "mlp in fp8";
  c.make = [](Backend&, DType) {
    return std::make_unique<ops::Mlp>(ops::Linear(ParamId{0}, ParamId{}, F, ProductType::fp8),
                                      Activation::gelu,
                                      ops::Linear(ParamId{1}, ParamId{}, C, ProductType::fp8));
  };
  c.in = {random_numbers({1, T, C}, 1)};
  c.params = {random_numbers({F, C}, 2, 0.1), random_numbers({C, F}, 3, 0.1)};
  c.grad_out = random_numbers({1, T, C}, 4);
  c.rows = T;
  c.slack = {.y = 0, .in = {0}, .params = {0, 0}};
  const auto run = run_op([] { return std::make_unique<Ref>(); }, DType::f64, c);
  const Matrix x{T, C, c.in[0].values}, w1{F, C, c.params[0].values}, w2{C, F, c.params[1].values};
  const Matrix z{T, F, product(rounded(x, 1), rounded(w1, 128))}, dy{T, C, c.grad_out.values};
  const auto gelu = [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  Matrix h = z, dz{T, F, product(rounded(dy, 1), rounded(transposed(w2), 128))};
  for (std::size_t i = 0; i < h.values.size(); ++i) {
    constexpr double step = 1e-6;
    h.values[i] = gelu(z.values[i]);
    dz.values[i] *= (gelu(z.values[i] + step) - gelu(z.values[i] - step)) / (2 * step);
  }
  expect_near(run["y"].values, product(rounded(h, 1), rounded(w2, 128)), 1e-10);
  // A slope may be off by 1e-9, which changes few codes of dz: each by 2^-4 of a term below 1/10.
  const auto dx = product(rounded(dz, 1), rounded(transposed(w1), 128));
  expect_near(run["dx0"].values, dx, 0x1p-4 * 0.1);
  double off = 0;
  for (std::size_t i = 0; i < dx.size(); ++i) off += std::fabs(run["dx0"].values[i] - dx[i]);
  EXPECT_LT(off / static_cast<double>(dx.size()), 1e-5);
}

}  // namespace
}  // namespace trireme
