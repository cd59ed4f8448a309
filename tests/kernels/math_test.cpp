// The functors against long double over all of f32: every 1511th (6007th) bit pattern, so each
// exponent gets thousands of arguments, subnormals, infinities and NaNs included.
#include <gtest/gtest.h>
#include <immintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/math/dropout.hpp"
#include "kernels/math/exp.hpp"
#include "kernels/math/gelu.hpp"
#include "kernels/math/log.hpp"
#include "kernels/math/rotary.hpp"
#include "kernels/math/rsqrt.hpp"
#include "kernels/math/softcap.hpp"
#include "kernels/math/swiglu.hpp"
#include "kernels/math/update.hpp"

namespace trireme {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr long double unit = 0x1p-24L;  // half an ulp of 1: what one rounding costs, relatively

// Subnormals count here also after a host backend, which flushes them, ran in this process.
template <class Body>
void for_floats(std::uint64_t step, const Body& body) {
  _mm_setcsr(_mm_getcsr() & ~unsigned{_MM_FLUSH_ZERO_ON | _MM_DENORMALS_ZERO_ON});
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += step) {
    body(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
}

// Spacing of the floats around y.
double spacing(long double y) {
  return std::ldexp(1.0, std::max(-149, y == 0 ? -149 : std::ilogb(y) - 23));
}

// f is within `bound` ulp of exact; inf and NaN are where they belong.
template <class F, class Exact>
void expect_ulp(const F& f, const Exact& exact, double bound) {
  double worst = 0;
  float worst_at = 0;
  for_floats(1511, [&](float x) {
    const float y = f(x);
    const long double r = exact(static_cast<long double>(x));
    const auto rounded = static_cast<float>(r);
    if (std::isnan(r)) {
      EXPECT_TRUE(std::isnan(y)) << x;
    } else if (std::isinf(y) || std::isinf(rounded)) {
      EXPECT_EQ(y, rounded) << x;
    } else if (const double e = static_cast<double>(std::fabs(y - r)) / spacing(r); e > worst) {
      worst = e;
      worst_at = x;
    }
  });
  EXPECT_LE(worst, bound) << "at " << worst_at;
  EXPECT_GT(worst, 0);
}

// |f - exact| <= bound(x) for finite x; a NaN stays a NaN. Results below 2^-118 may be off by all
// of themselves: there the sigmoid no longer falls.
template <class F, class Exact, class Bound>
void expect_within(const F& f, const Exact& exact, const Bound& bound) {
  float worst_at = 0;
  long double worst = 0;  // error / bound
  for_floats(6007, [&](float x) {
    const float y = f(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(y));
    } else if (std::isfinite(x)) {
      const auto wide = static_cast<long double>(x);
      const long double e = std::fabs(y - exact(wide)) / (bound(wide) + 0x1p-118L);
      if (!(e <= worst)) worst = e, worst_at = x;
    }
  });
  EXPECT_LE(worst, 1) << "at " << worst_at;
}

long double sigmoid(long double x) {
  return 1 / (1 + std::exp(-x));
}

TEST(Math, Exp) {
  expect_ulp(
      math::exp, [](long double x) { return std::exp(x); }, 1);
  EXPECT_EQ(math::exp(0.0F), 1.0F);
  EXPECT_EQ(math::exp(-inf), 0.0F);
  EXPECT_EQ(math::exp(inf), inf);
}

TEST(Math, Log) {
  expect_ulp(
      math::log, [](long double x) { return std::log(x); }, 1);
  EXPECT_EQ(math::log(1.0F), 0.0F);
  EXPECT_EQ(math::log(0.0F), -inf);
}

TEST(Math, Rsqrt) {
  expect_ulp(
      math::rsqrt, [](long double x) { return 1 / std::sqrt(x); }, 1.5);
}

TEST(Math, Gelu) {
  constexpr long double a = 2 * 0.797884560802865355879892119868763737L, b = a * 0.044715L;
  const auto angle = [=](long double x) { return x * (a + b * x * x); };
  expect_within(
      math::gelu<>, [&](long double x) { return x * sigmoid(angle(x)); },
      [](long double x) { return 4 * unit * std::fabs(x); });
  const auto bent = [=](long double x) {
    const auto s = sigmoid(angle(x)), rest = sigmoid(-angle(x));
    return s == 0 || rest == 0 ? 0 : x * (a + 3 * b * x * x) * s * rest;
  };
  expect_within(
      math::gelu_derivative<>, [&](long double x) { return sigmoid(angle(x)) + bent(x); },
      [&](long double x) {
        const auto s = sigmoid(angle(x));
        return unit * (3 * s + (4 * std::min(fabsl(angle(x)), 200.0L) + 8) * fabsl(bent(x)));
      });
  EXPECT_EQ(math::gelu(inf), inf);
  EXPECT_EQ(math::gelu_derivative(inf), 1);
  EXPECT_NEAR(math::gelu(-inf), 0, 1e-36);
}

TEST(Math, Swiglu) {
  const auto bound = [](long double x) { return 4 * unit * std::fabs(x); };
  expect_within(
      math::silu<>, [](long double x) { return x * sigmoid(x); }, bound);
  expect_within([](float x) { return math::swiglu_gradient(1, x, 1).up; },
                [](long double x) { return x * sigmoid(x); }, bound);
  const auto bent = [](long double x) { return x * sigmoid(x) * sigmoid(-x); };
  expect_within([](float x) { return math::swiglu_gradient(1, x, 1).gate; },
                [&](long double x) { return sigmoid(x) + bent(x); },
                [&](long double x) { return unit * (5 * sigmoid(x) + 12 * fabsl(bent(x))); });
  const auto d = math::swiglu_gradient(3, 0.5F, -2);
  EXPECT_NEAR(d.gate, 3 * -2 * (sigmoid(0.5L) + 0.5L * sigmoid(0.5L) * sigmoid(-0.5L)), 8e-7);
  EXPECT_NEAR(d.up, 3 * 0.5L * sigmoid(0.5L), 2e-7);
  EXPECT_NEAR(math::swiglu(0.5F, -2), -2 * 0.5L * sigmoid(0.5L), 1e-7);
}

TEST(Math, Tanh) {
  expect_within(
      math::tanh<>, [](long double x) { return tanhl(x); },
      [](long double x) { return 6 * unit * fabsl(tanhl(x)); });
  EXPECT_EQ(math::tanh(inf), 1);
  EXPECT_EQ(math::tanh(-inf), -1);
  EXPECT_NEAR(math::capped(100, 30), 30 * tanhl(100 / 30.0L), 2e-5);
  EXPECT_NEAR(math::capped_slope(15, 30), 0.75, 1e-6);
}

TEST(Math, EverythingIsKnownWhenCompiling) {
  static_assert(math::exp(0.0F) == 1.0F && math::log(1.0F) == 0.0F);
  static_assert(math::rsqrt(4.0F) == 0.5F && math::gelu(0.0F) == 0.0F);
  static_assert(math::turn({1, 2}, 0, 1).x1 == -2 && math::turn({1, 2}, 0, 1).x2 == 1);
}

TEST(Math, TurnsThereAndBack) {
  const float c = 0.6F, s = 0.8F;
  const auto there = math::turn({3, -2}, c, s);
  EXPECT_FLOAT_EQ(there.x1, 3 * c + 2 * s);
  const auto back = math::turn(there, c, -s);
  EXPECT_NEAR(back.x1, 3, 4e-7);
  EXPECT_NEAR(back.x2, -2, 4e-7);
}

TEST(Math, DropoutKeepsWhatItsNumberSays) {
  const math::Dropout drop(0.25F);
  EXPECT_EQ(drop(3, 0x3fffffff), 0);          // just below p
  EXPECT_EQ(drop(3, 0x40000000), 3 / 0.75F);  // p itself
  EXPECT_EQ(math::Dropout(0)(3, 0), 3);
}

// Two steps by hand in double. A handful of roundings on values of the size of w.
TEST(Math, AdamW) {
  const double lr = 0.1, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, decay = 0.2, scale = 0.5;
  const auto formula = [&](std::int64_t count) {
    return math::formula_of(rule::AdamW{beta1, beta2, eps}, {lr, decay, scale, count});
  };
  double w = 1, m = 0, v = 0;
  float w_f = 1, m_f = 0, v_f = 0;
  for (int count = 1; count <= 2; ++count) {
    const float g = count == 1 ? 3.0F : -1.0F;
    m = beta1 * m + (1 - beta1) * g * scale;
    v = beta2 * v + (1 - beta2) * g * scale * g * scale;
    const double step = m / (1 - std::pow(beta1, count));
    w = w - lr * decay * w - lr * step / (std::sqrt(v / (1 - std::pow(beta2, count))) + eps);
    formula(count)(w_f, g, m_f, v_f);
    EXPECT_NEAR(w_f, w, 8 * unit * count);
    EXPECT_NEAR(m_f, m, 4 * unit * count);
    EXPECT_NEAR(v_f, v, 4 * unit * count);
  }
  formula(3)(w_f, nan, m_f, v_f);
  EXPECT_TRUE(std::isnan(w_f));
}

TEST(Math, Sgd) {
  float w = 3;
  math::formula_of(rule::Sgd{}, {0.1, 0.5, 2})(w, 4);
  EXPECT_FLOAT_EQ(w, 3 - 0.1F * (2 * 4 + 0.5F * 3));
}

// Two steps by hand: the gradient times scale is 2, then -1.
TEST(Math, Momentum) {
  for (const bool nesterov : {false, true}) {
    const auto formula = math::formula_of(rule::Momentum{0.5, nesterov}, {0.125, 0.5, 0.5});
    float w = 1, m = 0;
    formula(w, 4, m);
    EXPECT_EQ(m, 2);
    EXPECT_EQ(w, 1 - 0.125F * ((nesterov ? 3 : 2) + 0.5F));
    const float before = w;
    formula(w, -2, m);
    EXPECT_EQ(m, 0);
    EXPECT_EQ(w, before - 0.125F * ((nesterov ? -1 : 0) + 0.5F * before));
  }
}

TEST(Math, Lion) {
  const auto formula = math::formula_of(rule::Lion{0.5, 0.75}, {0.125, 0.5, 0.5});
  float w = 1, m = 0;
  formula(w, 4, m);
  EXPECT_EQ(w, 1 - 0.125F * (1 + 0.5F));
  EXPECT_EQ(m, 0.5F);
  const float before = w;
  formula(w, -1, m);  // 0.25 - 0.25
  EXPECT_EQ(w, before - 0.125F * 0.5F * before);
  formula(w, nan, m);
  EXPECT_TRUE(std::isnan(m));
}

}  // namespace
}  // namespace trireme
